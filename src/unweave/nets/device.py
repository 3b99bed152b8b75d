"""Device selection, memory allocation and matrix multiplication precision."""

import ctypes
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch

from unweave.errors import UnweaveError
from unweave.kernels import cpu
from unweave.kernels.threads import run_all

__all__ = ["chosen_device", "faster_precision", "keep_memory", "matmul_precision", "on_device"]

TRIALS = 3
MIN_SPEED_UP = 1.25
"""bf16 is used if convolutions are faster by at least this factor; with bf16 instructions, it is
about 2."""


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


def faster_precision(device: torch.device) -> str:
    """Return the precision that trains faster on a device, `"bf16"` or `"float32"`.

    A GPU always uses bf16. On a CPU, the convolutions of a typical layer are timed once per
    process. Without bf16 instructions, PyTorch emulates bf16, which is slower than float32.
    """
    if device.type == "cuda":
        return "bf16"
    return "bf16" if bf16_speed_up() >= MIN_SPEED_UP else "float32"


@cache
def bf16_speed_up() -> float:
    """Measure how many times faster bf16 convolutions are on the CPU than float32 ones."""
    (speed_up,) = run_all([_measure_speed_up])  # on one thread, like the training of a model
    return speed_up


@torch.no_grad()
def _measure_speed_up() -> float:
    fastest = {}
    for dtype in (torch.float32, torch.bfloat16):
        large = torch.zeros(1, cpu.IMAGES, 32, 32, 32, dtype=dtype)
        small = torch.zeros(1, cpu.IMAGES, 16, 16, 32, dtype=dtype)
        weight = torch.zeros(1, 4, 4, 32, 32, dtype=dtype)
        times = []
        for _ in range(1 + TRIALS):
            start = time.thread_time()  # unlike wall-clock time, not affected by other programs
            cpu.conv(large, weight)
            cpu.conv_transpose(small, weight)
            cpu.conv_weight_grad(large, small, 4)
            times.append(time.thread_time() - start)
        fastest[dtype] = min(times[1:])
    return fastest[torch.float32] / fastest[torch.bfloat16]
