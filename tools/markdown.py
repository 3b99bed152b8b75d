"""Markdown tables and formatting of their cells."""

from collections.abc import Iterable, Sequence

import pandas as pd


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Format a Markdown table.

    Example:
        >>> print(table(["a", "b"], [["1", "x|y"]]))
        | a | b |
        |---|---|
        | 1 | x\|y |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    first, rule, *rest = (
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
    return "\n".join([first, rule.replace(" ", ""), *rest])


def mean(values: "pd.Series[float]", digits: int = 3) -> str:
    """Format mean ± standard deviation (dividing by n) of the numbers that are not missing.

    Example:
        >>> mean(pd.Series([0.2, 0.4])), mean(pd.Series([0.2])), mean(pd.Series([float("nan")]))
        ('0.300 ± 0.100', '0.200', '–')
    """
    known = values.dropna()
    if known.empty:
        return "–"
    spread = f" ± {known.std(ddof=0):.{digits}f}" if len(known) > 1 else ""
    return f"{known.mean():.{digits}f}{spread}"
