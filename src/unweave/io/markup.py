"""Small pieces of HTML that show results in notebooks: no scripts, no style sheet, all escaped."""

import html
from collections.abc import Iterable, Sequence

from unweave.text import printable

__all__ = ["badge", "block", "bullets", "paragraph", "table"]

COLOURS = {"good": "#1a6b3c", "weak": "#8a5a00", "failed": "#a3201d"}
"""Background of a badge by level; white text is readable on all of them."""
CELL = "padding:.2em .8em .2em 0;text-align:left;vertical-align:top"


def block(*parts: str) -> str:
    """Join pieces of HTML into one element."""
    return f"<div>{''.join(parts)}</div>"


def badge(text: object, level: str) -> str:
    """Return a label with the colour of a level: `"good"`, `"weak"` or `"failed"`."""
    style = f"padding:.15em .7em;border-radius:1em;color:#fff;background:{COLOURS[level]}"
    return f'<p><strong style="{style}">{_escaped(text)}</strong></p>'


def paragraph(text: object) -> str:
    """Return a paragraph, or nothing for an empty text."""
    return f"<p>{_escaped(text)}</p>" if str(text) else ""


def bullets(texts: Iterable[object]) -> str:
    """Return a list with one item per text."""
    return f"<ul>{''.join(f'<li>{_escaped(text)}</li>' for text in texts)}</ul>"


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a table.

    Example:
        >>> print(table(["a < b"], [[1]]).replace(f' style="{CELL}"', ""))
        <table><tr><th>a &lt; b</th></tr><tr><td>1</td></tr></table>
    """
    lines = [_row("th", heads), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    inner = "".join(f'<{tag} style="{CELL}">{_escaped(cell)}</{tag}>' for cell in cells)
    return f"<tr>{inner}</tr>"


def _escaped(text: object) -> str:
    return html.escape(printable(str(text)))
