"""The torture benchmark distinguishes correct outcomes from every kind of failure."""

import signal

import pytest

from benchmarks.attacks.calling import Outcome, Tally, call


def ended(code, text="", memory=0):
    return Outcome(code, text, 0.1, memory)


@pytest.mark.parametrize(
    ("outcome", "unharmed", "options", "verdict"),
    [
        (ended(0), True, {}, "unharmed"),
        (ended(0), False, {}, "silent"),
        (ended(0), False, {"otherwise": "breaches"}, "breaches"),
        (ended(2, "unweave: no such file"), False, {}, "refused"),
        (ended(1, "2 runs are damaged"), False, {}, "refused"),
        (ended(2), False, {"otherwise": "lost", "may_refuse": False}, "lost"),
        (ended(1), False, {"otherwise": "lost", "may_refuse": False}, "lost"),
        (ended(2, "Traceback (most recent call last)"), True, {}, "tracebacks"),
        (ended(-11), True, {}, "tracebacks"),
        (ended(None), True, {}, "hangs"),
        (ended(0, memory=7 << 30), True, {}, "hangs"),
    ],
)
def test_every_outcome_is_counted_once(outcome, unharmed, options, verdict):
    tally = Tally("attack")
    tally.add("case", outcome, unharmed, **options)
    counted = ("refused", "unharmed", "lost", "silent", "tracebacks", "hangs", "breaches")
    assert {name: getattr(tally, name) for name in counted if getattr(tally, name)} == {verdict: 1}
    assert bool(tally.notes) == (verdict not in ("refused", "unharmed"))


def test_outcomes_of_calls(tmp_path):
    assert call(["data", "show", "missing.npy"], tmp_path).refused
    assert call((tmp_path / "missing").read_text, tmp_path).traceback
    assert call(signal.pause, tmp_path, seconds=0.3).hang
    for seconds in (0, 0.1):  # before it can do anything, and later
        assert call(signal.pause, tmp_path, stop_after=seconds).code == -signal.SIGKILL
