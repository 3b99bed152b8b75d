"""Device selection, memory allocation and matrix multiplication precision."""

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from unweave.errors import UnweaveError

__all__ = ["chosen_device", "keep_memory", "matmul_precision", "on_device"]


def chosen_device(device: str | torch.device | None) -> torch.device:
    """Return the given device; by default a GPU if available, else the CPU."""
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UnweaveError(f"device {device} is not available: torch found no GPU; omit device")
    return chosen


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """Make a GPU the current one within a context."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def keep_memory() -> None:
    """Let the C library keep freed memory for reuse.

    By default it returns large blocks to the system immediately, and a fleet on a CPU then spends
    a third of its time on page faults.
    """
    mmap_threshold, trim_threshold, largest = -3, -1, 2**31 - 1
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only in glibc
    if mallopt is not None:
        mallopt(mmap_threshold, 1 << 30)
        mallopt(trim_threshold, largest)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Use TF32 within a context if `precision` is `"tf32"`, else full float32."""
    tf32 = precision == "tf32"
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32  # convolutions of torch modules
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
