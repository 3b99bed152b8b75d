"""Options that several commands share: single ones, and groups of them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from tyro.conf import Positional, arg

from unweave.cli.app import quiet
from unweave.errors import DataError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = [
    "CustomImages",
    "DataFiles",
    "Device",
    "EveryImage",
    "FleetSize",
    "Loading",
    "MetricsOption",
    "OutOption",
    "PublishedFile",
    "SavedImages",
    "SavedModel",
    "ScoresOption",
    "Source",
    "StudyFile",
    "StudyFolder",
    "StudyOut",
    "given",
]

Source = Annotated[
    Positional[str],
    arg(
        metavar="SOURCE",
        help="A name from `unweave data list`, a folder of images, or a .npy, .npz or .h5 file.",
    ),
]

OutOption = Annotated[
    Path | None,
    arg(aliases=["-o"], metavar="FILE", help="Output file (default: NAME.png or NAME.npz)."),
]

MetricsOption = Annotated[
    tuple[str, ...],
    arg(
        metavar="NAME…",
        help="classic, all (but fid), names such as mig, or package.module:NAME.",
    ),
]

ScoresOption = Annotated[
    Path | None,
    arg(aliases=["-o"], metavar="FILE", help="Write all numbers to a .csv or .parquet file."),
]

FleetSize = Annotated[
    int | None,
    arg(metavar="N", help="Number of models to train at once (default: as many as fit)."),
]

SavedModel = Annotated[
    Positional[Path],
    arg(metavar="MODEL", help="Folder of a saved model, or a folder with best/ in it."),
]

StudyFile = Annotated[
    Positional[Path], arg(metavar="FILE", help="A study: a .yaml, .json or .py file.")
]

StudyFolder = Annotated[Positional[str], arg(metavar="FOLDER", help="Folder of a study.")]

StudyOut = Annotated[
    str | None,
    arg(
        aliases=["-o"],
        metavar="FOLDER",
        help="Folder or URL of the study (default: a folder with its name).",
    ),
]

Device: TypeAlias = Annotated[
    Literal["cpu", "cuda"] | None,
    arg(metavar="{cpu,cuda}", help="Device (default: a GPU if there is one)."),
]


def given(options: Any) -> dict[str, Any]:
    """The options of a group that the user gave, by name."""
    named = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in named.items() if value is not None}


@quiet
@dataclass(frozen=True, kw_only=True)
class Loading:
    """How images are loaded: nothing to choose."""

    def load(self, source: str) -> "Dataset":
        """The images of a source."""
        from unweave.data import load

        return load(source, **given(self))

    def named(self, source: str | None) -> "Dataset | None":
        """The images of `--data`; None where it is not given."""
        if source is not None:
            return self.load(source)
        if given(self):
            option = next(iter(given(self)))
            raise DataError(f"--{option} says how to load --data, but that is not given")
        return None


@quiet
@dataclass(frozen=True, kw_only=True)
class PublishedFile(Loading):
    """Files of published data sets."""

    path: Annotated[
        Path | None,
        arg(metavar="FILE", help="Local copy of the published file or folder."),
    ] = None


@quiet
@dataclass(frozen=True, kw_only=True)
class CustomImages(PublishedFile):
    """How custom images are loaded."""

    size: int | None = None
    """For custom images: side length to resize to, 32, 64 or 128."""
    channels: int | None = None
    """For custom images: 1 converts to grey, 3 to colour."""
    factors: Path | None = None
    """For custom images: CSV of known factors, used to label the latents."""


@quiet
@dataclass(frozen=True, kw_only=True)
class DataFiles(PublishedFile):
    """Files of data sets that are made here or published."""

    picture: Annotated[
        Path | None,
        arg(metavar="FILE", help="For scream-dsprites: picture to use in place of the painting."),
    ] = None


@quiet
@dataclass(frozen=True, kw_only=True)
class EveryImage(DataFiles, CustomImages):
    """How any images are loaded."""


SavedImages: TypeAlias = Annotated[
    str | None,
    arg(metavar="SOURCE", help="Images (default: those each model was trained on)."),
]
