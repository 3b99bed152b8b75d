"""Data sets: list, prepare, check, show, export."""

from dataclasses import dataclass, field
from typing import Annotated

from tyro.conf import Positional, arg

from unweave.cli.app import data_app
from unweave.cli.options import DataFiles, EveryImage, OutOption, Source


@data_app.add("list")
@dataclass(frozen=True, kw_only=True)
class DataList:
    """List the data sets: what they are, where they come from, whether they are ready.

    Example: unweave data list
    """

    def run(self) -> None:
        from unweave.cli.data import list_data

        list_data()


@data_app.add("prepare")
@dataclass(frozen=True, kw_only=True)
class DataPrepare:
    """Render or download a data set into the cache, so that it loads at once from then on.

    Example: unweave data prepare dsprites
    """

    source: Source
    images: Annotated[DataFiles, arg(name="")] = field(default_factory=DataFiles)

    def run(self) -> None:
        print(self.images.load(self.source))


@data_app.add("check")
@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """Verify the checksums of cached and downloaded files. Exit code 1 if one is damaged.

    Example: unweave data check dsprites
    """

    names: Annotated[
        Positional[tuple[str, ...]], arg(metavar="NAME…", help_behavior_hint="(default: all)")
    ] = ()
    """Data sets to check."""
    repair: bool = False
    """Remove damaged files; they are rendered or downloaded again at the next use."""

    def run(self) -> None:
        from unweave.cli.data import check_data

        check_data(self)


@data_app.add("show")
@dataclass(frozen=True, kw_only=True)
class DataShow:
    """Draw a contact sheet: one row per factor, or random images if factors are unknown.

    Example: unweave data show dsprites -o dsprites.png
    """

    source: Source
    out: OutOption = None
    columns: int = 10
    """Images per row."""
    seed: int = 0
    """Random seed of images that are random."""
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[EveryImage, arg(name="")] = field(default_factory=EveryImage)

    def run(self) -> None:
        from unweave.cli.data import show_data

        show_data(self)


@data_app.add("export")
@dataclass(frozen=True, kw_only=True)
class DataExport:
    """Write a data set into one .npz or .h5 file that other libraries read.

    Example: unweave data export dsprites -o dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz
    """

    source: Source
    out: OutOption = None
    seed: int = 0
    """Random seed of images that are random."""
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[DataFiles, arg(name="")] = field(default_factory=DataFiles)

    def run(self) -> None:
        from unweave.cli.data import export_data

        export_data(self)
