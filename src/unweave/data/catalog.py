"""The data sets that unweave knows by name: facts only, so that listing them costs nothing."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from unweave.errors import UnknownNameError
from unweave.io.extensions import is_reference, resolve
from unweave.io.writing import cache_folder

if TYPE_CHECKING:
    from unweave.data.fetch import RemoteFile

__all__ = ["DATASETS", "RENDERED", "Entry", "factors_of", "find_loader", "is_named"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of a data set before it is loaded.

    Args:
        shape: Height, width and channels of its images.
        factors: Names and sizes of the factors of its grid, slowest first.
        count: How many images, where that is not the size of the grid.
        source: Where it comes from: rendered here, or what is downloaded and how much.
        loader: The module and function that load it.
        preset: What that function is called with in any case.
        prepared: The files in the cache that make it ready, relative to the cache folder.
        needs: An option without which it cannot be loaded.
        files: The module and name of the list of published files, if it has one.
    """

    shape: tuple[int, ...]
    factors: Mapping[str, int] = field(default_factory=dict)
    count: int | None = None
    source: str
    loader: str
    preset: Mapping[str, Any] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    needs: str | None = None
    files: str | None = None

    def __len__(self) -> int:
        return self.count or prod(self.factors.values())

    @property
    def paths(self) -> list[Path]:
        """The files in the cache that make it ready."""
        return [cache_folder() / name for name in self.prepared]

    @property
    def ready(self) -> bool:
        """Whether it loads at once, with no rendering and no download."""
        return all(path.exists() for path in self.paths)

    @property
    def disk(self) -> int:
        """Bytes that its prepared files take now."""
        return sum(path.stat().st_size for path in self.paths if path.exists())

    @property
    def folders(self) -> list[str]:
        """The folders of the cache in which its files lie."""
        return list(dict.fromkeys(Path(name).parts[0] for name in self.prepared))

    def downloads(self) -> "tuple[RemoteFile, ...]":
        """The published files that it is made from."""
        if self.files is None:
            return ()
        module, name = self.files.split(":")
        return getattr(import_module(module), name)

    def function(self) -> "partial[Any]":
        """The function that loads it."""
        module, name = self.loader.split(":")
        return partial(getattr(import_module(module), name), **self.preset)


RENDERED = {
    "dsprites/bits.npy": "7c3c55f0e04f683cbf14403e7c674f3eb18db44abd425bc3193cfb7339553b8e",
}
"""The SHA-256 of cached files that come out the same on every machine."""

SPRITES = {"shape": 3, "scale": 6, "orientation": 40, "posX": 32, "posY": 32}
ROOM = {
    "floor_hue": 10,
    "wall_hue": 10,
    "object_hue": 10,
    "scale": 8,
    "shape": 4,
    "orientation": 15,
}


def _mpi3d(variant: str, kinds: int, source: str) -> Entry:
    factors = {
        "object_color": kinds,
        "object_shape": kinds,
        "object_size": 2,
        "camera_height": 3,
        "background_color": 3,
        "horizontal_axis": 40,
        "vertical_axis": 40,
    }
    return Entry(
        shape=(64, 64, 3),
        factors=factors,
        source=source,
        loader="unweave.data.mpi3d:load",
        files="unweave.data.mpi3d:FILES",
        preset={"variant": f"mpi3d_{variant}"},
        prepared=(f"mpi3d_{variant}/images.npy",),
    )


