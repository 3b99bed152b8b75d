"""Data sets: images in memory with, where known, the grid of factors that made them."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.data.catalog import DATASETS, find_loader, is_named
from unweave.errors import DataError, UnknownNameError
from unweave.io.paths import path_errors
from unweave.text import shown, spelled

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

LOADING = ("size", "channels", "factors", "path", "picture")
"""Options of `load` that functions which take any source accept as well."""
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
    """A data set by name, from your own files, or from an array.

    Args:
        source: A name of `DATASETS` (`"dsprites"`, `"color-dsprites"`), a folder of images, a
            `.npy`, `.npz` or `.h5` file, a NumPy or torch array of images, or a map-style dataset
            or `DataLoader` of torch; or your own function as `package.module:function`, in a
            module that is imported already.
        options: What the data set's own `load` takes, e.g. `path=` of a published file, or
            `size=`, `channels=` and `factors=` for your own images.

    Example:
        >>> import unweave as uw
        >>> uw.data.load("pendulum").grid.names
        ('length', 'damping', 'mass')
    """
    from unweave.data.origin import remember

    name = spelled(source) if isinstance(source, str) else ""
    if is_named(name):
        return remember(_call(find_loader(name), name, options), name, options)
    return remember(_load_own(source, options), source, options)


def load_with(source: Any, settings: Mapping[str, Any]) -> tuple["Dataset", dict[str, Any]]:
    """The data set of any source, and the settings that are no options of loading it.

    Args:
        source: A data set, or what `load` takes.
        settings: Of a function that takes both.
    """
    from unweave.data.dataset import Dataset

    options = {name: value for name, value in settings.items() if name in LOADING}
    rest = {name: value for name, value in settings.items() if name not in LOADING}
    if not isinstance(source, Dataset):
        return load(source, **options), rest
    if options:
        raise DataError(
            f"{source.name} is loaded already; give {', '.join(options)} to uw.data.load"
        )
    return source, rest


def _load_own(source: Any, options: dict[str, Any]) -> "Dataset":
    from unweave.data.custom import from_array, from_path

    if not isinstance(source, str | Path):
        return _call(partial(from_array, source), "an array", options)
    with path_errors(Path(source), "read"):
        path = Path(source).expanduser()
        there = path.exists()
    if there:
        return _call(partial(from_path, path), "your own images", options)
    if path.suffix or "/" in str(source):
        raise DataError(f"there is no file or folder {shown(str(source))}; check the path")
    raise UnknownNameError("file or folder here and no data set", str(source), DATASETS)


def _call(loader: Callable[..., Any], name: str, options: dict[str, Any]) -> "Dataset":
    """Call a loader, if it knows all the options."""
    import inspect

    preset = getattr(loader, "keywords", {})
    known = [option for option in inspect.signature(loader).parameters if option not in preset]
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
