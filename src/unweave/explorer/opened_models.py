"""Opened models: loaded when they are first looked at, a few kept, with what is known of each."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from unweave.analysis.activity import Activity, shown_activity
from unweave.data.catalog import DATASETS
from unweave.data.dataset import Dataset
from unweave.data.origin import rebuild
from unweave.errors import DataError, UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.explorer.model_index import Entry
from unweave.models.drawn_images import drawn_rows
from unweave.models.encoding import posteriors
from unweave.models.model import Model
from unweave.models.shapes import misfit

__all__ = ["Opened", "Shelf", "as_bytes"]

MODELS_KEPT = 16
DATASETS_KEPT = 2
PRIOR_IMAGES = 256
"""Images that a model without data draws itself, to estimate the activity of its latents."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A loaded model with its data, where that can be had.

    Args:
        model: The model.
        data: What it was trained on, or what was given.
        no_data: Why there is none.
        activity: Of its latents, from the images that reports and pictures use, or else from
            images that the model itself draws from the prior.
    """

    model: Model
    data: Dataset | None
    no_data: str
    activity: Activity

    @cached_property
    def support(self) -> np.ndarray:
        """The indices of the images that can be looked at."""
        return np.zeros(0, dtype=np.int64) if self.data is None else self.data.support

    @property
    def origin(self) -> str:
        """How its data were made, as text: models with the same show the same images."""
        return "" if self.data is None else origin_text([self.data.name, *self.data.origin])

    @property
    def start(self) -> int:
        """The image to begin with: one in the middle of the grid, or the first."""
        if self.data is None or self.data.grid is None or self.data.weights is not None:
            return 0
        return int(self.data.index(np.array(self.data.grid.sizes) // 2))


class Shelf:
    """The models of a list, opened one by one and kept while they are in use.

    Args:
        entries: The list.
        data: A data set for all of them, in place of what each was trained on.
    """

    def __init__(self, entries: Sequence[Entry], data: Dataset | None = None) -> None:
        self.entries = entries
        self._given = data
        # Torch uses all cores for one picture; two at once would only wait for each other.
        self._turn = threading.RLock()
        self._of_origin = {
            origin_text(entry.config.data): entry for entry in entries if entry.config
        }
        self._opened = lru_cache(MODELS_KEPT)(self._open)
        self._datasets = lru_cache(DATASETS_KEPT)(self._dataset)

    def open(self, place: int) -> Opened:
        """The model at a place of the list."""
        with self._turn:
            return self._opened(place)

    def encode(self, place: int, image: np.ndarray) -> np.ndarray:
        """The mean code `[d]` of an image, bytes `[H, W, C]`."""
        with self._turn:
            mean, _ = self._opened(place).model.encode(image[None])
        return _finite(mean[0])

    def decode(self, place: int, codes: Sequence[Sequence[float]]) -> np.ndarray:
        """The images of codes `[n, d]`, bytes `[n, H, W, C]`."""
        with self._turn:
            images = self._opened(place).model.decode(np.asarray(codes, dtype=np.float32))
        return as_bytes(_finite(images))

    def image(self, place: int, number: int) -> tuple[np.ndarray, Mapping[str, str]]:
        """One of the data set's images, bytes `[H, W, C]`, and its factors that vary, if known."""
        opened = self.open(place)
        if opened.data is None:
            raise UnweaveError(opened.no_data)
        index = opened.support[number]
        with self._turn:
            (image,) = opened.data.images([index])
        return image, _factors(opened.data, index)

    def _open(self, place: int) -> Opened:
        entry = self.entries[place]
        model = entry.open()
        data, reason = self._data_for(model)
        return Opened(model, data, reason, _activity(model, data))

    def _data_for(self, model: Model) -> tuple[Dataset | None, str]:
        try:
            data = self._given or self._datasets(origin_text(model.config.data))
        except (
            UnweaveError,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            return None, f"Its data set could not be had: {error}."
        if hasattr(data, "curves"):
            return None, f"{data.name} has curves and no images."
        reason = misfit(model.shape, data.shape, data.name)
        return (None, f"{reason}.") if reason else (data, "")

    def _dataset(self, origin: str) -> Dataset:
        entry = self._of_origin[origin]
        assert entry.config is not None
        kind, name = entry.config.data[0][:2] if entry.config.data else ("", "")
        if kind == "load":
            _check_at_hand(name)
        if kind == "own":
            raise DataError(f"it has your own images {name!r}; say where they are with --data")
        return rebuild(entry.config.data)


def _activity(model: Model, data: Dataset | None) -> Activity:
    method = model.config.method
    if data is None:
        prior = np.random.default_rng(0).normal(size=(PRIOR_IMAGES, model.config.code_size))
        images: Any = model.decode(prior)
        rows = None
    else:
        images, rows = data, drawn_rows(data)
    (means,), (logvars,) = posteriors(model, images, rows)
    return shown_activity(
        means, logvars, deterministic=method.deterministic, standard_noise=method.standard_noise
    )


def _check_at_hand(name: str) -> None:
    """Refuse what would begin a download, which is not for a page to do."""
    known = DATASETS.get(name)
    if known is not None and not known.ready and "download" in known.source:
        raise DataError(f"{name} is not downloaded yet; see `unweave data prepare {name}`")


def as_bytes(images: np.ndarray) -> np.ndarray:
    """Floats in [0, 1] as bytes, rounded."""
    return np.rint(images * 255).astype(np.uint8)


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.isfinite(values).all():
        raise UnweaveError("this model gives numbers that are not finite; choose another one")
    return values


def _factors(data: Dataset, index: int) -> dict[str, str]:
    known = data.grid or data.labels
    if known is None:
        return {}
    classes = data.factors([index])[0]
    return {
        axis.name: axis.word(c)
        for axis, c in zip(known.axes, classes, strict=True)
        if len(axis) > 1
    }
