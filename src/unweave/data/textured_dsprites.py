r"""Textured dSprites: dSprites with sixteen materials, 11,796,480 images.

A sixth factor, the material, consists of two colours and a fine pattern with its own wavelength λ,
direction φ and phase. The pattern is a tile t(i, j) in [0, 1], repeated over the plane. With
a = cos 2πi and b = cos 2πj,

    stripes  (1 + a) / 2
    checks   (1 + a b) / 2
    dots     (1 + a) (1 + b) / 4
    waves    (1 + cos 2π(i + ¼ sin 2πj)) / 2

and a pixel is t · light + (1 - t) · dark. The texture of a sprite at (x₀, y₀), rotated by θ, moves
and rotates with it, but does not scale:

    (i, j) = R(φ + θ) (x - x₀, y - y₀) / λ + phase,    R(α) = (cos α, -sin α; sin α, cos α)

The background is the same pattern in dark greys, (24 + 32 t) / 255, and is fixed: θ = 0 and
(x₀, y₀) is the middle of the image.

Position, size and orientation are those of dSprites. They and the material determine the texture,
which is far finer than a small VAE can reconstruct. Nothing is random. Tiles have 32 × 32 cells
and integer coordinates, so that every device gives the same bytes.
"""

import colorsys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from unweave.data import dsprites
from unweave.data.dataset import Dataset
from unweave.data.dsprites import SIDE
from unweave.data.grid import Array, Factor, Grid
from unweave.data.stores import Bits
from unweave.io.arrays import cast

__all__ = ["GRID", "MATERIALS", "Textured", "load"]

PATTERNS = ("stripes", "checks", "dots", "waves")
MATERIALS = tuple(f"{pattern} {number}" for number in range(1, 5) for pattern in PATTERNS)
GRID = Grid((*dsprites.GRID.axes, Factor("material", MATERIALS, categorical=True)))

NUMBERS = np.arange(len(MATERIALS))
WAVELENGTHS = 3 + NUMBERS * 3 % 4 / 2  # in pixels: 3, 3.5, 4 or 4.5
DIRECTIONS = np.pi * (NUMBERS * 5 % 16) / 16
PHASES = (NUMBERS * 7 % 16) / 16
HUES = (NUMBERS * 11 % 16) / 16

CELLS = 32  # on each side of a tile
SHIFT = 16  # tile coordinates are stored in units of 2⁻¹⁶ cells
UNIT = 62  # units per pixel: the centres of pixels and sprites are integers in this unit
ORIENTATIONS = len(dsprites.GRID.axes[2])


@dataclass(frozen=True, eq=False)
class Textures:
    """Textures from which images are composed.

    Args:
        tiles: Colours of the cells of all tiles, uint8 `[16 * 32 * 32, 3]`.
        backgrounds: Backgrounds, uint8 `[16, 64, 64, 3]`.
        steps: Change of (i, j) per unit of (x, y), by orientation and material, int32
            `[40, 16, 2, 2]`.
        starts: Value of both i and j at the centre of the sprite, int32 `[16]`.
    """

    tiles: Array
    backgrounds: Array
    steps: Array
    starts: Array

    def to(self, device: str | torch.device) -> "Textures":
        return Textures(*(torch.as_tensor(part, device=device) for part in self.parts))

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.tiles, self.backgrounds, self.steps, self.starts


@dataclass(frozen=True, eq=False)
class Textured:
    """Images composed on demand: image `p * 16 + m` is sprite p with material m.

    Args:
        sprites: All dSprites images.
        textures: Materials.
        chosen: Indices of the images in a slice (default: all).
    """

    sprites: Bits
    textures: Textures
    chosen: Array | None = None
    shape = (SIDE, SIDE, 3)

    @property
    def nbytes(self) -> int:
        indices = 0 if self.chosen is None else int(self.chosen.nbytes)
        textures = sum(int(part.nbytes) for part in self.textures.parts)
        return self.sprites.nbytes + indices + textures

    def __len__(self) -> int:
        return len(self.sprites) * len(MATERIALS) if self.chosen is None else len(self.chosen)

    def gather(self, indices: Array) -> Array:
        flat = indices.reshape(-1)
        flat = flat if self.chosen is None else self.chosen[flat]
        drawn = self._draw(flat) if isinstance(flat, torch.Tensor) else self._draw_host(flat)
        return drawn.reshape(*indices.shape, *self.shape)

    def take(self, indices: np.ndarray) -> "Textured":
        return replace(self, chosen=indices if self.chosen is None else self.chosen[indices])

    def to(self, device: str | torch.device) -> "Textured":
        chosen = None if self.chosen is None else torch.as_tensor(self.chosen, device=device)
        return Textured(self.sprites.to(device), self.textures.to(device), chosen)

    def _draw(self, indices: torch.Tensor) -> torch.Tensor:
        sprite, material, orientation, x0, y0 = parts_of(indices)
        pixels = torch.arange(SIDE, dtype=torch.int32, device=indices.device)
        x, y = offset(pixels, x0[:, None])[:, None, :], offset(pixels, y0[:, None])[:, :, None]
        steps = self.textures.steps[orientation, material][..., None, None]
        start = self.textures.starts[material][:, None, None]
        cells = cell(steps[:, 0, 0] * x + steps[:, 0, 1] * y + start) * CELLS
        cells = cells + cell(steps[:, 1, 0] * x + steps[:, 1, 1] * y + start)
        cells = cells + (material.int() * CELLS**2)[:, None, None]
        texture = self.textures.tiles.index_select(0, cells.flatten()).view(-1, *self.shape)
        return torch.where(
            self.sprites.gather(sprite) > 0, texture, self.textures.backgrounds[material]
        )

    def _draw_host(self, indices: np.ndarray) -> np.ndarray:
        sprite, material, orientation, x0, y0 = parts_of(indices)
        images = self.textures.backgrounds[material]
        # A sprite covers 4 % of its image, so only the covered pixels are computed.
        image, row, column = self.sprites.gather(sprite)[..., 0].nonzero()
        x, y = offset(column, x0[image]), offset(row, y0[image])
        steps = self.textures.steps[orientation, material].reshape(-1, 4)[image].T
        kind = material[image]
        start = self.textures.starts[kind]
        cells = cell(steps[0] * x + steps[1] * y + start) * CELLS
        cells = cells + cell(steps[2] * x + steps[3] * y + start)
        images[image, row, column] = self.textures.tiles[kind * CELLS**2 + cells]
        return images


