"""Data sets: images in memory, with their ground-truth factors where these are known."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.data.catalog import DATASETS, find_loader, is_named
from unweave.errors import DataError, UnknownNameError
from unweave.io.paths import path_errors
from unweave.text import canonical_name, shown

if TYPE_CHECKING:
    from unweave.data.dataset import Batch, Dataset
    from unweave.data.grid import Factor, Grid, Labels
    from unweave.data.pairs import LaplaceTransitions, Neighbours, UniformTransitions, WeakPairs

__all__ = [
    "DATASETS",
    "Batch",
    "Dataset",
    "Factor",
    "Grid",
    "Labels",
    "LaplaceTransitions",
    "Neighbours",
    "UniformTransitions",
    "WeakPairs",
    "load",
]

LOADING = ("size", "channels", "factors", "path", "picture", "bits", "non_square")
"""Options of `load` that other functions with a `source` argument also accept."""
_HOMES = {
    "Batch": "dataset",
    "Dataset": "dataset",
    "Factor": "grid",
    "Grid": "grid",
    "Labels": "grid",
    "LaplaceTransitions": "pairs",
    "Neighbours": "pairs",
    "UniformTransitions": "pairs",
    "WeakPairs": "pairs",
}


def load(source: Any, **options: Any) -> "Dataset":
    """Load a data set by name, from your own files, or from an array.

    Args:
        source: Name from `DATASETS` (`"dsprites"`, `"color-dsprites"`), folder of images, `.npy`,
            `.npz`, `.h5` or `.tif` file, NumPy array or torch tensor of images, map-style torch
            dataset or `DataLoader`, Hugging Face data set or folder written by its
            `save_to_disk`, or `package.module:function`, a function of your own in a module that
            is already imported.
        options: Options of the loader, e.g. `path=` for a published file, or `size=`,
            `channels=`, `factors=`, `bits=` and `non_square=` for your own images.

    Example:
        >>> import unweave as uw
        >>> uw.data.load("pendulum").grid.names
        ('length', 'damping', 'mass')
    """
    from unweave.data.origin import with_origin

    name = canonical_name(source) if isinstance(source, str) else ""
    if is_named(name):
        return with_origin(_call(find_loader(name), name, options), name, options)
    return with_origin(_load_own(source, options), source, options)


def load_with(source: Any, settings: Mapping[str, Any]) -> tuple["Dataset", dict[str, Any]]:
    """Load any source, and return the data set and the settings that are not loading options."""
    from unweave.data.dataset import Dataset

    options = {name: value for name, value in settings.items() if name in LOADING}
    rest = {name: value for name, value in settings.items() if name not in LOADING}
    if not isinstance(source, Dataset):
        return load(source, **options), rest
    if options:
        raise DataError(
            f"{source.name} is already loaded; pass {', '.join(options)} to uw.data.load instead",
            subject=next(iter(options)),
            value=source.name,
        )
    return source, rest


def _load_own(source: Any, options: dict[str, Any]) -> "Dataset":
    from unweave.data.custom import from_array, from_hugging_face, from_path
    from unweave.data.huggingface import is_hugging_face

    if is_hugging_face(source):
        return _call(partial(from_hugging_face, source), "a Hugging Face data set", options)
    if not isinstance(source, str | Path):
        return _call(partial(from_array, source), "an array", options)
    with path_errors(Path(source), "read"):
        path = Path(source).expanduser()
        exists = path.exists()
    if exists:
        return _call(partial(from_path, path), "your own images", options)
    if path.suffix or "/" in str(source):
        raise DataError(
            f"file or folder {shown(str(source))} does not exist; check the path",
            subject="source",
            value=str(source),
        )
    raise UnknownNameError("data set, file or folder", str(source), DATASETS)


def _call(loader: Callable[..., Any], name: str, options: dict[str, Any]) -> "Dataset":
    """Call a loader after checking that it accepts all the options."""
    from unweave.data.origin import options_of

    known = options_of(loader)
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    dataset: Dataset = loader(**options)
    return dataset


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"unweave.data.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
