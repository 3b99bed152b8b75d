"""Batches of images that fit a device, for encoding and decoding."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.io.arrays import writable
from unweave.models.images import check_shape
from unweave.nets.network import StackedNetwork

__all__ = ["batch_size", "batches"]

IMAGES_PER_BATCH = 65_536
"""Batch size on a GPU, over all models, so that memory does not grow with the fleet."""
CACHED_IMAGES = 512
"""Batch size on a CPU, over all models: several times faster if a batch fits the caches."""
MULTIPLE = 64
"""Divisor of batch sizes, since libraries choose kernels by the size of a batch."""
MAX_NUMBERS = 2**30
"""Largest number of activations per model and layer, since kernels use 32-bit indices."""
UNFOLDED_PER_PIXEL = 100
"""Numbers per input pixel for 5 × 5 convolutions, which store unfolded patches."""


def batch_size(
    networks: Iterable[StackedNetwork],
    shape: tuple[int, int, int],
    models: int,
    device: torch.device,
) -> int:
    """Return the batch size per model for encoding and decoding."""
    on_cpu = device.type == "cpu"
    shared = (CACHED_IMAGES if on_cpu else IMAGES_PER_BATCH) // models
    count = max(1, shared // MULTIPLE) * MULTIPLE
    if on_cpu:
        return count
    height, width, channels = shape
    unfolded = any(network.unfolds for network in networks)
    per_pixel = max(UNFOLDED_PER_PIXEL, 4 * channels) if unfolded else max(8, channels)
    most = MAX_NUMBERS // (per_pixel * height * width)
    return min(count, most // MULTIPLE * MULTIPLE or max(1, most))


def batches(
    images: Any, seed: int, shape: tuple[int, int, int], count: int, device: torch.device
) -> Iterator[Tensor]:
    """Yield batches `[count, H, W, C]` on a device; the last one may be smaller.

    `images` is any input of `Fleet.encode`, or a single image `[H, W, C]`.
    """
    if isinstance(images, Dataset):
        check_shape(shape, images.shape, images.name)
        data = images.to(device)
        for indices in torch.arange(len(data), device=device).split(count):
            yield data.inputs(indices, seed)
        return
    images = torch.as_tensor(writable(images))
    images = images[None] if images.ndim == 3 else images
    check_shape(shape, images.shape[1:], "this array")
    for part in images.split(count):
        pixels = part.to(device)
        bytes_ = not (part.is_floating_point() or part.dtype == torch.bool)
        yield pixels.byte() if bytes_ else pixels.float()
