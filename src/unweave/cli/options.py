"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = [
    "FleetSize",
    "MetricsOption",
    "OutOption",
    "PathOption",
    "PictureOption",
    "SavedModel",
    "ScoresOption",
    "Source",
    "StudyFile",
    "StudyFolder",
    "StudyOut",
]

Source = Annotated[
    Positional[str],
    arg(
        metavar="SOURCE",
        help="A name from `unweave data list`, a folder of images, or a .npy, .npz or .h5 file.",
    ),
]

PathOption = Annotated[
    Path | None,
    arg(metavar="FILE", help="The published file or folder, where you already have it."),
]

PictureOption = Annotated[
    Path | None,
    arg(metavar="FILE", help="For scream-dsprites: a picture in place of the painting."),
]

OutOption = Annotated[
    Path | None,
    arg(aliases=["-o"], metavar="FILE", help="The file to write; NAME.png or .npz here."),
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
    arg(aliases=["-o"], metavar="FILE", help="Write all numbers into a .csv or .parquet file."),
]

FleetSize = Annotated[
    int | None, arg(metavar="N", help="How many models to train at once; measured by default.")
]

SavedModel = Annotated[
    Positional[Path],
    arg(metavar="MODEL", help="The folder of a saved model, or one with best/ in it."),
]

StudyFile = Annotated[
    Positional[Path], arg(metavar="FILE", help="A study: a .yaml, .json or .py file.")
]

StudyFolder = Annotated[Positional[str], arg(metavar="FOLDER", help="Where a study is kept.")]

StudyOut = Annotated[
    str | None,
    arg(
        aliases=["-o"],
        metavar="FOLDER",
        help="Where it is kept, a folder or a URL; by default under its name.",
    ),
]
