"""Arrays of any origin as NumPy's."""

from typing import Any

import numpy as np

__all__ = ["on_host"]


def on_host(values: Any) -> np.ndarray:
    """Lists, arrays and tensors, these from any device and without their gradients."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # NumPy has no such numbers. Whoever has no torch does not import it for this.
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    return np.asarray(values)
