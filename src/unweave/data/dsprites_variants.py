"""Color-, Noisy- and Scream-dSprites: sprites with a random appearance.

With s the sprite (0 or 1 per pixel) and U uniform random numbers,

    color    s · U(½, 1)³                     one colour per image
    noisy    min(s + U(0, 1), 1)              independent noise per pixel and channel
    scream   b = (crop + U(0, 1)³) / 2        a random 64 × 64 crop of a painting, tinted;
             b off the sprite, 1 - b on it

Images are generated on the device of the batch and are determined by an index and a seed.

References:
    Locatello et al., Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations, arXiv:1811.12359, and the code of disentanglement_lib.
"""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unweave.data import dsprites
from unweave.data.archives import reading
from unweave.data.catalog import DATASETS
from unweave.data.dataset import Dataset, as_floats
from unweave.data.fetch import fetch
from unweave.data.pictures import open_image
from unweave.errors import DataError
from unweave.io.paths import check_file
from unweave.io.writing import cache_folder
from unweave.kernels import fused
from unweave.random import Stream

__all__ = ["Colored", "Noisy", "OnPainting", "load_color", "load_noisy", "load_scream"]

THUMBNAIL = (350, 274)


@dataclass(frozen=True)
class Colored:
    """Sprite in one random colour, `s · U(½, 1)³`."""

    channels = 3

    def __call__(self, images: Tensor, stream: Stream, items: Tensor) -> Tensor:
        if fused(images):
            from unweave.kernels import gpu_dsprites_variants as dsprites_variants_gpu

            return dsprites_variants_gpu.colored(images, stream, items)
        color = 0.5 + 0.5 * stream.uniform(items, 3)
        return as_floats(images) * color[..., None, None, :]

    def to(self, device: torch.device) -> "Colored":  # noqa: ARG002 - nothing to move
        return self


@dataclass(frozen=True)
class Noisy:
    """Sprite in front of uniform noise, `min(s + U(0, 1), 1)`."""

    channels = 3

    def __call__(self, images: Tensor, stream: Stream, items: Tensor) -> Tensor:
        if fused(images):
            from unweave.kernels import gpu_dsprites_variants as dsprites_variants_gpu

            return dsprites_variants_gpu.noisy(images, stream, items)
        height, width = images.shape[-3:-1]
        noise = stream.uniform(items, height * width * 3)
        return (as_floats(images) + noise.unflatten(-1, (height, width, 3))).clamp(max=1)

    def to(self, device: torch.device) -> "Noisy":  # noqa: ARG002 - nothing to move
        return self


@dataclass(frozen=True, eq=False)
class OnPainting:
    """Sprite that inverts a randomly cropped and tinted painting in the background.

    Args:
        painting: Painting `[height, width, 3]` in [0, 1], larger than the images.
    """

    painting: Tensor
    channels = 3

    def __call__(self, images: Tensor, stream: Stream, items: Tensor) -> Tensor:
        if fused(images):
            from unweave.kernels import gpu_dsprites_variants as dsprites_variants_gpu

            return dsprites_variants_gpu.on_painting(images, self.painting, stream, items)
        height, width = images.shape[-3:-1]
        words = stream.words(items, 5)
        top = words[..., 3] * (self.painting.shape[0] - height) >> 32
        left = words[..., 4] * (self.painting.shape[1] - width) >> 32
        rows = top[..., None] + torch.arange(height, device=top.device)
        columns = left[..., None] + torch.arange(width, device=top.device)
        tint = (words[..., None, None, :3] >> 8).float() * 2.0**-24
        background = (self.painting[rows[..., :, None], columns[..., None, :]] + tint) / 2
        return torch.where(as_floats(images) == 1, 1 - background, background)

    def to(self, device: torch.device) -> "OnPainting":
        return OnPainting(self.painting.to(device))


def load_color(path: str | Path | None = None) -> Dataset:
    """Load Color-dSprites; `path` as for `dsprites`."""
    return replace(dsprites.load(path), name="color_dsprites", appearance=Colored())


def load_noisy(path: str | Path | None = None) -> Dataset:
    """Load Noisy-dSprites; `path` as for `dsprites`."""
    return replace(dsprites.load(path), name="noisy_dsprites", appearance=Noisy())


def load_scream(path: str | Path | None = None, picture: str | Path | None = None) -> Dataset:
    """Load Scream-dSprites with Munch's painting, downloaded once, or any other `picture`."""
    if picture is None:
        (file,) = DATASETS["scream_dsprites"].files
        picture = fetch(file, cache_folder() / "scream_dsprites")
    appearance = OnPainting(torch.from_numpy(read_painting(Path(picture))))
    return replace(dsprites.load(path), name="scream_dsprites", appearance=appearance)


def read_painting(file: Path) -> np.ndarray:
    """Read a picture and shrink it to fit 350 × 274, as published, `[height, width, 3]`."""
    check_file(file, "picture")
    with reading(file, "use a PNG or JPEG file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns about sizes, which are checked here
        with open_image(file) as picture:
            reduced = picture.convert("RGB")
    reduced.thumbnail(THUMBNAIL)
    width, height = reduced.size
    if min(width, height) <= dsprites.SIDE:
        raise DataError(
            f"picture {file} must have both sides above {dsprites.SIDE} pixels when reduced to "
            f"fit {THUMBNAIL[0]} × {THUMBNAIL[1]}, got {width} × {height}",
            subject=file,
            value=(width, height),
        )
    return np.asarray(reduced, dtype=np.float32) / 255
