"""How much each image differs from another: L1, L2 and SSIM."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from unweave.errors import DataError
from unweave.quality.sets import Images, pairs

__all__ = ["l1", "l2", "ssim"]

AT_ONCE = 64
CPU_NUMBERS, GPU_NUMBERS = 100_000, 2_000_000
"""Of images that SSIM compares at once: so few stay in a CPU's cache, so many leave a GPU's memory
to the models."""
WINDOW, DEVIATION = 11, 1.5
C1, C2 = 0.01**2, 0.03**2


def l1(images: Images, others: Images) -> np.ndarray:
    """The mean absolute difference of each pair of images.

        L1 = 1/P Σ_p |x_p - y_p|        over all pixels and channels, values in [0, 1]

    Args:
        images: `[N, H, W, C]`, see `Images`.
        others: As many, of the same shape.

    Returns:
        float64 `[N]`

    Example:
        >>> l1(np.zeros((2, 4, 4, 1)), np.full((2, 4, 4, 1), 0.5)).tolist()
        [0.5, 0.5]
    """
    return _each(images, others, lambda x, y: (x - y).abs().mean((1, 2, 3)))


def l2(images: Images, others: Images) -> np.ndarray:
    """The mean squared difference of each pair of images.

        L2 = 1/P Σ_p (x_p - y_p)²        over all pixels and channels, values in [0, 1]

    Args and returns as of `l1`.

    Example:
        >>> l2(np.zeros((2, 4, 4, 1)), np.full((2, 4, 4, 1), 0.5)).tolist()
        [0.25, 0.25]
    """
    return _each(images, others, lambda x, y: (x - y).square().mean((1, 2, 3)))


def ssim(images: Images, others: Images) -> np.ndarray:
    """The structural similarity of each pair of images, 1 where they are equal.

        SSIM = mean of (2 μ_x μ_y + C1) (2 σ_xy + C2) / [(μ_x² + μ_y² + C1) (σ_x² + σ_y² + C2)]

    over all positions of an 11 × 11 window inside the image, and all channels. Means, variances
    and covariance are weighted by a Gaussian of standard deviation 1.5 in the window;
    C1 = 0.01², C2 = 0.03², as values are in [0, 1].

    Args:
        images: `[N, H, W, C]`, at least 11 × 11, see `Images`.
        others: As many, of the same shape.

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
        measure(x.double(), y.double()).cpu().numpy() for x, y in pairs(images, others, AT_ONCE)
    ]
    return np.concatenate([np.empty(0), *values])


def _ssim(x: Tensor, y: Tensor) -> Tensor:
    if min(x.shape[1:3]) < WINDOW:
        raise DataError(
            f"SSIM needs images of at least {WINDOW} × {WINDOW} pixels, but got "
            f"{x.shape[1]} × {x.shape[2]}"
        )
    few = max(1, (GPU_NUMBERS if x.is_cuda else CPU_NUMBERS) // x[0].numel())
    parts = zip(x.split(few), y.split(few), strict=True)
    return torch.cat([_similarity(one, other) for one, other in parts])


def _similarity(x: Tensor, y: Tensor) -> Tensor:
    # Of the variances only their sum is needed: four maps, not five.
    maps = torch.stack([x, y, x * x + y * y, x * y])
    mean_x, mean_y, squares, product = _windowed(_windowed(maps, 2), 3)
    means, squared = mean_x * mean_y, mean_x**2 + mean_y**2
    luminance = (2 * means + C1) / (squared + C1)
    structure = (2 * (product - means) + C2) / (squares - squared + C2)
    return (luminance * structure).mean((1, 2, 3))


def _windowed(maps: Tensor, axis: int) -> Tensor:
    """The Gaussian average around every position along one axis, which loses ten of them.

    Shifted copies are added up: torch's convolutions of float64 on a CPU take many times as long.
    """
    offsets = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    gaussian = torch.exp(-(offsets**2) / (2 * DEVIATION**2))
    first, *others = (gaussian / gaussian.sum()).tolist()
    left = maps.shape[axis] - WINDOW + 1
    sums = maps.narrow(axis, 0, left) * first
    for shift, weight in enumerate(others, 1):
        sums.add_(maps.narrow(axis, shift, left), alpha=weight)
    return sums
