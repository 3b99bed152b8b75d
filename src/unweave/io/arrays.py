"""Conversion of arrays and tensors for NumPy and torch."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["cast", "free_memory", "on_host", "writable"]

MEMORY = Path("/proc/meminfo")


def free_memory() -> int:
    """Return the available memory in bytes, or a very large number if it is unknown."""
    lines = MEMORY.read_text().splitlines() if MEMORY.exists() else []
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    return found[0] if found else 2**62


def on_host(values: Any) -> np.ndarray:
    """Convert lists, arrays or tensors on any device to a NumPy array, without gradients."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # NumPy has no bfloat16. The type is compared by name to avoid importing torch.
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    return np.asarray(values)


def cast(array: Any, dtype: str) -> Any:
    """Convert a tensor or an array to a type that both have, such as `"int16"`."""
    if isinstance(array, np.ndarray | np.generic):
        return array.astype(dtype)
    import torch

    return array.to(getattr(torch, dtype))


def writable(array: Any) -> Any:
    """Copy an array that torch cannot share: read-only, reversed or with swapped bytes."""
    if not isinstance(array, np.ndarray):
        return array
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return array if shared else array.copy()
