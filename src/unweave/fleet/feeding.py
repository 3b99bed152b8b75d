"""Batches of images on disk for a GPU, read while the GPU trains on the previous ones.

The indices of a step are drawn on the GPU before it starts the step before, so that they are the
same as those of images on the GPU, and the host need not wait for that step to read them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from unweave.data.streaming import Streamed

__all__ = ["read_ahead"]

BUFFERS = 2
"""Batches in host memory: one is being read while the other is copied to the GPU."""


def read_ahead(
    images: Streamed, draws: Iterator[Sequence[Tensor]], device: torch.device
) -> Iterator[list[Tensor]]:
    """Yield the images of each draw, `[*S, B, H, W, C]` per tensor of indices `[*S, B]`.

    It always yields the same tensors, because a CUDA graph reads from fixed addresses.

    Args:
        images: Images on disk.
        draws: Indices of each step, on the GPU.
        device: The GPU, or in tests a CPU.
    """
    pinned = device.type == "cuda"
    on_gpu: list[Tensor] = []
    on_host: list[list[Tensor]] = []
    pending = _to_host(next(draws, None))
    turn = 0
    while pending is not None:
        indices, ready = pending
        if ready is not None:
            ready.synchronize()
        if not on_gpu:
            shapes = [(*one.shape, *images.shape) for one in indices]
            on_gpu = [torch.empty(shape, dtype=torch.uint8, device=device) for shape in shapes]
            on_host = [
                [torch.empty(shape, dtype=torch.uint8, pin_memory=pinned) for shape in shapes]
                for _ in range(BUFFERS)
            ]
        own = on_host[turn % BUFFERS]
        for buffer, one in zip(own, indices, strict=True):
            buffer.copy_(torch.from_numpy(np.ascontiguousarray(images.array[one.numpy()])))
        pending = _to_host(next(draws, None))
        for target, buffer in zip(on_gpu, own, strict=True):
            target.copy_(buffer, non_blocking=True)
        yield on_gpu
        turn += 1


def _to_host(
    indices: Sequence[Tensor] | None,
) -> tuple[list[Tensor], torch.cuda.Event | None] | None:
    """Start to copy indices to the host; the event tells when they are there."""
    if indices is None:
        return None
    if not any(one.is_cuda for one in indices):
        return list(indices), None
    copies = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in indices]
    for copy, one in zip(copies, indices, strict=True):
        copy.copy_(one, non_blocking=True)
    ready = torch.cuda.Event()
    ready.record()
    return copies, ready
