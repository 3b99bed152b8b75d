"""Batches of images, and differences between pairs of images (L1, L2, SSIM)."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from math import ceil
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset, as_floats
from unweave.errors import DataError
from unweave.io.arguments import renamed_arguments
from unweave.progress import track

__all__ = [
    "Images",
    "as_bytes",
    "batches",
    "check_side",
    "in_colour",
    "l1",
    "l2",
    "pairs",
    "reconstructions",
    "ssim",
    "tracked_batches",
]

Images: TypeAlias = Dataset | np.ndarray | Tensor | Iterable[Any]
"""A data set, an array of images `[N, H, W, C]` (bytes or floats in [0, 1], grey or colour), or an
iterable of such arrays for sets that do not fit in memory."""

BATCH = 64
CPU_VALUES, GPU_VALUES = 100_000, 2_000_000
"""Number of values that SSIM compares at once: few enough for the CPU cache, and to leave GPU
memory for models."""
WINDOW, DEVIATION = 11, 1.5
C1, C2 = 0.01**2, 0.03**2


def l1(images: Images, others: Images) -> np.ndarray:
    """Mean absolute difference of each pair of images.

        L1 = 1/P Σ_p |x_p - y_p|        over all pixels and channels, values in [0, 1]

    Args:
        images: Images `[N, H, W, C]`, see `Images`.
        others: Images to compare with, of the same shape.

    Returns:
        float64 `[N]`

    Example:
        >>> l1(np.zeros((2, 4, 4, 1)), np.full((2, 4, 4, 1), 0.5)).tolist()
        [0.5, 0.5]
    """
    return _each(images, others, lambda x, y: (x - y).abs().mean((1, 2, 3)))


def l2(images: Images, others: Images) -> np.ndarray:
    """Mean squared difference of each pair of images.

        L2 = 1/P Σ_p (x_p - y_p)²        over all pixels and channels, values in [0, 1]

    Arguments and return value are those of `l1`.

    Example:
        >>> l2(np.zeros((2, 4, 4, 1)), np.full((2, 4, 4, 1), 0.5)).tolist()
        [0.25, 0.25]
    """
    return _each(images, others, lambda x, y: (x - y).square().mean((1, 2, 3)))


def ssim(images: Images, others: Images) -> np.ndarray:
    """Structural similarity (SSIM) of each pair of images; 1 for identical images.

        SSIM = mean of (2 μ_x μ_y + C1) (2 σ_xy + C2) / [(μ_x² + μ_y² + C1) (σ_x² + σ_y² + C2)]

    over all positions of an 11 × 11 window inside the image, and all channels. Means, variances
    and covariance are weighted by a Gaussian of standard deviation 1.5 in the window;
    C1 = 0.01² and C2 = 0.03², for values in [0, 1].

    Args:
        images: Images `[N, H, W, C]`, at least 11 × 11, see `Images`.
        others: Images to compare with, of the same shape.

    Returns:
        float64 `[N]`, at most 1.

    References:
        Wang et al., Image quality assessment: from error visibility to structural similarity,
        IEEE Transactions on Image Processing 2004.

    Example:
        >>> ramp = np.linspace(0, 1, 256).reshape(1, 16, 16, 1)
        >>> ssim(ramp, ramp).tolist(), ssim(ramp, 1 - ramp).round(4).tolist()
        ([1.0], [-0.8262])
    """
    return _each(images, others, _ssim)


def _each(
    images: Images, others: Images, measure: Callable[[Tensor, Tensor], Tensor]
) -> np.ndarray:
    values = [
        measure(x.double(), y.double()).cpu().numpy() for x, y in pairs(images, others, BATCH)
    ]
    return np.concatenate([np.empty(0), *values])


def _ssim(x: Tensor, y: Tensor) -> Tensor:
    check_side(x, WINDOW)
    size = max(1, (GPU_VALUES if x.is_cuda else CPU_VALUES) // x[0].numel())
    parts = zip(x.split(size), y.split(size), strict=True)
    return torch.cat([_similarity(one, other) for one, other in parts])


def _similarity(x: Tensor, y: Tensor) -> Tensor:
    # Only the sum of the variances is needed: four maps instead of five.
    maps = torch.stack([x, y, x * x + y * y, x * y])
    mean_x, mean_y, squares, product = _windowed(_windowed(maps, 2), 3)
    means, squared = mean_x * mean_y, mean_x**2 + mean_y**2
    luminance = (2 * means + C1) / (squared + C1)
    structure = (2 * (product - means) + C2) / (squares - squared + C2)
    return (luminance * structure).mean((1, 2, 3))


def _windowed(maps: Tensor, axis: int) -> Tensor:
    """Average with a Gaussian window along one axis, which becomes ten positions shorter.

    Adds shifted copies, which is many times faster than float64 convolutions on a CPU.
    """
    offsets = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    gaussian = torch.exp(-(offsets**2) / (2 * DEVIATION**2))
    first, *others = (gaussian / gaussian.sum()).tolist()
    length = maps.shape[axis] - WINDOW + 1
    sums = maps.narrow(axis, 0, length) * first
    for shift, weight in enumerate(others, 1):
        sums.add_(maps.narrow(axis, shift, length), alpha=weight)
    return sums


class Autoencoder(Protocol):
    """Interface of a model that encodes and decodes images."""

    def encode(self, images: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return means and log-variances `[n, d]` of images `[n, H, W, C]`."""
        ...

    def decode(self, codes: Any) -> np.ndarray:
        """Return images `[n, H, W, C]` of codes `[n, d]`."""
        ...


