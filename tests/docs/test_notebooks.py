"""The notebooks run, and print what they hold."""

import json

import pytest

from tools import notebooks

PATHS = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_holds(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = notebooks.read(path)
    outputs = notebooks.run(notebook)
    assert notebooks.stale(notebook, outputs) == []
    for cell, now in zip(notebooks.code_cells(notebook), outputs, strict=True):
        kinds = [[list(one.get("data", [])) for one in found] for found in (cell["outputs"], now)]
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_as_jupyter_has_it(path):
    assert path.stat().st_size < 400_000
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebooks.code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert any("image/png" in str(cell["outputs"]) for cell in cells)


def test_there_are_two():
    assert [path.stem for path in PATHS] == ["beta-or-the-seed", "your-own-images"]


def test_what_cells_print_and_show_is_kept(tmp_path):
    cells = [
        {"cell_type": "code", "source": ["x = 2\n", "print(x / 3)"]},
        {"cell_type": "markdown", "source": ["x = 5"]},
        {"cell_type": "code", "source": ["x + 1"]},
        {"cell_type": "code", "source": ["y = x"]},
    ]
    outputs = notebooks.run({"cells": cells})
    assert [notebooks.text_of(found) for found in outputs] == ["0.6666666666666666\n", "3", ""]
    path = tmp_path / "a.ipynb"
    notebooks.save(path, {"cells": cells}, outputs)
    kept = notebooks.read(path)
    assert notebooks.stale(kept, outputs) == []
    changed = notebooks.run({"cells": [{"cell_type": "code", "source": ["x = 3"]}, *cells[1:]]})
    assert notebooks.stale(kept, changed) == ["cell 1: '#' became ''", "cell 2: 3 became 4"]
