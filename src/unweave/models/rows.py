"""What the rows of X are, images or features, and what networks see of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.errors import DataError
from unweave.io.checksums import verify_listed
from unweave.io.plain_data import read_json
from unweave.text import size_text

__all__ = ["Features", "Images", "InputError", "flattened", "kind_of", "read_rows", "rows_from"]

NOTE = "unweaver.json"
"""Of a folder: what its model does not know of the `Unweaver` that trained it."""


class InputError(DataError, ValueError):
    """Values or parameters that a model or an `Unweaver` cannot take."""


@dataclass(frozen=True)
class Images:
    """Rows that are images.

    Args:
        shape: Height, width and channels.
        layout: What one image of the user's looks like: `(H, W)`, `(H, W, C)` or `(H * W * C,)`.
        top: The whole number that stands for white: 255, or 1 where all are 0 or 1.
    """

    shape: tuple[int, int, int]
    layout: tuple[int, ...]
    top: int

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """Bytes or float32 in [0, 1], `[n, H, W, C]`."""
        low, high = rows.min(), rows.max()
        top = 1 if rows.dtype.kind in "fb" else self.top
        if low < 0 or high > top:
            raise InputError(
                f"images are bytes or floats in [0, 1], but X has values from {low:g} to {high:g}"
                "; scale them, or leave out shape where X has features"
            )
        if rows.dtype.kind == "f":
            values: np.ndarray = rows.astype(np.float32, copy=False)
        elif top == 1:
            values = rows.astype(np.uint8) * np.uint8(255)
        else:
            values = rows.astype(np.uint8, copy=False)
        return values.reshape(len(rows), *self.shape)

    def restored(self, images: np.ndarray) -> np.ndarray:
        """Images as the user laid them out."""
        return images.reshape(len(images), *self.layout)


@dataclass(frozen=True, eq=False)
class Features:
    """Rows of any real numbers, scaled to [0, 1], which networks see as images `1 × p × 1`.

    Args:
        low: The smallest value of each feature, `[p]`.
        span: How far the largest is from it, `[p]`; 1 where all are the same.
    """

    low: np.ndarray
    span: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return 1, len(self.low), 1

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """Scaled features, float32 `[n, 1, p, 1]`; new ones may lie outside [0, 1]."""
        scaled = (rows - self.low) / self.span
        return scaled.astype(np.float32).reshape(len(rows), *self.shape)

    def restored(self, images: np.ndarray) -> np.ndarray:
        """Features on their own scale, `[n, p]`."""
        return images.reshape(len(images), -1) * self.span + self.low


def flattened(X: Any) -> tuple[Any, tuple[int, int, int] | None]:
    """X as rows `[n, p]`, and the shape of its images if it has any."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) <= 2:
        return X, None
    X = np.asarray(X)
    height, width, channels, *more = (*X.shape[1:], 1)[: max(3, X.ndim - 1)]
    if more or channels not in (1, 3):
        raise InputError(
            f"images are [n, H, W] or [n, H, W, C] with 1 or 3 channels, but X has the "
            f"shape {list(X.shape)}; reshape it"
        )
    shape = height, width, channels
    return X.reshape(len(X), math.prod(shape)), shape


def kind_of(
    rows: np.ndarray,
    shape: tuple[int, int, int] | None,
    asked: Sequence[int] | None,
    X: Any,
) -> Images | Features:
    """What the rows of training are.

    Args:
        rows: `[n, p]`.
        shape: Of images, where X has them as such.
        asked: The shape that the user says images have: height, width and, if any, channels.
        X: What the user gave, for its layout.
    """
    asked = None if asked is None else (*asked, 1)[: max(3, len(asked))]
    if asked is not None and (len(asked) != 3 or math.prod(asked) != rows.shape[1]):
        raise InputError(
            f"images of shape {size_text(asked)} have {math.prod(asked):,} numbers, but rows of X "
            f"have {rows.shape[1]:,}; give the shape of these"
        )
    if shape is not None and asked is not None and asked != shape:
        raise InputError(f"X has images {size_text(shape)}, but shape says {size_text(asked)}")
    shape = shape or asked
    if shape is None:
        low, high = (np.asarray(v, np.float64) for v in (rows.min(0), rows.max(0)))
        return Features(low, np.where(high > low, high - low, 1.0))
    whole = rows.dtype.kind in "iu"
    binary = whole and rows.max() == 1 and rows.min() == 0
    return Images(shape, tuple(np.shape(X)[1:]), 1 if binary else 255)


def rows_from(plain: Mapping[str, Any]) -> Images | Features:
    """The inverse of `dataclasses.asdict`."""
    if "low" in plain:
        return Features(np.array(plain["low"]), np.array(plain["span"]))
    height, width, channels = plain["shape"]
    return Images((height, width, channels), tuple(plain["layout"]), int(plain["top"]))


def read_rows(folder: Path) -> Images | Features | None:
    """What the model in a folder was fitted to; None where no `Unweaver` saved it."""
    if not (folder / NOTE).exists():
        return None
    try:
        verify_listed(folder, [NOTE])
        return rows_from(read_json(folder / NOTE)["rows"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / NOTE} is damaged ({error}); remove it") from error
