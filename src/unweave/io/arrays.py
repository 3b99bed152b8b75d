"""Arrays of any origin as NumPy and torch take them."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["free_memory", "on_host", "writable"]

MEMORY = Path("/proc/meminfo")


def free_memory() -> int:
    """Bytes of memory that are free; more than anybody has where the system does not say."""
    lines = MEMORY.read_text().splitlines() if MEMORY.exists() else []
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    return found[0] if found else 2**62


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
