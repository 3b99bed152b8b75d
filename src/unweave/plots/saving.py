"""How pictures become files: by their ending, whole or not at all."""

from pathlib import Path
from typing import TYPE_CHECKING

from unweave.errors import DataError
from unweave.io.writing import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ANIMATIONS", "FIGURES", "PICTURES", "known_ending", "save_figure"]

FIGURES = (".png", ".svg")
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
ANIMATIONS = (".gif", ".webp", ".png")
DOTS_PER_INCH = 300


def known_ending(path: str | Path, endings: tuple[str, ...], what: str) -> Path:
    """A path that ends as files of its kind do.

    Args:
        path: Where a user wants something to be written.
        endings: In lower case, with the dot.
        what: That thing, for the message.

    Example:
        >>> known_ending("a.PNG", FIGURES, "a plot").name
        'a.PNG'
    """
    path = Path(path)
    if path.suffix.lower() not in endings:
        listed = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise DataError(f"{what} is a {listed} file, but got {path.name!r}")
    return path


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as `.png` or, with text that stays text, as `.svg`."""
    from matplotlib import rc_context

    path = known_ending(path, FIGURES, "a plot")
    ending = path.suffix[1:].lower()
    # The same figure is the same file, whenever it was drawn.
    facts = {"Date": None} if ending == "svg" else None
    with (
        whole_file(path) as temporary,
        rc_context({"svg.fonttype": "none", "svg.hashsalt": "unweave"}),
    ):
        figure.savefig(temporary, format=ending, dpi=DOTS_PER_INCH, metadata=facts)
