"""A distance of sets of images that needs no weights: FID's formula on a random network."""

import math
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from unweave.data.dataset import as_floats
from unweave.errors import DataError
from unweave.nets.device import chosen_device
from unweave.quality.features import Extract
from unweave.quality.fid import Statistics, frechet_distance
from unweave.quality.sets import Images, in_colour, watched
from unweave.random import Stream

__all__ = ["random_network_distance"]

CHANNELS = (3, 32, 64, 128, 128)
KERNEL = 4
SMALLEST = 2 ** (len(CHANNELS) - 1)
AT_ONCE = 256


def random_network_distance(
    real: Images,
    generated: Images,
    *,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> float:
    """Fréchet distance of two sets of images by features of a network that was never trained.

    Four 4 × 4 convolutions of stride 2 with ReLU and fixed normal weights of variance 2 / fan-in;
    features are the averages of all 352 maps over positions.

    It is **not FID** and not comparable with any published value: it knows nothing of objects,
    only of colours, edges and textures at four scales. It tells blurred or noisy images from sharp
    ones of the same data set, same size and same number, where no weights are at hand.

    Args:
        real: Images `[N, H, W, C]`, at least 16 × 16, see `Images`.
        generated: The images to judge, in the same form.
        seed: Draws the weights. A value belongs to its seed.
        device: By default a GPU where there is one.

    References:
        Naeem et al., Reliable Fidelity and Diversity Metrics for Generative Models,
        arXiv:2002.09797, compare sets of images by a random network, too.

    Example:
        >>> import numpy as np
        >>> images = np.random.default_rng(0).random((64, 16, 16, 1))
        >>> abs(random_network_distance(images, images)) < 1e-9
        True
        >>> random_network_distance(images, images / 2) > 1
        True
    """
    extract = _extract_random(seed, chosen_device(device))
    return frechet_distance(
        Statistics.of_batches(extract(real)), Statistics.of_batches(extract(generated))
    )


def _extract_random(seed: int, place: torch.device) -> Extract:
    weights = [weight.to(place) for weight in random_weights(seed)]

    def extract(images: Images) -> Iterator[Tensor]:
        for batch in watched(images, AT_ONCE):
            yield random_features(in_colour(as_floats(batch.to(place))), weights)

    return extract


def random_weights(seed: int) -> list[Tensor]:
    """The weights `[outputs, inputs, 4, 4]` of each convolution."""
    weights = []
    for layer, (inputs, outputs) in enumerate(pairwise(CHANNELS)):
        fan_in = inputs * KERNEL**2
        draws = Stream(seed, "random network", layer).normal(outputs, fan_in)
        weights.append((draws * math.sqrt(2 / fan_in)).view(outputs, inputs, KERNEL, KERNEL))
    return weights


def random_features(images: Tensor, weights: list[Tensor]) -> Tensor:
    """The features `[n, 352]` of images `[n, H, W, 3]` in [0, 1]."""
    if min(images.shape[1:3]) < SMALLEST:
        raise DataError(
            f"images must be at least {SMALLEST} × {SMALLEST} pixels, but got "
            f"{images.shape[1]} × {images.shape[2]}"
        )
    maps = (2 * images - 1).permute(0, 3, 1, 2)
    averages = []
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for weight in weights:
            maps = conv2d(maps, weight, stride=2, padding=1).relu()
            averages.append(maps.mean((2, 3)))
    return torch.cat(averages, 1)
