"""Printing of tables on the terminal."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["print_table"]

EXACT = ("published", "spread")
"""Columns with published numbers, which are printed with all their digits."""


def print_table(frame: "pd.DataFrame") -> None:
    """Print a table with right-aligned numbers, as wide as needed."""
    import pandas as pd
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    output = Table(box=box.SIMPLE_HEAD)
    for name in frame:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        output.add_column(str(name), justify="right" if numeric else "left")
    for row in frame.to_dict("records"):
        output.add_row(*(_cell(value, name in EXACT) for name, value in row.items()))
    if not console.is_terminal:
        console.width = max(160, console.measure(output).maximum)
    console.print(output)


def _cell(value: Any, exact: bool) -> str:
    """Format a value: exact numbers with all digits, others with at least three."""
    import pandas as pd

    if pd.isna(value):
        return "–"
    return f"{value:.7g}" if exact and isinstance(value, float) else _short(value)


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.1f}"