DATASETS: dict[str, Entry] = {
    "dsprites": Entry(
        shape=(64, 64, 1),
        factors=SPRITES,
        source="rendered here in seconds",
        loader="unweave.data.dsprites:load",
        prepared=("dsprites/bits.npy",),
    ),
    "color_dsprites": Entry(
        shape=(64, 64, 3),
        factors=SPRITES,
        source="rendered here in seconds",
        loader="unweave.data.dsprites_variants:load_color",
        prepared=("dsprites/bits.npy",),
    ),
    "noisy_dsprites": Entry(
        shape=(64, 64, 3),
        factors=SPRITES,
        source="rendered here in seconds",
        loader="unweave.data.dsprites_variants:load_noisy",
        prepared=("dsprites/bits.npy",),
    ),
    "scream_dsprites": Entry(
        shape=(64, 64, 3),
        factors=SPRITES,
        source="rendered here; the painting by download, or picture=FILE",
        loader="unweave.data.dsprites_variants:load_scream",
        files="unweave.data.dsprites_variants:FILES",
        prepared=("dsprites/bits.npy", "scream_dsprites/scream.jpg"),
    ),
    "textured_dsprites": Entry(
        shape=(64, 64, 3),
        factors={**SPRITES, "material": 16},
        source="rendered here in seconds",
        loader="unweave.data.textured_dsprites:load",
        prepared=("dsprites/bits.npy",),
    ),
    "rooms3d": Entry(
        shape=(64, 64, 3),
        factors=ROOM,
        source="rendered here in seconds",
        loader="unweave.data.rooms3d:load",
        prepared=("rooms3d/layers.npy",),
    ),
    "shapes3d": Entry(
        shape=(64, 64, 3),
        factors=ROOM,
        source="download of 3dshapes.h5, 268 MB",
        loader="unweave.data.shapes3d:load",
        files="unweave.data.shapes3d:FILES",
        prepared=("shapes3d/images.npy",),
    ),
    "cars3d": Entry(
        shape=(64, 64, 3),
        factors={"elevation": 4, "azimuth": 24, "object": 183},
        source="download of nips2015-analogy-data.tar.gz, 300 MB",
        loader="unweave.data.cars3d:load",
        files="unweave.data.cars3d:FILES",
        prepared=("cars3d/images.npy",),
    ),
    "smallnorb": Entry(
        shape=(64, 64, 1),
        factors={"category": 5, "elevation": 9, "azimuth": 18, "lighting": 6},
        count=48_600,
        source="download of six .mat.gz files, 250 MB",
        loader="unweave.data.smallnorb:load",
        files="unweave.data.smallnorb:FILES",
        prepared=("smallnorb/images.npy",),
    ),
    "mpi3d_toy": _mpi3d("toy", 6, "download of an .npz, 12.7 GB"),
    "mpi3d_realistic": _mpi3d("realistic", 6, "download of an .npz, 12.7 GB"),
    "mpi3d_real": _mpi3d("real", 6, "download of an .npz, 12.7 GB"),
    "mpi3d_complex": _mpi3d("complex", 4, "download of an .npz, 5.7 GB"),
    "celeba": Entry(
        shape=(64, 64, 3),
        count=202_599,
        source="download of img_align_celeba.zip, 1.4 GB",
        loader="unweave.data.celeba:load",
        files="unweave.data.celeba:FILES",
        prepared=("celeba/images-148-64.npy",),
    ),
    "mnist": Entry(
        shape=(32, 32, 1),
        count=70_000,
        source="download of four idx files, 12 MB",
        loader="unweave.data.mnist:load",
        files="unweave.data.mnist:FILES",
        prepared=("mnist/images-all-32.npy",),
    ),
    "fashion_mnist": Entry(
        shape=(32, 32, 1),
        count=70_000,
        source="download of four idx files, 31 MB",
        loader="unweave.data.mnist:load_fashion",
        files="unweave.data.mnist:FASHION_FILES",
        prepared=("fashion_mnist/images-all-32.npy",),
    ),
    "chairs3d": Entry(
        shape=(64, 64, 1),
        factors={"chair": 1393, "elevation": 2, "azimuth": 31},
        source="download of rendered_chairs.tar, 770 MB",
        loader="unweave.data.chairs3d:load",
        files="unweave.data.chairs3d:FILES",
        prepared=("chairs3d/images-1.npy",),
    ),
    "pendulum": Entry(
        shape=(100,),
        factors={"length": 21, "damping": 20, "mass": 5},
        source="computed here at once",
        loader="unweave.data.pendulum:load",
    ),
}
ALTERED = ("dsprites", "rooms3d", "shapes3d")
"""Of these there are images changed by a learned m, and with noise of the same size."""


def _modified(base: str) -> Entry:
    source = f"{base} changed by path=FILE of `unweave manipulate`"
    loader, preset = (
        "unweave.papers.inductive_biases.manipulation.images:load_modified",
        {"base": base},
    )
    return replace(DATASETS[base], source=source, loader=loader, preset=preset, needs="path")


def _noise(base: str) -> Entry:
    source, loader = (
        f"{base} with noise",
        "unweave.papers.inductive_biases.manipulation.images:load_noise",
    )
    return replace(DATASETS[base], source=source, loader=loader, preset={"base": base})


DATASETS |= {f"{base}_modified": _modified(base) for base in ALTERED}
DATASETS |= {f"{base}_noise": _noise(base) for base in ALTERED}


def is_named(name: str) -> bool:
    """Whether a name is that of a data set: of `DATASETS`, or `package.module:function`."""
    return name in DATASETS or is_reference(name)


def find_loader(name: str) -> Callable[..., Any]:
    """The function that loads a data set of a name."""
    if is_reference(name):
        found: Callable[..., Any] = resolve(name, "data set", _loads_a_dataset)
        return found
    if name not in DATASETS:
        raise UnknownNameError("data set", name, DATASETS)
    return DATASETS[name].function()


def factors_of(name: str) -> Mapping[str, int] | None:
    """The factors of a data set of a name, where they are known without loading it."""
    return DATASETS[name].factors or None if name in DATASETS else None


def _loads_a_dataset(thing: Any) -> bool:
    """Whether a user's object is a function that says that it returns a `Dataset`.

    Saved files name such functions, and only what says so is called because a file names it.
    """
    from unweave.data.dataset import Dataset

    if not inspect.isfunction(thing) or thing.__module__.startswith("unweave."):
        return False
    try:
        returned = get_type_hints(thing).get("return")
    except Exception:  # annotations of a user's, which name what cannot be found
        return False
    return isinstance(returned, type) and issubclass(returned, Dataset)
