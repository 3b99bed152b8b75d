"""Progress bars, one per job, on a terminal."""

from unweave.progress import lines, track


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
