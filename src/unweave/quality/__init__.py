"""Quality of images: distances of sets (FID, KID) and of pairs (L1, L2, SSIM).

Images are `[N, H, W, C]`, bytes or floats in [0, 1]:

    uw.quality.fid(data, reconstructions)
    uw.quality.ssim(images, reconstructions)  # one value per image
"""

from unweave.quality.features import inception_features
from unweave.quality.fid import Statistics, fid, frechet_distance, statistics
from unweave.quality.images import l1, l2, ssim
from unweave.quality.inception_weights import load_inception
from unweave.quality.kid import KID, kid, kid_of_features, squared_mmd
from unweave.quality.random_network import random_network_distance
from unweave.quality.reconstructions import reconstructions

__all__ = [
    "KID",
    "Statistics",
    "fid",
    "frechet_distance",
    "inception_features",
    "kid",
    "kid_of_features",
    "l1",
    "l2",
    "load_inception",
    "random_network_distance",
    "reconstructions",
    "squared_mmd",
    "ssim",
    "statistics",
]


def __dir__() -> list[str]:
    return sorted(__all__)