def load(path: str | Path | None = None) -> Dataset:
    """Load textured dSprites; `path` as for `dsprites`."""
    store = dsprites.load(path).store
    assert isinstance(store, Bits)
    return Dataset("textured_dsprites", Textured(store, make_textures()), GRID)


def parts_of(indices: Array) -> tuple[Array, ...]:
    """Return sprite, material, orientation, posX and posY of images, as classes."""
    sprite, material = indices // len(MATERIALS), indices % len(MATERIALS)
    orientation, x0, y0 = sprite // 32**2 % ORIENTATIONS, sprite // 32 % 32, sprite % 32
    return sprite, material, orientation, x0, y0


def offset(pixel: Array, position: Array) -> Array:
    """Return the distance from the centre of a sprite to that of a pixel, in 62nds of a pixel.

    It is 62 (p + ½ - (16 + 32 k / 31)) for the k-th of 32 positions.
    """
    return cast(UNIT * pixel + UNIT // 2 - 16 * UNIT - 64 * position, "int32")


def cell(position: Array) -> Array:
    """Return the row or column of the tile cell at a position."""
    return (position >> SHIFT) & (CELLS - 1)


def make_textures() -> Textures:
    """Create the textures of all materials, for each orientation."""
    colours = np.rint(255 * np.stack([_colours(hue) for hue in HUES]))  # [16, light and dark, 3]
    light, dark = colours[:, None, None, 0], colours[:, None, None, 1]
    share = np.stack([_tile(name.split()[0]) for name in MATERIALS])[..., None]
    tiles = _bytes(share * light + (1 - share) * dark)
    steps = np.stack([_steps(angle) for angle in dsprites.GRID.axes[2].values])
    starts = np.rint(PHASES * CELLS * 2**SHIFT).astype(np.int32)

    pixels = UNIT * np.arange(SIDE) + UNIT // 2 - UNIT * SIDE // 2
    positions = (
        steps[0, ..., 0, None, None] * pixels + steps[0, ..., 1, None, None] * pixels[:, None]
    )
    row, column = cell(positions + starts[:, None, None, None]).swapaxes(0, 1)
    greys = _bytes(24 + 32 * share[NUMBERS[:, None, None], row, column])
    backgrounds = np.repeat(greys, 3, axis=-1)
    return Textures(tiles.reshape(-1, 3), backgrounds, steps, starts)


def _steps(angle: float) -> np.ndarray:
    """Return the change of (i, j) per unit of (x, y), `[16, 2, 2]`, for an orientation."""
    alpha = DIRECTIONS + angle
    rows = [[np.cos(alpha), -np.sin(alpha)], [np.sin(alpha), np.cos(alpha)]]
    per_unit = CELLS * 2**SHIFT / (WAVELENGTHS * UNIT)
    return np.rint(np.array(rows) * per_unit).transpose(2, 0, 1).astype(np.int32)


def _tile(pattern: str) -> np.ndarray:
    """Return the share of the light colour in a tile, `[32, 32]`, indexed by i and j."""
    i, j = np.mgrid[:CELLS, :CELLS] * 2 * np.pi / CELLS
    a, b = np.cos(i), np.cos(j)
    match pattern:
        case "stripes":
            return (1 + a) / 2
        case "checks":
            return (1 + a * b) / 2
        case "dots":
            return (1 + a) * (1 + b) / 4
        case _:
            return (1 + np.cos(i + np.pi / 2 * np.sin(j))) / 2


def _colours(hue: float) -> np.ndarray:
    """Return the light and the dark colour of a material, `[2, 3]` in [0, 1]."""
    return np.array([colorsys.hsv_to_rgb(hue, 0.5, 1), colorsys.hsv_to_rgb(hue + 0.1, 0.9, 0.35)])


def _bytes(values: np.ndarray) -> np.ndarray:
    # Round halves up, as the last bit of a cosine differs between machines.
    return np.floor(values + 0.5 + 1e-6).astype(np.uint8)
