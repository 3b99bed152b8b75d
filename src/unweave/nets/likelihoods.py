"""How far an image is from what a decoder says: negative log-likelihoods, summed over pixels."""

import torch
from torch import Tensor

from unweave.nets import kernels

__all__ = ["LIKELIHOODS", "bernoulli", "gaussian", "mean_image"]


def bernoulli(logits: Tensor, images: Tensor) -> Tensor:
    """-Σ [x log p + (1 - x) log(1 - p)], p = sigmoid(logits), `[M, B, H, W, C]` to `[M, B]`."""
    return kernels.bernoulli(logits, images)


def gaussian(means: Tensor, images: Tensor) -> Tensor:
    """Σ (x - p)², the protocol's squared error without ½, `[M, B, H, W, C]` to `[M, B]`."""
    means = means.to(torch.promote_types(means.dtype, torch.float32))
    return (means - kernels.unit(images, means.dtype)).square().flatten(2).sum(-1)


LIKELIHOODS = {"bernoulli": bernoulli, "gaussian": gaussian}


def mean_image(name: str, decoded: Tensor) -> Tensor:
    """What a decoder's output looks like, in [0, 1]."""
    return decoded.float().sigmoid() if name == "bernoulli" else decoded.float().clamp(0, 1)
