"""Image quality: distances between sets of images (FID, KID) and image pairs (L1, L2, SSIM).

Images are `[N, H, W, C]`, bytes or floats in [0, 1]:

    uw.quality.fid(data, reconstructions)
    uw.quality.ssim(images, reconstructions)  # one value per image
"""

from unweave.quality.distances import (
    KID,
    Statistics,
    fid,
    frechet_distance,
    kid,
    kid_of_features,
    random_network_distance,
    squared_mmd,
    statistics,
)
from unweave.quality.features import inception_features, load_inception
from unweave.quality.images import l1, l2, reconstructions, ssim

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
