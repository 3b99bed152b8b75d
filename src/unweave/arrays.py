"""Arrays of any origin as NumPy and torch take them."""

from typing import Any

import numpy as np

__all__ = ["on_host", "writable"]


def on_host(values: Any) -> np.ndarray:
    """Lists, arrays and tensors, these from any device and without their gradients."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # NumPy has no such numbers. Whoever has no torch does not import it for this.
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    return np.asarray(values)


def writable(array: Any) -> Any:
    """A copy of what may only be read, as data frames give it: torch warns of sharing that."""
    locked = isinstance(array, np.ndarray) and not array.flags.writeable
    return array.copy() if locked else array
