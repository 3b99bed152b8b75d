"""Negative log-likelihoods of images given decoder outputs, summed over pixels."""

import math

import numpy as np
from torch import Tensor

from unweave import kernels
from unweave.kernels.threads import run_all

__all__ = [
    "DEVIATION",
    "LIKELIHOODS",
    "bernoulli",
    "gaussian",
    "learned_gaussian",
    "learned_variance",
    "mean",
    "mean_image",
    "narrow_gaussian",
]

DEVIATION = 0.1
"""Standard deviation of `narrow_gaussian`: a tenth of the range of values."""
PIXELS = 200
"""Number of independent pixels that an image counts as in `learned_gaussian`."""
ROUNDING = 1 / (12 * 255**2)
"""Variance of the rounding of bytes, added to that of `learned_gaussian`."""


def bernoulli(logits: Tensor, images: Tensor) -> Tensor:
    """-Σ [x log p + (1 - x) log(1 - p)], p = sigmoid(logits), `[M, B, H, W, C]` to `[M, B]`."""
    return kernels.bernoulli(logits, images)


def gaussian(means: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)², the protocol's squared error without ½, `[M, B, H, W, C]` to `[M, B]`."""
    return kernels.squared_error(means, images)


def narrow_gaussian(means: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)² / 2σ², σ = 0.1, `[M, B, H, W, C]` to `[M, B]`; for tabular data, not images.

    The squared error of `gaussian` corresponds to σ² = ½, more than the variance of values in
    [0, 1]. Images have enough pixels to compensate for that. A row of a table does not, and all
    its latents would collapse.
    """
    return gaussian(means, images) / (2 * DEVIATION**2)


def learned_gaussian(means: Tensor, images: Tensor) -> Tensor:
    """N (mean (x - p)² / 2σ² + ½ log 2πσ²), σ² of the batch, `[M, B, H, W, C]` to `[M, B]`.

    The mean is over pixels. σ² is the mean of (x - p)² over the batch, the value that maximises
    the likelihood; it is a constant of the gradient. Early in training, when σ² is large, the
    prior dominates; it loses weight as the reconstructions improve.

    Neighbouring pixels are not independent, so an image counts as N = 200 pixels, whatever its
    size. Strengths of regularisation then mean about the same for all images, and about the same
    as with the Bernoulli likelihood on dSprites.

    References:
        Rybkin et al., Simple and Effective VAE Training with Calibrated Decoders,
        arXiv:2006.13202.
    """
    errors = gaussian(means, images) / math.prod(images.shape[2:])
    variance = errors.detach().mean(1, keepdim=True) + ROUNDING
    return PIXELS * (errors / (2 * variance) + 0.5 * (2 * math.pi * variance).log())


def learned_variance(loss: np.ndarray) -> np.ndarray:
    """Return σ² of `learned_gaussian` from its value, averaged over a batch.

        L = N (½ + ½ log 2πσ²),    σ² = exp(2L / N - 1) / 2π

    Example:
        >>> import torch
        >>> means, images = torch.zeros(1, 1, 1, 2, 1), torch.full((1, 1, 1, 2, 1), 0.1)
        >>> learned_variance(learned_gaussian(means, images).numpy()).round(3)
        array([[0.01]], dtype=float32)
    """
    return np.asarray(np.exp(2 * loss / PIXELS - 1) / (2 * math.pi))


LIKELIHOODS = {
    "bernoulli": bernoulli,
    "gaussian": gaussian,
    "learned_gaussian": learned_gaussian,
    "narrow_gaussian": narrow_gaussian,
}


def mean(name: str, decoded: Tensor) -> Tensor:
    """Return the mean of p(x|z) as a smooth function of a decoder's output."""
    return decoded.float().sigmoid() if name == "bernoulli" else decoded.float()


def mean_image(name: str, decoded: Tensor) -> Tensor:
    """Return the mean images in [0, 1] of a decoder's output."""
    if name != "bernoulli":
        return mean(name, decoded).clamp(0, 1)
    # On one thread, since rounding depends on how torch splits the work between threads.
    (image,) = run_all([lambda: mean(name, decoded)])
    return image
