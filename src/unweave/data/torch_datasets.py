"""Datasets and DataLoaders of torch as arrays: images, and labels where these are integers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from unweave.data.arrays import as_images
from unweave.errors import DataError
from unweave.io.arrays import on_host
from unweave.progress import track

__all__ = ["LABEL", "images_and_labels", "is_torch_dataset"]

LABEL = "label"
"""The factor that single labels become."""
AT_ONCE = 256
"""Items stacked at once: as floats they take four times the memory of bytes."""


def is_torch_dataset(source: Any) -> bool:
    """Whether this is a dataset of torch, one like it, or a loader of one.

    NumPy would read an object that is only like a dataset past its length, which it does not ask.
    """
    if isinstance(source, TorchDataset | DataLoader):
        return True
    alike = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    return alike and not (hasattr(source, "__array__") or hasattr(source, "__iter__"))


def images_and_labels(source: Any, name: str) -> tuple[np.ndarray, Any]:
    """All images of a map-style dataset, in order, as `[N, H, W, C]`, and their labels.

    Items are images or tuples that begin with one, `(image, label)`. An image is an array
    `[H, W]`, `[H, W, C]` or `[C, H, W]`, or a PIL image. Of a loader its dataset is read: in
    order, item by item, without its sampler, batches and collate function.

    Args:
        source: The dataset or loader.
        name: As in messages.

    Returns:
        The images, and the labels as a table of factors: a single integer per image as the factor
        `label`, several as an array `[N, K]`. None where labels are missing or anything else.
    """
    dataset = source.dataset if isinstance(source, DataLoader) else source
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise DataError(
            f"a {type(dataset).__name__} has no length or no single items; give a map-style "
            "dataset, or an array of its images"
        )
    parts: list[np.ndarray] = []
    labels: list[Any] = []
    count = len(dataset)
    for start in track(range(0, count, AT_ONCE), "reading images", -(-count // AT_ONCE)):
        items = [_split(dataset[place]) for place in range(start, min(start + AT_ONCE, count))]
        parts.append(_stacked([image for image, _ in items], start, name))
        labels += [label for _, label in items]
    if not parts:
        raise DataError(f"{name} has no items; give a dataset with images")
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise DataError(_differ(name, shapes))
    return np.concatenate(parts), _factors(labels)


def _split(item: Any) -> tuple[Any, Any]:
    """The image of an item and its label, if any."""
    if isinstance(item, tuple | list):
        return (item[0], item[1] if len(item) > 1 else None) if item else (None, None)
    return item, None


def _stacked(images: Sequence[Any], start: int, name: str) -> np.ndarray:
    """Images as one array; floats as bytes, since these take less memory."""
    arrays = []
    for place, image in enumerate(images, start):
        try:
            array = on_host(image) if not isinstance(image, Mapping | str) else None
        except (RuntimeError, TypeError, ValueError):
            array = None
        if array is None or array.dtype.kind not in "biuf" or array.ndim not in (2, 3):
            raise DataError(
                f"item {place} of {name} is no image and no tuple that begins with one, but "
                f"{type(image).__name__}; give a dataset whose items are images or (image, label)"
            )
        arrays.append(array)
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise DataError(_differ(name, shapes))
    stacked = np.stack(arrays)
    return as_images(stacked, name) if stacked.dtype.kind == "f" else stacked


def _differ(name: str, shapes: set[tuple[int, ...]]) -> str:
    one, other, *_ = sorted(shapes)
    return (
        f"images of {name} differ in shape, {list(one)} and {list(other)}; let the dataset resize "
        "and convert them, or give a folder"
    )


def _factors(labels: Sequence[Any]) -> Any:
    """Labels as a table of factors, where all are integers or rows of as many integers."""
    try:
        table = np.stack([on_host(label) for label in labels])
    except (RuntimeError, TypeError, ValueError):
        return None
    if table.dtype.kind not in "iu" or table.ndim > 2 or 0 in table.shape:
        return None
    return {LABEL: table} if table.ndim == 1 else table
