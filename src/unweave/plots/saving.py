"""File formats of plots, and saving of matplotlib figures."""

from pathlib import Path
from typing import TYPE_CHECKING

from unweave.io.paths import check_suffix
from unweave.io.writing import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ANIMATIONS", "FIGURES", "PICTURES", "save_figure"]

FIGURES = (".png", ".svg")
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
ANIMATIONS = (".gif", ".webp", ".png")
DOTS_PER_INCH = 300


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Save a figure as `.png`, or as `.svg` with editable text."""
    from matplotlib import rc_context

    path = Path(path)
    check_suffix(path, FIGURES)
    ending = path.suffix[1:].lower()
    # Without a date, the same figure always gives the same file.
    metadata = {"Date": None} if ending == "svg" else None
    with (
        whole_file(path) as temporary,
        rc_context({"svg.fonttype": "none", "svg.hashsalt": "unweave"}),
    ):
        figure.savefig(temporary, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
