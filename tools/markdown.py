"""Markdown of tables."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A Markdown table.

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
