"""Sets of images, as measures of quality take them: batch by batch, checked, bytes or floats."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import ceil
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset, as_floats
from unweave.errors import DataError
from unweave.progress import track

__all__ = ["Images", "as_bytes", "batches", "in_colour", "pairs", "watched"]

Images: TypeAlias = Dataset | np.ndarray | Tensor | Iterable[Any]
"""A data set; images `[N, H, W, C]`, bytes or floats in [0, 1], grey or coloured; or an iterable
of such arrays, so that a large set need not be in memory."""


def batches(images: Images, size: int) -> Iterator[Tensor]:
    """The images in order, at most `size` at a time: `[n, H, W, C]`, bytes or floats."""
    if isinstance(images, Dataset):
        for start in range(0, len(images), size):
            yield _checked(images.inputs(np.arange(start, min(start + size, len(images)))))
    elif isinstance(images, np.ndarray | Tensor):
        for start in range(0, len(images), size):
            yield _checked(torch.as_tensor(images[start : start + size]))
    else:
        yield from _regrouped(images, size)


def _regrouped(parts: Iterable[Any], size: int) -> Iterator[Tensor]:
    """Batches of `size` images from parts of any size, so that two sets stay in step."""
    waiting: list[Tensor] = []
    for part in parts:
        for batch in batches(part if isinstance(part, Tensor) else np.asarray(part), size):
            if waiting and (batch.shape[1:], batch.dtype) != (
                waiting[0].shape[1:],
                waiting[0].dtype,
            ):
                yield torch.cat(waiting)
                waiting = []
            waiting.append(batch)
            if sum(map(len, waiting)) >= size:
                full, *rest = torch.cat(waiting).split(size)
                yield full
                waiting = rest
    if waiting:
        yield torch.cat(waiting)


def watched(images: Images, size: int) -> Iterator[Tensor]:
    """The same under a progress bar."""
    total = ceil(len(images) / size) if isinstance(images, Dataset | np.ndarray | Tensor) else None
    yield from track(batches(images, size), "looking at images", total)


def pairs(images: Images, others: Images, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Two sets of which each image belongs to the one at its place in the other, as floats."""
    for first, second in zip_longest(batches(images, size), batches(others, size)):
        if first is None or second is None:
            raise DataError("images are compared one by one, but one set has more than the other")
        if first.shape != second.shape:
            unlike = first.shape[1:] != second.shape[1:]
            reason = (
                "so both need the same shape" if unlike else "but one set has more than the other"
            )
            raise DataError(
                f"images are compared one by one, {reason}: got {list(first.shape)} and "
                f"{list(second.shape)}"
            )
        yield as_floats(first), as_floats(second)


def as_bytes(images: Tensor) -> Tensor:
    """Images with values 0 … 255, those in floats rounded as if written to a file."""
    return images if images.dtype == torch.uint8 else (images * 255).round()


def in_colour(images: Tensor) -> Tensor:
    """Images `[n, H, W, 3]`, grey ones with three equal channels."""
    return images.expand(*images.shape[:3], 3)


def _checked(images: Tensor) -> Tensor:
    if images.ndim != 4 or images.shape[3] not in (1, 3):
        raise DataError(
            "images must be [N, H, W, C], grey (C = 1) or coloured (C = 3), but got an array of "
            f"shape {list(images.shape)}"
        )
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point() or not ((images >= 0) & (images <= 1)).all():
        raise DataError(
            f"images must be bytes 0 … 255 or floats in [0, 1], but got {images.dtype} from "
            f"{images.min():g} to {images.max():g}"
        )
    return images.float()
