"""Catalogue of the built-in data sets, which can be listed without loading anything.

Their metadata is in `datasets.toml`, and the functions that load them are in `LOADERS`.
"""

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, get_type_hints

from unweave.errors import UnknownNameError
from unweave.io.extensions import is_reference, resolve
from unweave.io.writing import cache_folder

__all__ = [
    "DATASETS",
    "RENDERED",
    "Entry",
    "RemoteFile",
    "factors_of",
    "find_loader",
    "is_named",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteFile:
    """A published file that can be downloaded.

    Args:
        name: File name in the cache folder of the data set.
        size: Size in bytes, or None if unknown.
        md5: Published MD5 checksum, or None if there is none.
        urls: Download addresses, in order of preference.
        limit: Largest download to accept if the size is unknown, in bytes.
    """

    name: str
    size: int | None = None
    md5: str | None = None
    urls: tuple[str, ...] = ()
    limit: int = 1 << 30

    def __str__(self) -> str:
        size = "size unknown" if self.size is None else f"{self.size:,} bytes"
        return f"{self.name} ({size}, md5 {self.md5 or 'unknown'})"

    @property
    def max_size(self) -> int:
        """Largest size to accept, in bytes."""
        return self.limit if self.size is None else self.size


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Metadata of a data set, known before it is loaded.

    Args:
        shape: Height, width and channels of the images.
        factors: Names and sizes of the factors of the grid, slowest first.
        count: Number of images, if it differs from the size of the grid.
        source: How the data set is obtained: rendered locally, or what is downloaded.
        loader: Module and function that load it.
        preset: Fixed arguments of that function.
        prepared: Cached files that loading needs, relative to the cache folder.
        needs: Name of a required loading option, if any.
        files: Published files from which it is built.
    """

    shape: tuple[int, ...]
    factors: Mapping[str, int] = field(default_factory=dict)
    count: int | None = None
    source: str
    loader: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    needs: str | None = None
    files: tuple[RemoteFile, ...] = ()

    def __len__(self) -> int:
        return self.count or prod(self.factors.values())

    @property
    def paths(self) -> list[Path]:
        """Paths of the cached files that loading needs."""
        return [cache_folder() / name for name in self.prepared]

    @property
    def ready(self) -> bool:
        """Whether it loads without rendering or downloading anything."""
        return all(path.exists() for path in self.paths)

    @property
    def disk(self) -> int:
        """Disk space used by its cached files, in bytes."""
        return sum(path.stat().st_size for path in self.paths if path.exists())

    @property
    def folders(self) -> list[str]:
        """Cache folders that contain its files."""
        return list(dict.fromkeys(Path(name).parts[0] for name in self.prepared))

    def function(self) -> "partial[Any]":
        """Import and return the function that loads it."""
        module, name = self.loader.split(":")
        return partial(getattr(import_module(module), name), **self.preset)


RENDERED = {
    "dsprites/bits.npy": "7c3c55f0e04f683cbf14403e7c674f3eb18db44abd425bc3193cfb7339553b8e",
}
"""SHA-256 of cached files that are identical on every machine."""
LOADERS = {
    "dsprites": "unweave.data.dsprites:load",
    "textured_dsprites": "unweave.data.textured_dsprites:load",
    "infinite_dsprites": "unweave.data.infinite_dsprites:load",
    "rooms3d": "unweave.data.rooms3d:load",
    "shapes3d": "unweave.data.shapes3d:load",
    "cars3d": "unweave.data.cars3d:load",
    "smallnorb": "unweave.data.smallnorb:load",
    "celeba": "unweave.data.celeba:load",
    "mnist": "unweave.data.mnist:load",
    "chairs3d": "unweave.data.chairs3d:load",
    "pendulum": "unweave.data.pendulum:load",
    "color_dsprites": "unweave.data.dsprites_variants:load_color",
    "noisy_dsprites": "unweave.data.dsprites_variants:load_noisy",
    "scream_dsprites": "unweave.data.dsprites_variants:load_scream",
    "mpi3d_toy": "unweave.data.mpi3d:load",
    "mpi3d_realistic": "unweave.data.mpi3d:load",
    "mpi3d_real": "unweave.data.mpi3d:load",
    "mpi3d_complex": "unweave.data.mpi3d:load",
    "falcor3d": "unweave.data.nvidia3d:load",
    "isaac3d": "unweave.data.nvidia3d:load",
    "fashion_mnist": "unweave.data.mnist:load_fashion",
}
"""Functions that load data sets; `datasets.toml` cannot name others."""
MANIPULATION = "unweave.papers.inductive_biases.manipulation"


def _read_entries() -> dict[str, Entry]:
    table = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text())
    return {name: _entry(name, **metadata) for name, metadata in table.items()}


def _entry(name: str, **metadata: Any) -> Entry:
    loader = LOADERS[name]
    metadata["shape"] = tuple(metadata["shape"])
    metadata["prepared"] = tuple(metadata.get("prepared", ()))
    folders = metadata.pop("at", ())
    published = []
    for file in metadata.pop("files", ()):
        urls = file.pop("urls", None) or [f"{folder}/{file['name']}" for folder in folders]
        published.append(RemoteFile(**file, urls=tuple(urls)))
    preset = {"variant": name} if loader.endswith(("mpi3d:load", "nvidia3d:load")) else {}
    return Entry(loader=loader, preset=preset, files=tuple(published), **metadata)


def _manipulated() -> dict[str, Entry]:
    """Return variants of data sets with learned adversarial changes or noise of the same size."""
    bases = {
        base: replace(DATASETS[base], preset={"base": base})
        for base in ("dsprites", "rooms3d", "shapes3d")
    }
    modified = {
        f"{base}_modified": replace(
            entry,
            source=f"{base} modified by path=FILE from `unweave manipulate`",
            loader=f"{MANIPULATION}.manipulation:load_modified",
            needs="path",
        )
        for base, entry in bases.items()
    }
    noise = {
        f"{base}_noise": replace(
            entry, source=f"{base} with noise", loader=f"{MANIPULATION}.images:load_noise"
        )
        for base, entry in bases.items()
    }
    return modified | noise


DATASETS: dict[str, Entry] = _read_entries()
DATASETS |= _manipulated()


def is_named(name: str) -> bool:
    """Whether a name refers to a data set: a key of `DATASETS`, or `package.module:function`."""
    return name in DATASETS or is_reference(name)


def find_loader(name: str) -> Callable[..., Any]:
    """Return the function that loads the named data set."""
    if is_reference(name):
        found: Callable[..., Any] = resolve(name, "data set", _loads_a_dataset)
        return found
    if name not in DATASETS:
        raise UnknownNameError("data set", name, DATASETS)
    return DATASETS[name].function()


def factors_of(name: str) -> Mapping[str, int] | None:
    """Return the factors of a named data set if they are known without loading it, else None."""
    return DATASETS[name].factors or None if name in DATASETS else None


def _loads_a_dataset(candidate: Any) -> bool:
    """Whether a user's object is a function annotated to return a `Dataset`.

    Saved files can name such functions, so only annotated ones may be called.
    """
    from unweave.data.dataset import Dataset

    if not inspect.isfunction(candidate) or candidate.__module__.startswith("unweave."):
        return False
    try:
        returned = get_type_hints(candidate).get("return")
    except Exception:  # a user's annotations may name things that do not exist
        return False
    return isinstance(returned, type) and issubclass(returned, Dataset)
