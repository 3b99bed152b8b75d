"""Kill commands at any moment and run them again: no work may be lost, no files left behind."""

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .calling import Tally, call
from .victims import FIT, TRAIN, Victims, leftovers, scores, weights

__all__ = ["kill"]

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Job:
    """A command and its expected result.

    Args:
        args: Arguments of the command.
        result: Function that reads the result, for comparison with an uninterrupted call.
        trained: Whether it needs trained models.
        environment: Additional environment variables.
    """

    args: Sequence[str]
    result: Callable[[Path], Any]
    trained: bool = False
    environment: dict[str, str] = field(default_factory=dict)


def _text(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).read_bytes()


JOBS = {
    "train": Job((*TRAIN, "--out", "runs"), lambda folder: weights(folder / "runs")),
    "fit": Job(
        FIT, lambda folder: (weights(folder / "fit" / "runs"), _text("fit/ranking.csv")(folder))
    ),
    "study run": Job(
        ("study", "run", "small.yaml"),
        lambda folder: (weights(folder / "small" / "runs"), scores(folder / "small")),
    ),
    "encode": Job(("encode", "fit", "images", "-o", "codes.csv"), _text("codes.csv"), True),
    "report": Job(
        ("report", "runs", "-o", "page.html", "--data", "images", "--size", "32"),
        lambda folder: (folder / "page.html").read_text().rstrip().endswith("</html>"),
        True,
    ),
    "data prepare": Job(
        ("data", "prepare", "dsprites"),
        _text("cache/dsprites/bits.npy"),
        environment={"UNWEAVE_CACHE": "cache"},
    ),
}


def kill(victims: Victims, folder: Path, count: int) -> list[Tally]:
    """Kill every job at `count` moments, spread over its duration, and run it again."""
    return [_kill(name, job, victims, folder / "killed", count) for name, job in JOBS.items()]


def _kill(name: str, job: Job, victims: Victims, place: Path, count: int) -> Tally:
    tally = Tally(f"kill: {name}")
    victim = victims.trained if job.trained else victims.start
    victims.copy(victim, place)
    whole = call(job.args, place, seconds=300, environment=job.environment)
    if whole.code != 0:
        raise RuntimeError(f"{name} failed: {whole.text}")
    wanted, usual = job.result(place), set(leftovers(place))
    for number in range(count):
        victims.copy(victim, place)
        moment = whole.seconds * (number + 0.5) / count
        by = SIGNALS[number % len(SIGNALS)]
        call(job.args, place, stop_after=moment, by=by, environment=job.environment)
        again = _again(job)
        outcome = call(again, place, environment=job.environment)
        found = job.result(place) if outcome.code == 0 else None
        left = set(leftovers(place)) - usual
        same = outcome.code == 0 and found == wanted and not left
        case = f"{by.name} after {moment:.2f} s"
        tally.add(case, outcome, same, "lost", may_refuse=False)
        if left:
            tally.notes.append(f"{name}: left behind: {sorted(left)}")
            print(tally.notes[-1], flush=True)
    return tally


def _again(job: Job) -> list[str]:
    """The same command, with --overwrite if its output may already exist."""
    replaced = job.args[0] in ("encode", "report")
    return [*job.args, *(["--overwrite"] if replaced else [])]
