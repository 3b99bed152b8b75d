"""Rows of X as images or features, and their conversion to network inputs."""

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
"""File with the settings of an `Unweaver` that its model does not store."""


class InputError(DataError, ValueError):
    """Values or parameters that a model or an `Unweaver` cannot use."""


@dataclass(frozen=True)
class Images:
    """Rows that are images.

    Args:
        shape: Height, width and channels.
        layout: Shape of one image in X: `(H, W)`, `(H, W, C)` or `(H * W * C,)`.
        top: Integer value of white: 255, or 1 for binary images.
    """

    shape: tuple[int, int, int]
    layout: tuple[int, ...]
    top: int

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """Convert rows to images `[n, H, W, C]`, uint8 or float32 in [0, 1]."""
        low, high = rows.min(), rows.max()
        top = 1 if rows.dtype.kind in "fb" else self.top
        if low < 0 or high > top:
            raise InputError(
                f"images must be uint8 or floats in [0, 1], got values from {low:g} to {high:g}; "
                "scale them, or omit shape if X contains features"
            )
        if rows.dtype.kind == "f":
            values: np.ndarray = rows.astype(np.float32, copy=False)
        elif top == 1:
            values = rows.astype(np.uint8) * np.uint8(255)
        else:
            values = rows.astype(np.uint8, copy=False)
        return values.reshape(len(rows), *self.shape)

    def restored(self, images: np.ndarray) -> np.ndarray:
        """Convert images back to the layout of X."""
        return images.reshape(len(images), *self.layout)


@dataclass(frozen=True, eq=False)
class Features:
    """Rows of real numbers, scaled to [0, 1] and passed to networks as images `1 × p × 1`.

    Args:
        low: Smallest value of each feature, `[p]`.
        span: Range of each feature, `[p]`; 1 for constant features.
    """

    low: np.ndarray
    span: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return 1, len(self.low), 1

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """Scale features to float32 `[n, 1, p, 1]`; new rows may lie outside [0, 1]."""
        scaled = (rows - self.low) / self.span
        return scaled.astype(np.float32).reshape(len(rows), *self.shape)

    def restored(self, images: np.ndarray) -> np.ndarray:
        """Convert features back to their original scale, `[n, p]`."""
        return images.reshape(len(images), -1) * self.span + self.low


def flattened(X: Any) -> tuple[Any, tuple[int, int, int] | None]:
    """Return X as rows `[n, p]`, and the shape of its images, if any."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) <= 2:
        return X, None
    X = np.asarray(X)
    height, width, channels, *more = (*X.shape[1:], 1)[: max(3, X.ndim - 1)]
    if more or channels > max(3, min(height, width)):
        raise InputError(
            "images must be [n, H, W] or [n, H, W, C] with fewer channels than pixels on a side, "
            f"got the shape {list(X.shape)}; reshape X"
        )
    shape = height, width, channels
    return X.reshape(len(X), math.prod(shape)), shape


def kind_of(
    rows: np.ndarray,
    shape: tuple[int, int, int] | None,
    given: Sequence[int] | None,
    X: Any,
) -> Images | Features:
    """Return the kind of the rows `[n, p]` of X; image shapes come from X or are given."""
    given = None if given is None else (*given, 1)[: max(3, len(given))]
    if given is not None and (len(given) != 3 or math.prod(given) != rows.shape[1]):
        raise InputError(
            f"shape {size_text(given)} has {math.prod(given):,} values, but rows of X have "
            f"{rows.shape[1]:,}; pass the shape of one row"
        )
    if shape is not None and given is not None and given != shape:
        raise InputError(f"shape must be {size_text(shape)} as in X, got {size_text(given)}")
    shape = shape or given
    if shape is None:
        low, high = (np.asarray(v, np.float64) for v in (rows.min(0), rows.max(0)))
        return Features(low, np.where(high > low, high - low, 1.0))
    whole = rows.dtype.kind in "iu"
    binary = whole and rows.max() == 1 and rows.min() == 0
    return Images(shape, tuple(np.shape(X)[1:]), 1 if binary else 255)


def rows_from(plain: Mapping[str, Any]) -> Images | Features:
    """Create rows from the result of `dataclasses.asdict`."""
    if "low" in plain:
        return Features(np.array(plain["low"]), np.array(plain["span"]))
    height, width, channels = plain["shape"]
    return Images((height, width, channels), tuple(plain["layout"]), int(plain["top"]))


def read_rows(folder: Path) -> Images | Features | None:
    """Read the kind of rows a model was fitted to; None if no `Unweaver` saved it."""
    if not (folder / NOTE).exists():
        return None
    try:
        verify_listed(folder, [NOTE])
        return rows_from(read_json(folder / NOTE)["rows"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / NOTE} is damaged ({error}); remove it") from error
