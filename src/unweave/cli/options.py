"""Options and groups of options shared by several commands."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from tyro.conf import Positional, UseAppendAction, arg

from unweave.cli.app import hide_none_defaults
from unweave.errors import DataError, UnknownNameError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.trackers import Tracker

Source = Annotated[
    Positional[str],
    arg(
        metavar="SOURCE",
        help="Name from `unweave data list`, folder of images, folder of Hugging Face or Zarr, or "
        ".npy, .npz, .h5 or .tif file.",
    ),
]

Where: TypeAlias = Annotated[
    str,
    arg(
        metavar="WHERE",
        help="Where to run: here (this process), ray (new local cluster), auto (running cluster "
        "found by Ray), HOST:PORT or ray://HOST:PORT.",
    ),
]

MetricsOption = Annotated[
    tuple[str, ...],
    arg(
        metavar="NAME…",
        help="Metrics: classic, all (except fid), names such as mig, or package.module:NAME.",
    ),
]

ScoresOption = Annotated[
    Path | None,
    arg(aliases=["-o"], metavar="FILE", help="Output file for the table (.csv or .parquet)."),
]

FleetSize = Annotated[
    int | None,
    arg(
        metavar="N", help="Number of models to train at once (default: as many as fit in memory)."
    ),
]

SavedModel = Annotated[
    Positional[Path],
    arg(
        metavar="MODEL",
        help="Folder of a saved model, a folder that contains best/, or zoo:NAME.",
    ),
]

StudyFile = Annotated[
    Positional[Path], arg(metavar="FILE", help="Study file (.yaml, .json or .py).")
]

StudyFolder = Annotated[Positional[str], arg(metavar="FOLDER", help="Folder of a study.")]

StudyOut = Annotated[
    str | None,
    arg(
        aliases=["-o"],
        metavar="FOLDER",
        help="Folder or URL of the study (default: a folder named after the study).",
    ),
]

Device: TypeAlias = Annotated[
    Literal["cpu", "cuda"] | None,
    arg(metavar="{cpu,cuda}", help="Device (default: a GPU if available)."),
]


Track: TypeAlias = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        metavar="TRACKER",
        help="Write curves to tensorboard=FOLDER, wandb=PROJECT or mlflow=URI.",
    ),
]

TRACKERS = {"tensorboard": "TensorBoard", "wandb": "WandB", "mlflow": "MLflow"}


def trackers_of(options: Iterable[str]) -> list["Tracker"]:
    """Return the trackers given as `NAME` or `NAME=TARGET`."""
    from unweave import trackers

    found = []
    for option in options:
        name, _, target = option.partition("=")
        if name not in TRACKERS:
            raise UnknownNameError("tracker", name, TRACKERS)
        kind = getattr(trackers, TRACKERS[name])
        found.append(kind(target) if target else kind())
    return found


def given(options: Any) -> dict[str, Any]:
    """Return the options that the user passed, by name."""
    named = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in named.items() if value is not None}


@hide_none_defaults
@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """Options for loading published data sets."""

    path: Annotated[
        Path | None,
        arg(metavar="FILE", help="Local copy of the published data set (file or folder)."),
    ] = None

    def load(self, source: str) -> "Dataset":
        """Load the images of a source."""
        from unweave.data import load

        return load(source, **given(self))

    def load_optional(self, source: str | None) -> "Dataset | None":
        """Load the images of `--data`; return None if it is not given."""
        if source is not None:
            return self.load(source)
        if given(self):
            option = next(iter(given(self)))
            raise DataError(f"--{option} requires --data; add --data or leave out --{option}")
        return None


@hide_none_defaults
@dataclass(frozen=True, kw_only=True)
class CustomImages(PublishedFile):
    """Options for loading custom images."""

    size: Annotated[
        int | None,
        arg(
            help="For custom images: side length in pixels, from 16 to 256 (default: 64; 32 for "
            "fit on a CPU, if this loses little)."
        ),
    ] = None
    channels: int | None = None
    """For custom images: 1 for grey, 3 for colour (default: as in the files)."""
    bits: Annotated[
        Literal[8, 10, 12, 14, 16] | None,
        arg(
            help="For custom images: bit depth of grey values with more than 8 bits (default: "
            "from the largest value of all files)."
        ),
    ] = None
    non_square: Annotated[
        Literal["crop", "pad"] | None,
        arg(
            help="For custom images: crop images that are not square, or pad them with the colour "
            "of their border (default: crop)."
        ),
    ] = None
    factors: Path | None = None
    """For custom images: CSV of known factors to label latents, or Hugging Face columns."""


@hide_none_defaults
@dataclass(frozen=True, kw_only=True)
class DataFiles(PublishedFile):
    """Options for loading rendered and published data sets."""

    picture: Annotated[
        Path | None,
        arg(
            metavar="FILE",
            help="For scream-dsprites: background image to use instead of the painting.",
        ),
    ] = None


@hide_none_defaults
@dataclass(frozen=True, kw_only=True)
class EveryImage(DataFiles, CustomImages):
    """Options for loading images of any kind."""


SavedImages: TypeAlias = Annotated[
    str | None,
    arg(metavar="SOURCE", help="Images (default: the training data of each model)."),
]
