"""The commands `unweave data …`."""

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from unweave.cli.commands.data import DataCheck, DataExport, DataShow
from unweave.data import DATASETS
from unweave.data.export import check_export, export
from unweave.data.verification import check
from unweave.io.paths import check_out
from unweave.io.writing import cache_folder
from unweave.progress import tell
from unweave.text import counted, size_text

__all__ = ["check_data", "export_data", "list_data", "show_data"]


def list_data() -> None:
    """Print a table of the data sets."""
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


def check_data(asked: DataCheck) -> None:
    """Verify cached files; the exit code is 1 if one is damaged and stays so."""
    damaged = []
    for file in check(asked.names):
        state = "damaged" if file.damage else "recorded" if file.recorded else "ok"
        reason = f": {file.damage}" if file.damage else ""
        tell(f"{state:<9} {file.path.relative_to(cache_folder())}{reason}")
        if file.damage and asked.repair:
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


def show_data(asked: DataShow) -> None:
    """Write a contact sheet."""
    from unweave.plots import contact_sheet
    from unweave.plots.saving import PICTURES

    check_out(asked.out, PICTURES, asked.overwrite)
    data = asked.images.load(asked.source)
    out = asked.out or Path(f"{data.name}.png")
    check_out(out, PICTURES, asked.overwrite)
    contact_sheet(data, asked.columns, asked.seed).save(out)
    tell(data)
    tell(f"Contact sheet: {out}")


def export_data(asked: DataExport) -> None:
    """Write a data set into one file."""
    if asked.out is not None:
        check_export(asked.out, asked.overwrite)
    data = asked.images.load(asked.source)
    out = asked.out or Path(f"{data.name}.npz")
    written = export(data, out, asked.seed, asked.overwrite)
    tell(f"{len(data):,} images: {written} ({written.stat().st_size / 1e6:,.0f} MB)")
