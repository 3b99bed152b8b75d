"""Images for trained models, in batches as large as their device takes well."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.io.arrays import writable
from unweave.kernels import FAST
from unweave.models.shapes import check_shape
from unweave.nets.layers import Conv
from unweave.nets.network import Network

__all__ = ["at_once", "batches"]

IMAGES_AT_ONCE = 65_536
"""On a GPU, over all models together, so that a large fleet takes no more memory than one."""
CACHED_IMAGES = 512
"""The same on a CPU, which is several times faster where a batch fits its caches."""
LARGEST = 2**30
"""Numbers in the largest image of one model's batch; kernels count in 32 bits."""
NEIGHBOURHOODS = 100
"""Numbers per pixel of an image where convolutions with 5 × 5 taps write neighbourhoods down."""


def at_once(
    networks: Iterable[Network], shape: tuple[int, int, int], models: int, device: torch.device
) -> int:
    """How many images, for each of so many models, are in a batch."""
    if device.type == "cpu":
        return max(64, CACHED_IMAGES // models)
    height, width, _ = shape
    each = NEIGHBOURHOODS if _with_neighbourhoods(networks) else 8
    return max(1, min(IMAGES_AT_ONCE // models, LARGEST // (each * height * width)))


def _with_neighbourhoods(networks: Iterable[Network]) -> bool:
    """Whether some convolution writes the neighbourhood of every pixel into memory."""
    layers = [layer for network in networks for layer in network.layers]
    return any(isinstance(layer, Conv) and layer.kernel not in FAST for layer in layers)


def batches(
    images: Any, seed: int, shape: tuple[int, int, int], count: int, device: torch.device
) -> Iterator[Tensor]:
    """Batches `[count, H, W, C]` on a device, the last one smaller.

    Args:
        images: Bytes or floats in [0, 1], `[n, H, W, C]` or a single one, NumPy or torch; or a
            data set, for all of its images.
        seed: For a data set whose images are random given their factors, the draw.
        shape: H, W and C that the models take.
        count: How many images are in a batch.
        device: Where they should be.
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
