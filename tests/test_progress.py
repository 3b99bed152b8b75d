"""Progress bars, one per job, on a terminal and in a notebook."""

import sys
import time
from types import ModuleType

import numpy as np
import pytest
from rich.text import Text

import unweave as uw
from unweave.progress import lines, live_display, track


def test_each_job_has_a_bar_with_its_count(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with lines({"encoding": 300, "mig": 2, "sap": 2}) as advance:
        advance("encoding", 300)
        advance("mig", 2)
        advance("sap", 1)
    shown = capsys.readouterr()
    assert shown.out == ""
    for text in ("encoding", "300/300", "mig", "2/2", "sap", "1/2"):
        assert text in shown.err


def test_a_job_may_have_any_name(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    assert list(track([1], "writing [/odd] [red]")) == [1]
    assert "[/odd] [red]" in capsys.readouterr().err


def test_bars_are_hidden_without_a_terminal_or_on_request(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with lines({"mig": 1}) as advance:
        advance("mig", 1)
    assert list(track([1, 2], "counting")) == [1, 2]
    monkeypatch.setenv("FORCE_COLOR", "1")
    with lines({"mig": 1}, shown=False) as advance:
        advance("mig", 1)
    assert capsys.readouterr().err.strip() == ""


class Outputs:
    """An IPython whose displayed outputs are recorded: what each showed, first to last."""

    def __init__(self):
        self.shown = []

    def display(self, data, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append([data])
        return Handle(self.shown[-1])


class Handle:
    def __init__(self, states):
        self.states = states

    def update(self, data, *, raw):
        assert raw
        self.states.append(data)


@pytest.fixture
def outputs(monkeypatch):
    """Outputs of a cell in a notebook, as rich recognises it."""
    found = Outputs()
    package, part = ModuleType("IPython"), ModuleType("IPython.display")
    part.display = found.display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", part)
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return found.shown


def test_bars_of_a_notebook_are_one_output_that_is_updated(outputs, capsys):
    with lines({"encoding <b>": 300, "mig": 2}) as advance:
        advance("encoding <b>", 100)
        time.sleep(0.6)  # the display is updated four times a second
        advance("encoding <b>", 200)
        advance("mig", 2)
    (states,) = outputs
    assert len(states) > 1
    texts = [state["text/plain"] for state in states]
    assert any("100/300" in text for text in texts)
    assert "300/300" in texts[-1]
    assert "2/2" in texts[-1]
    page = states[-1]["text/html"]
    assert "encoding &lt;b&gt;" in page
    assert "<script" not in page
    assert page.startswith("<pre")
    assert capsys.readouterr() == ("", "")


def test_bars_of_a_notebook_are_hidden_on_request(outputs):
    with lines({"mig": 1}, shown=False) as advance:
        advance("mig", 1)
    assert outputs == []


def test_training_in_a_notebook_updates_one_output(outputs, capsys):
    images = np.random.default_rng(0).random((64, 16, 16))
    uw.train("vae", images, steps=2, batch=4, architecture="small_mlp")
    (states,) = outputs
    assert "step 2 of 2" in states[-1]["text/plain"]
    assert capsys.readouterr().err == ""


def test_a_live_display_of_a_notebook(outputs):
    live = live_display()
    live.start()
    for text in ("1 of 2 runs", "2 of 2 runs"):
        live.update(Text(text), refresh=True)
    live.stop()
    assert [state["text/plain"] for state in outputs[0]] == ["1 of 2 runs\n", "2 of 2 runs\n"]


def test_there_is_no_live_display_without_a_terminal(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert live_display() is None
