"""Where models are computed: which device, its memory, how precisely it multiplies."""

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from unweave.errors import UnweaveError

__all__ = ["chosen_device", "keep_memory", "matmul_precision", "on_device"]


def chosen_device(device: str | torch.device | None) -> torch.device:
    """Where to compute: as asked for, or else a GPU where there is one."""
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if place.type == "cuda" and not torch.cuda.is_available():
        raise UnweaveError("there is no GPU that torch can use here; leave the device out")
    return place


def on_device(device: torch.device) -> AbstractContextManager[Any]:
    """While this holds, a GPU of several is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def keep_memory() -> None:
    """Let the C library keep what tensors have freed.

    By default it hands large blocks back at once, and a fleet on a CPU then spends a third of its
    time on the page faults of asking for them again.
    """
    mmap_threshold, trim_threshold, largest = -3, -1, 2**31 - 1
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's
    if mallopt is not None:
        mallopt(mmap_threshold, 1 << 30)
        mallopt(trim_threshold, largest)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """TF32 where asked for, and only there."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
