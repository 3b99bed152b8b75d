"""The class of all figures drawn with matplotlib; imported only to draw one, which is slow."""

import io
from pathlib import Path

from matplotlib.figure import Figure

from unweave.plots.saving import save_figure

__all__ = ["Plot"]


class Plot(Figure):
    """A matplotlib figure with the `save` method that all plots share."""

    def save(self, path: str | Path) -> None:
        """Save as `.png`, or as `.svg` with editable text, atomically."""
        save_figure(self, path)

    def _repr_png_(self) -> bytes:
        """Return a PNG for notebooks, which by themselves display only pyplot figures."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=100)
        return picture.getvalue()
