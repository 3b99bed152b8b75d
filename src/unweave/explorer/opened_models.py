"""Cache of loaded models, with their data and the activity of their latents."""

import threading
import time
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
from unweave.models.encoding import posteriors
from unweave.models.images import sample_rows, shape_mismatch
from unweave.models.model import Model
from unweave.models.names import write_names
from unweave.text import printable

__all__ = ["Opened", "OpenedModels", "as_bytes"]

MODELS_KEPT = 16
DATASETS_KEPT = 2
FIRST_IMAGES = 256
"""Number of images for a first, quick estimate of activity; also the number of samples from the
prior for models without data."""
PAUSE_SECONDS = 0.005
"""Pause between parts of long work, so that slider moves are not blocked by all of it."""


@dataclass(frozen=True, eq=False)
class Opened:
    """A loaded model with its data set, if available.

    Args:
        model: The model.
        data: Data set that the model was trained on, or the one passed by the user.
        no_data: Reason why there is no data set.
    """

    model: Model
    data: Dataset | None
    no_data: str

    @cached_property
    def measured(self) -> np.ndarray:
        """Indices of the images that activity is measured on, as in reports and plots.

        Without data, they refer to images decoded from the prior.
        """
        return np.arange(FIRST_IMAGES) if self.data is None else sample_rows(self.data)

    @cached_property
    def prior_samples(self) -> np.ndarray:
        """Images decoded from samples of the prior, `[n, H, W, C]`."""
        size = (FIRST_IMAGES, self.model.config.code_size)
        return self.model.decode(np.random.default_rng(0).normal(size=size))

    @cached_property
    def support(self) -> np.ndarray:
        """Indices of the images that can be shown."""
        return np.zeros(0, dtype=np.int64) if self.data is None else self.data.support

    @property
    def origin(self) -> str:
        """Origin of the data as text; models with the same origin show the same images."""
        return "" if self.data is None else origin_text([self.data.name, *self.data.origin])

    @property
    def start(self) -> int:
        """Number of the first image to show: in the middle of the grid, or 0."""
        if self.data is None or self.data.grid is None or self.data.weights is not None:
            return 0
        return int(self.data.index(np.array(self.data.grid.sizes) // 2))


class OpenedModels:
    """Models of the index, loaded on demand and cached.

    Args:
        entries: The model index.
        data: Data set for all models (default: the one that each was trained on).
    """

    def __init__(self, entries: Sequence[Entry], data: Dataset | None = None) -> None:
        self.entries = entries
        self._given = data
        # PyTorch uses all cores for one picture, so decoding two at once gains nothing.
        self._turn = threading.RLock()
        self._naming = threading.Lock()
        self._of_origin = {
            origin_text(entry.config.data): entry for entry in entries if entry.config
        }
        self._opened = lru_cache(MODELS_KEPT)(self._open)
        self._activities = lru_cache(MODELS_KEPT)(self._activity)
        self._datasets = lru_cache(DATASETS_KEPT)(self._dataset)

    def open(self, place: int) -> Opened:
        """Return the model at an index, loading it if necessary."""
        with self._turn:
            return self._opened(place)

    def activity(self, place: int) -> Activity:
        """Return the activity of a model's latents, as in reports and plots."""
        return self._activities(place, len(self.open(place).measured))

    def first_activity(self, place: int) -> tuple[Activity, bool]:
        """Estimate the activity on the first few images; also return whether these are all."""
        count = len(self.open(place).measured)
        return self._activities(place, min(FIRST_IMAGES, count)), count <= FIRST_IMAGES

    def encode(self, place: int, image: np.ndarray) -> np.ndarray:
        """Return the mean code `[d]` of an image, bytes `[H, W, C]`."""
        with self._turn:
            mean, _ = self._opened(place).model.encode(image[None])
        return self._finite(place, mean[0])

    def decode(self, place: int, codes: Sequence[Sequence[float]]) -> np.ndarray:
        """Decode codes `[n, d]` to images, bytes `[n, H, W, C]`."""
        with self._turn:
            images = self._opened(place).model.decode(np.asarray(codes, dtype=np.float32))
        return as_bytes(self._finite(place, images))

    def names(self, place: int) -> dict[int, str]:
        """Return the recorded names of a model's latents."""
        return self.entries[place].run.names

    def name_latents(self, place: int, names: Mapping[int, str]) -> None:
        """Record names of a model's latents in place of earlier ones."""
        entry = self.entries[place]
        if not entry.can_be_named:
            raise UnweaveError(
                "names of latents are recorded next to saved models, and this one is in memory or "
                "part of the package; save it in a folder first",
                subject=entry.name,
            )
        assert entry.run.folder is not None
        assert entry.config is not None
        with self._naming:
            write_names(entry.run.folder, entry.config, names)

    def image(self, place: int, number: int) -> tuple[np.ndarray, Mapping[str, str], str]:
        """Return an image of the data set, its varying factors if known, and its file name.

        The image has bytes `[H, W, C]`. The file name is empty if it was not read from a file.
        """
        opened = self.open(place)
        if opened.data is None:
            raise UnweaveError(opened.no_data, subject="data")
        index = opened.support[number]
        with self._turn:
            (image,) = opened.data.images([index])
        files = opened.data.files
        known = len(files) == len(opened.data)  # slices of custom images keep all file names
        return image, _factors(opened.data, index), printable(files[index]) if known else ""

    def _open(self, place: int) -> Opened:
        entry = self.entries[place]
        model = entry.open()
        return Opened(model, *self._data_for(model))

    def _activity(self, place: int, count: int) -> Activity:
        opened = self.open(place)
        parts = []
        for start in range(0, count, FIRST_IMAGES):
            rows = opened.measured[start : min(start + FIRST_IMAGES, count)]
            with self._turn:
                images: Any = opened.prior_samples if opened.data is None else opened.data
                parts.append(posteriors(opened.model, images, rows))
            if count > FIRST_IMAGES:
                time.sleep(PAUSE_SECONDS)
        means, logvars = (np.concatenate(part, axis=1)[0] for part in zip(*parts, strict=True))
        method = opened.model.config.method
        return shown_activity(
            means,
            logvars,
            deterministic=method.deterministic,
            standard_noise=method.standard_noise,
        )

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
            return None, f"Its data set is not available: {error}."
        if hasattr(data, "curves"):
            return None, f"{data.name} contains curves, not images."
        reason = shape_mismatch(model.shape, data.shape, data.name)
        return (None, f"{reason}.") if reason else (data, "")

    def _finite(self, place: int, values: np.ndarray) -> np.ndarray:
        if not np.isfinite(values).all():
            raise UnweaveError(
                "this model produces values that are not finite; choose another one",
                subject=self.entries[place].name,
            )
        return values

    def _dataset(self, origin: str) -> Dataset:
        entry = self._of_origin[origin]
        assert entry.config is not None
        kind, name = entry.config.data[0][:2] if entry.config.data else ("", "")
        if kind == "load":
            _check_downloaded(name)
        if kind == "own":
            raise DataError(f"it was trained on custom images {name!r}; pass them with --data")
        return rebuild(entry.config.data)


def _check_downloaded(name: str) -> None:
    """Raise an error if loading would start a download, which a web page must not do."""
    known = DATASETS.get(name)
    if known is not None and not known.ready and "download" in known.source:
        raise DataError(f"{name} has not been downloaded yet; run `unweave data prepare {name}`")


def as_bytes(images: np.ndarray) -> np.ndarray:
    """Convert floats in [0, 1] to bytes, rounded."""
    return np.rint(images * 255).astype(np.uint8)


def _factors(data: Dataset, index: int) -> dict[str, str]:
    known = data.grid or data.labels
    if known is None:
        return {}
    classes = data.factors([index])[0]
    return {
        axis.name: axis.value_text(c)
        for axis, c in zip(known.axes, classes, strict=True)
        if len(axis) > 1
    }
