"""Progress bars in notebooks: one output per bar, which is updated in place.

Standard error of a notebook is not a terminal, and rich needs ipywidgets there. Outputs that are
displayed with an identifier and updated need only IPython.
"""

import io
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import Progress, ProgressColumn

__all__ = ["NotebookLive", "NotebookProgress"]

COLUMNS = 115
UPDATES_PER_SECOND = 4
FRAME = (
    '<pre style="margin:0;white-space:pre;overflow-x:auto;line-height:normal;'
    'font-family:Menlo,Consolas,monospace">{code}</pre>'
)


class NotebookLive(Live):
    """A live display that updates an output of the running cell."""

    def __init__(self, **options: Any) -> None:
        # What rich itself writes, such as the line break at the end, goes nowhere.
        console = Console(file=io.StringIO(), force_jupyter=False, force_terminal=False)
        super().__init__(console=console, refresh_per_second=UPDATES_PER_SECOND, **options)
        self._handle: Any = None
        self._shown: dict[str, str] = {}

    def refresh(self) -> None:
        """Show the current state, if it has changed."""
        from IPython.display import display

        drawn = drawn_as_html(self.get_renderable())
        if drawn == self._shown:
            return
        self._shown = drawn
        if self._handle is None:
            self._handle = display(drawn, raw=True, display_id=True)
        else:
            self._handle.update(drawn, raw=True)


class NotebookProgress(Progress):
    """Progress bars that update an output of the running cell."""

    def __init__(self, *columns: ProgressColumn) -> None:
        super().__init__(*columns)
        self.live = NotebookLive(get_renderable=self.get_renderable)


def drawn_as_html(renderable: RenderableType) -> dict[str, str]:
    """Return what rich draws as HTML and as plain text, by media type."""
    recorder = Console(
        file=io.StringIO(),
        record=True,
        width=COLUMNS,
        force_jupyter=False,
        force_terminal=True,
        color_system="truecolor",
    )
    recorder.print(renderable)
    plain = recorder.export_text(clear=False)
    return {
        "text/html": recorder.export_html(inline_styles=True, code_format=FRAME),
        "text/plain": plain,
    }
