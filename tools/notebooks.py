"""Run the notebooks in docs/notebooks and save their outputs.

    .venv/bin/python -m tools.notebooks          # run each in a temporary folder, and save it
    .venv/bin/python -m tools.notebooks --check  # only report whether outputs have changed

Cells run in this process, in one namespace, so Jupyter is not needed (but works as well). Numbers
may differ slightly between machines; `differences` reports larger differences only.
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
"""Largest accepted difference of decimal numbers, since training is not bit-identical on other
processors."""


def read(path: Path) -> dict[str, Any]:
    """Read a notebook file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run all code cells in the current folder and return the outputs of each."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [_run_cell("".join(cell["source"]), namespace) for cell in code_cells(notebook)]


def _run_cell(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run all statements and return what they print, and the value of the last one if any."""
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
    """Convert a value to MIME types: pictures to PNG, tables to text and HTML, others to text.

    Example:
        >>> shown([1, 2])
        {'text/plain': ['[1, 2]']}
    """
    if hasattr(value, "_repr_png_"):
        picture = base64.b64encode(value._repr_png_()).decode()
        return {"image/png": picture, "text/plain": [f"<{type(value).__name__}>"]}
    if hasattr(value, "_repr_html_"):
        text = value.to_string() if hasattr(value, "to_string") else repr(value)
        return {"text/html": _lines(value._repr_html_()), "text/plain": _lines(text)}
    return {"text/plain": _lines(repr(value))}


def text_of(outputs: list[dict[str, Any]]) -> str:
    """Return all text outputs of a cell."""
    parts = [output.get("text") or output["data"]["text/plain"] for output in outputs]
    return "\n".join("".join(part) for part in parts)


def differences(before: str, after: str) -> Iterator[str]:
    """Yield differences between two texts, ignoring small differences of decimal numbers.

    Example:
        >>> list(differences("a 1 0.50", "a 1 0.65")), list(differences("a 1 0.5", "a 2 0.9"))
        ([], ['1 became 2', '0.5 became 0.9'])
        >>> list(differences("a 1", "b 1"))
        ["'a #' became 'b #'"]
    """
    # Ignore whitespace, because the width of table columns depends on the numbers.
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (before, after)]
    if words[0] != words[1]:
        yield f"{words[0]!r} became {words[1]!r}"
        return
    for old, new in zip(NUMBER.findall(before), NUMBER.findall(after), strict=True):
        close = "." in old and abs(float(old) - float(new)) <= TOLERANCE
        if old != new and not close:
            yield f"{old} became {new}"


def save(path: Path, notebook: dict[str, Any], outputs: list[list[dict[str, Any]]]) -> None:
    """Write a notebook with the outputs of its cells."""
    for number, (cell, found) in enumerate(zip(code_cells(notebook), outputs, strict=True), 1):
        cell.update(execution_count=number, outputs=found, metadata={})
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _lines(text: str | io.StringIO) -> list[str]:
    """Split text into lines with line ends, as notebooks store it."""
    return (text.getvalue() if isinstance(text, io.StringIO) else text).splitlines(keepends=True)


def stale(notebook: dict[str, Any], outputs: list[list[dict[str, Any]]]) -> list[str]:
    """Return the differences between the saved and the current outputs of a notebook."""
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
