"""The commands `unweave data …`: list, prepare, check, show and export data sets."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from unweave.cli.app import data_app
from unweave.cli.options import DataFiles, EveryImage, Source
from unweave.io.paths import check_out
from unweave.progress import print_output
from unweave.text import counted, size_text


@data_app.add("list")
@dataclass(frozen=True, kw_only=True)
class DataList:
    """List data sets with their size, factors and source, and whether they are ready to use.

    Example: unweave data list
    """

    def run(self) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table

        from unweave.data import DATASETS

        table = Table(box=box.SIMPLE_HEAD)
        for heading in ("name", "images", "pixels", "factors", "on disk", "source", "ready"):
            numbers = heading in ("images", "on disk")
            table.add_column(heading, justify="right" if numbers else "left")
        for name, entry in DATASETS.items():
            table.add_row(
                name.replace("_", "-"),
                f"{len(entry):,}",
                size_text(entry.shape),
                ", ".join(f"{factor} {size}" for factor, size in entry.factors.items()) or "–",
                f"{entry.disk / 1e6:,.0f} MB" if entry.disk else "–",
                entry.source,
                f"with --{entry.needs}" if entry.needs else "yes" if entry.ready else "no",
            )
        console = Console()
        if not console.is_terminal:
            console.width = 160
        console.print(table)
        print_output(
            "For your own images, pass a folder or file (.npy, .npz, .h5, .tif) instead of a name."
        )


@data_app.add("prepare")
@dataclass(frozen=True, kw_only=True)
class DataPrepare:
    """Render or download a data set into the cache, so that it loads quickly afterwards.

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
    """Remove damaged files. They are rendered or downloaded again on next use."""

    def run(self) -> None:
        from unweave.data.verification import check
        from unweave.io.writing import cache_folder

        damaged = []
        for file in check(self.names):
            state = "damaged" if file.damage else "recorded" if file.recorded else "ok"
            reason = f": {file.damage}" if file.damage else ""
            print_output(f"{state:<9} {file.path.relative_to(cache_folder())}{reason}")
            if file.damage and self.repair:
                file.remove()
                print_output(f"{'removed':<9} {file.path.relative_to(cache_folder())}")
            elif file.damage:
                damaged.append(file)
        if damaged:
            print(
                f"damaged: {counted(len(damaged), 'file')} in {cache_folder()}; run `unweave data "
                "check --repair` to remove them, and load the data to create them again",
                file=sys.stderr,
            )
            sys.exit(1)


@data_app.add("show")
@dataclass(frozen=True, kw_only=True)
class DataShow:
    """Draw a contact sheet: one row per factor, or random images if factors are unknown.

    Example: unweave data show dsprites -o dsprites.png
    """

    source: Source
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FILE", help="Output file (default: NAME.png)."),
    ] = None
    columns: int = 10
    """Number of images per row."""
    seed: int = 0
    """Random seed for data sets with random images."""
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[EveryImage, arg(name="")] = field(default_factory=EveryImage)

    def run(self) -> None:
        from unweave.plots import contact_sheet
        from unweave.plots.saving import PICTURES

        check_out(self.out, PICTURES, self.overwrite)
        data = self.images.load(self.source)
        out = self.out or Path(f"{data.name}.png")
        check_out(out, PICTURES, self.overwrite)
        contact_sheet(data, self.columns, self.seed).save(out)
        print_output(data)
        print_output(f"Contact sheet: {out}")


@data_app.add("export")
@dataclass(frozen=True, kw_only=True)
class DataExport:
    """Write a data set to one .npz or .h5 file that other libraries can read.

    Example: unweave data export dsprites -o dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz
    """

    source: Source
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FILE", help="Output file (default: NAME.npz)."),
    ] = None
    seed: int = 0
    """Random seed for data sets with random images."""
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[DataFiles, arg(name="")] = field(default_factory=DataFiles)

    def run(self) -> None:
        from unweave.data.export import check_export, export

        if self.out is not None:
            check_export(self.out, self.overwrite)
        data = self.images.load(self.source)
        out = self.out or Path(f"{data.name}.npz")
        written = export(data, out, self.seed, self.overwrite)
        print_output(f"{len(data):,} images: {written} ({written.stat().st_size / 1e6:,.0f} MB)")
