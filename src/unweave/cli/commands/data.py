"""Data sets: list, prepare, check, show, export."""

import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from unweave.cli.apps import data_app
from unweave.cli.loading import said
from unweave.cli.options import OutOption, PathOption, PictureOption, Source
from unweave.progress import tell
from unweave.text import counted, size_text

DataSets = Annotated[
    Positional[tuple[str, ...]], arg(metavar="NAME…", help_behavior_hint="(default: all)")
]


@data_app.command(name="list")
def data_list() -> None:
    """List the data sets: what they are, where they come from, whether they are ready.

    Example: unweave data list
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from unweave.data import DATASETS

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "images", "pixels", "factors", "on disk", "where from", "ready"):
        table.add_column(heading, justify="right" if heading in ("images", "on disk") else "left")
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
    tell("Your own images: give a folder, or a .npy, .npz or .h5 file, in place of a name.")


@data_app.command(name="prepare")
def data_prepare(source: Source, path: PathOption = None, picture: PictureOption = None) -> None:
    """Render or download a data set into the cache, so that it loads at once from then on.

    Example: unweave data prepare dsprites
    """
    tell(_load(source, path=path, picture=picture))


@data_app.command(name="check")
def data_check(names: DataSets = (), repair: bool = False) -> None:
    """Verify the checksums of cached and downloaded files; the exit code is 1 if one is damaged.

    Example: unweave data check dsprites

    Args:
        names: Data sets to check.
        repair: Remove damaged files; they are rendered or downloaded again at the next use.
    """
    from unweave.data.verification import check
    from unweave.io.writing import cache_folder

    damaged = []
    for file in check(names):
        state = "damaged" if file.damage else "recorded" if file.recorded else "ok"
        reason = f": {file.damage}" if file.damage else ""
        tell(f"{state:<9} {file.path.relative_to(cache_folder())}{reason}")
        if file.damage and repair:
            file.remove()
            tell(f"{'removed':<9} {file.path.relative_to(cache_folder())}")
        elif file.damage:
            damaged.append(file)
    if damaged:
        print(
            f"{counted(len(damaged), 'file')} in {cache_folder()} damaged; "
            "`unweave data check --repair` removes what is damaged, and the next use renders or "
            "downloads the data again",
            file=sys.stderr,
        )
        sys.exit(1)


@data_app.command(name="show")
def data_show(
    source: Source,
    out: OutOption = None,
    columns: int = 10,
    seed: int = 0,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
    picture: PictureOption = None,
    overwrite: bool = False,
) -> None:
    """Draw a contact sheet: one row per factor, or random images where factors are unknown.

    Example: unweave data show dsprites -o dsprites.png

    Args:
        columns: Images per row.
        seed: For what is random in the images.
        size: For your own images: the side to which they are resized, 32, 64 or 128.
        channels: For your own images: 1 makes all grey, 3 makes all coloured.
        factors: For your own images: a CSV file of what made them.
        overwrite: Replace the file if it is already there.
    """
    from unweave.evaluation.files import check_out
    from unweave.plots import contact_sheet
    from unweave.plots.saving import PICTURES

    check_out(out, PICTURES, overwrite)
    own = {"size": size, "channels": channels, "factors": factors}
    data = _load(source, path=path, picture=picture, **own)
    out = out or Path(f"{data.name}.png")
    check_out(out, PICTURES, overwrite)
    contact_sheet(data, columns, seed).save(out)
    tell(data)
    tell(f"Contact sheet: {out}")


@data_app.command(name="export")
def data_export(
    source: Source,
    out: OutOption = None,
    seed: int = 0,
    path: PathOption = None,
    picture: PictureOption = None,
    overwrite: bool = False,
) -> None:
    """Write a data set into one .npz or .h5 file that other libraries read.

    Example: unweave data export dsprites -o dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz

    Args:
        seed: For what is random in the images.
        overwrite: Replace the file if it is already there.
    """
    from unweave.data.export import check_export, export

    if out is not None:
        check_export(out, overwrite)
    data = _load(source, path=path, picture=picture)
    written = export(data, out or Path(f"{data.name}.npz"), seed, overwrite)
    tell(f"{len(data):,} images: {written} ({written.stat().st_size / 1e6:,.0f} MB)")


def _load(source: str, **options: object) -> Any:
    from unweave.data import load

    return load(source, **said(options))
