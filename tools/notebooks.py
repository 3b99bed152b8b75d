"""Run the notebooks in docs/notebooks, and keep what they print and draw in them.

    .venv/bin/python -m tools.notebooks          # run them, in a folder of their own, and save
    .venv/bin/python -m tools.notebooks --check  # only say whether they print the same

They run here, cell by cell in one namespace, so nothing of Jupyter is needed; Jupyter opens and
runs them as well. Numbers may differ a little from machine to machine: `differences` says where
they differ by more.
"""

import argparse
import ast
import base64
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")
TOLERANCE = 0.2
"""By how much a number with a decimal point may differ: training is not the same to the last bit
on other processors."""


def read(path: Path) -> dict[str, Any]:
    """A notebook, as it is on disk."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Those cells that run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each code cell prints and shows, run in order in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [_run_cell("".join(cell["source"]), namespace) for cell in code_cells(notebook)]


def _run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run all statements; the value of the last is shown, where it has one."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), namespace)  # noqa: S102 - our own notebooks
        if isinstance(last, ast.Expr):
            expression = ast.Expression(last.value)
            value = eval(compile(expression, "<cell>", "eval"), namespace)  # noqa: S307 - as above
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed)})
    if value is not None:
        data = shown(value)
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    return outputs


def shown(value: Any) -> dict[str, Any]:
    """A value by its kinds: pictures as PNG, tables as text and HTML, all else as text.

    Example:
        >>> shown([1, 2])
        {'text/plain': ['[1, 2]']}
    """
    if hasattr(value, "_repr_png_"):
        picture = base64.b64encode(value._repr_png_()).decode()
        return {"image/png": picture, "text/plain": [f"<{type(value).__name__}>"]}
    if hasattr(value, "_repr_html_"):
        html = value._repr_html_()
        return {"text/html": _lines(html), "text/plain": _lines(value.to_string())}
    return {"text/plain": _lines(repr(value))}


def text_of(outputs: list[dict[str, Any]]) -> str:
    """All that a cell printed or showed as text."""
    parts = [output.get("text") or output["data"]["text/plain"] for output in outputs]
    return "\n".join("".join(part) for part in parts)


def differences(before: str, after: str) -> Iterator[str]:
    """Where two texts differ: in words, in whole numbers, or in others by more than a little.

    Example:
        >>> list(differences("a 1 0.50", "a 1 0.65")), list(differences("a 1 0.5", "a 2 0.9"))
        ([], ['1 became 2', '0.5 became 0.9'])
        >>> list(differences("a 1", "b 1"))
        ["'a #' became 'b #'"]
    """
    # Columns of a table are as wide as their numbers are long.
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (before, after)]
    if words[0] != words[1]:
        yield f"{words[0]!r} became {words[1]!r}"
        return
    for old, new in zip(NUMBER.findall(before), NUMBER.findall(after), strict=True):
        near = "." in old and abs(float(old) - float(new)) <= TOLERANCE
        if old != new and not near:
            yield f"{old} became {new}"


def save(path: Path, notebook: dict[str, Any], outputs: list[list[dict[str, Any]]]) -> None:
    """Write a notebook with what its cells printed and showed."""
    for number, (cell, found) in enumerate(zip(code_cells(notebook), outputs, strict=True), 1):
        cell.update(execution_count=number, outputs=found, metadata={})
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _lines(text: str | io.StringIO) -> list[str]:
    """Text as notebooks keep it: lines, each with its end."""
    return (text.getvalue() if isinstance(text, io.StringIO) else text).splitlines(keepends=True)


def stale(notebook: dict[str, Any], outputs: list[list[dict[str, Any]]]) -> list[str]:
    """Where what a notebook holds is not what it prints now."""
    cells = code_cells(notebook)
    return [
        f"cell {number}: {difference}"
        for number, (cell, now) in enumerate(zip(cells, outputs, strict=True), 1)
        for difference in differences(text_of(cell["outputs"]), text_of(now))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wrong = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = read(path)
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            outputs = run(notebook)
        if check:
            wrong += [f"{path.name}: {line}" for line in stale(notebook, outputs)]
        else:
            save(path, notebook, outputs)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")
    print("\n".join(wrong) or "done")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