@renamed_arguments(at_once="batch")
def reconstructions(
    model: Autoencoder, data: Dataset, seed: int = 0, batch: int = 500
) -> Iterator[np.ndarray]:
    """Reconstruct all images of a data set from their mean codes, in order, e.g. for `fid`.

    Args:
        model: Trained model, or any object with `encode` and `decode`.
        data: Data set to reconstruct.
        seed: Random seed of images that are random given their factors (default 0).
        batch: Batch size (default 500).

    Yields:
        float32 `[n, H, W, C]`
    """
    for start in range(0, len(data), batch):
        rows = np.arange(start, min(start + batch, len(data)))
        yield model.decode(model.encode(data.images(rows, seed))[0])


def batches(images: Images, size: int) -> Iterator[Tensor]:
    """Yield the images in order in batches of at most `size`: `[n, H, W, C]`, bytes or floats."""
    if isinstance(images, Dataset):
        for start in range(0, len(images), size):
            yield _checked(images.inputs(np.arange(start, min(start + size, len(images)))))
    elif isinstance(images, np.ndarray | Tensor):
        for start in range(0, len(images), size):
            yield _checked(torch.as_tensor(images[start : start + size]))
    else:
        yield from _regrouped(images, size)


def _regrouped(parts: Iterable[Any], size: int) -> Iterator[Tensor]:
    """Regroup parts of any size into batches of `size` images, so that two sets stay aligned."""
    pending: list[Tensor] = []
    for part in parts:
        for batch in batches(part if isinstance(part, Tensor) else np.asarray(part), size):
            if pending and (batch.shape[1:], batch.dtype) != (
                pending[0].shape[1:],
                pending[0].dtype,
            ):
                yield torch.cat(pending)
                pending = []
            pending.append(batch)
            if sum(map(len, pending)) >= size:
                full, *rest = torch.cat(pending).split(size)
                yield full
                pending = rest
    if pending:
        yield torch.cat(pending)


def tracked_batches(images: Images, size: int) -> Iterator[Tensor]:
    """Yield the batches of `batches` with a progress bar."""
    total = ceil(len(images) / size) if isinstance(images, Dataset | np.ndarray | Tensor) else None
    yield from track(batches(images, size), "computing image features", total)


def pairs(images: Images, others: Images, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield aligned batches of two sets of images with equal shapes, as floats."""
    for first, second in zip_longest(batches(images, size), batches(others, size)):
        if first is None or second is None:
            raise DataError(
                "both sets must have the same number of images, but one has more; "
                "compare sets of the same size",
                subject="images",
            )
        shapes = list(first.shape), list(second.shape)
        if first.shape != second.shape:
            raise DataError(
                f"both sets must have the same number and shape of images, got {shapes[0]} and "
                f"{shapes[1]}",
                subject="images",
                value=shapes,
            )
        yield as_floats(first), as_floats(second)


def check_side(images: Tensor, smallest: int) -> None:
    """Reject images `[n, H, W, C]` with fewer than `smallest` pixels on a side."""
    height, width = images.shape[1:3]
    if min(height, width) < smallest:
        raise DataError(
            f"images must be at least {smallest} × {smallest} pixels, got {height} × {width}",
            subject="images",
            value=(height, width),
        )


def as_bytes(images: Tensor) -> Tensor:
    """Convert images to values 0 … 255, rounding floats as if they were written to a file."""
    return images if images.dtype == torch.uint8 else (images * 255).round()


def in_colour(images: Tensor) -> Tensor:
    """Convert images to `[n, H, W, 3]`, repeating the channel of grey ones."""
    return images.expand(*images.shape[:3], 3)


def _checked(images: Tensor) -> Tensor:
    if images.ndim != 4 or images.shape[3] not in (1, 3):
        raise DataError(
            "images must have shape [N, H, W, C], grey (C = 1) or colour (C = 3), got "
            f"{list(images.shape)}",
            subject="images",
            value=list(images.shape),
        )
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point() or not ((images >= 0) & (images <= 1)).all():
        low, high = images.min().item(), images.max().item()
        raise DataError(
            f"images must be uint8 0 … 255 or floats in [0, 1], got {images.dtype} {low:g} … "
            f"{high:g}",
            subject="images",
            value=(low, high),
        )
    return images.float()
