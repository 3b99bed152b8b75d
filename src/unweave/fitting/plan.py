"""The plan of a fit: its models, its rounds, and the time spent so far, recorded in `fit.json`."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.io.plain_data import is_number, read_json
from unweave.io.writing import whole_file
from unweave.models.config import LIMITS, RUN_NAME, Config
from unweave.models.lineage import lineage
from unweave.text import counted, shown

__all__ = ["MANIFEST", "MAX_ROUNDS", "MINUTES", "FitError", "Plan", "planned"]

MANIFEST = "fit.json"
MINUTES = 8.0
"""Default time budget for training, in minutes."""
RESERVE_SHARE, RESERVE = 0.25, 20.0
"""Share of the time limit that is reserved for choosing a model and drawing its figures, and its
maximum in seconds, which suffices for 8 models of 64 × 64 images on two CPU cores."""
TOO_SHORT = 1e-3
"""Seconds left when a time limit has passed; no step is that short."""
MAX_ROUNDS = 10


class FitError(UnweaveError):
    """A fit that cannot be run with the given arguments."""


@dataclass
class Plan:
    """What `fit.json` records: the models of a fit, their training, and the time spent so far.

    Args:
        models: Lineage of each model, see `unweave.models.lineage`.
        precision: Precision of matrix multiplications.
        steps: Number of training steps of the models that are trained to the end, if it is fixed.
        minutes: Time limit of the fit, if there is one.
        seconds: Time spent in all calls.
        finished: Whether training has ended.
        rounds: Number of rounds; after each but the last, some models stop.
        kept: For each finished round, the lineages of the models that continue.
    """

    models: list[str]
    precision: str
    steps: int | None
    minutes: float | None
    seconds: float = 0.0
    finished: bool = False
    rounds: int = 1
    kept: list[list[str]] = field(default_factory=list)

    @property
    def round(self) -> int:
        """Number of the current round, from 0."""
        return len(self.kept)

    @property
    def current(self) -> list[str]:
        """Lineages of the models of the current round."""
        return self.kept[-1] if self.kept else self.models

    @property
    def round_steps(self) -> int | None:
        """Steps at which the current round ends: S in the last round, before it S/2, S/4, …"""
        if self.steps is None:
            return None
        return max(1, self.steps >> (self.rounds - 1 - self.round))

    @property
    def seconds_left(self) -> float | None:
        """Time left in the current round; None without a time limit.

        Rounds share the remaining time equally, so that time saved in one round goes to the next.
        """
        if self.minutes is None:
            return None
        limit = 60 * self.minutes
        available = limit - min(RESERVE_SHARE * limit, RESERVE)
        return max(TOO_SHORT, (available - self.seconds) / (self.rounds - self.round))

    @classmethod
    def read(cls, file: Path, runs: Sequence[Config]) -> "Plan":
        """Read a manifest, which is untrusted; earlier versions recorded less."""
        try:
            content = read_json(file)
            if "models" in content:
                return cls._checked(content, runs[0].precision)
            steps = _checked_steps(content["steps"])
            names, models = content["runs"], [lineage(run) for run in runs]
            _check_names("runs", names)
            same = [replace(run, steps=steps).hash for run in runs] == names
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FitError(
                f"{file} is damaged ({error}); choose another folder", subject=file
            ) from error
        return cls(models if same else names, runs[0].precision, steps, None)

    @classmethod
    def _checked(cls, content: dict[str, Any], precision: str) -> "Plan":
        """Return the plan in a manifest; raise an error if a value is impossible."""
        content = {"rounds": 1, "kept": [], **content}
        steps = None if content["steps"] is None else _checked_steps(content["steps"])
        _check_names("models", content["models"])
        for name in ("seconds", "minutes"):
            value = content[name]
            if not (name == "minutes" and value is None) and not (is_number(value) and value >= 0):
                raise ValueError(f"{name} cannot be {shown(value)}")
        if type(content["finished"]) is not bool:
            raise TypeError(f"finished cannot be {shown(content['finished'])}")
        rounds, kept = content["rounds"], content["kept"]
        if type(rounds) is not int or not 1 <= rounds <= MAX_ROUNDS:
            raise ValueError(f"rounds cannot be {shown(rounds)}")
        if not isinstance(kept, list) or len(kept) >= rounds:
            raise TypeError(f"kept cannot be {shown(kept)}")
        before = content["models"]
        for names in kept:
            _check_names("kept", names)
            if not names or not set(names) <= set(before):
                raise ValueError(f"kept cannot be {shown(names)}")
            before = names
        known = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        return cls(**{**known, "steps": steps, "precision": precision})

    def write(self, folder: Path, **results: Any) -> None:
        """Record the plan, so that the same call can resume it, and results of a finished fit."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(folder / MANIFEST) as temporary:
                temporary.write_text(json.dumps({**asdict(self), **results}, indent=1) + "\n")
        except OSError as error:
            raise FitError(
                f"cannot write to {folder}: {error.strerror or error}; choose another folder",
                subject=folder,
                value=error.errno,
            ) from error


def planned(
    folder: Path | None,
    runs: Sequence[Config],
    trained: Sequence[int],
    *,
    steps: int | None,
    minutes: float | None,
    rounds: int,
) -> Plan:
    """Return the plan of a fit, which may have been started in the folder before.

    Args:
        folder: Folder of the fit.
        runs: Its models.
        trained: Number of steps for which each model has been saved.
        steps: Number of training steps, if it is given.
        minutes: Time limit, if it is given.
        rounds: Number of rounds of a new fit.
    """
    names, precision = [lineage(run) for run in runs], runs[0].precision
    limited = steps is not None or minutes is not None
    if folder is None or not os.path.lexists(folder / MANIFEST):
        return Plan(names, precision, steps, minutes if limited else MINUTES, rounds=rounds)
    recorded = Plan.read(folder / MANIFEST, runs)
    if recorded.models != names:
        raise FitError(
            f"{folder} contains another fit of {counted(len(recorded.models), 'model')}; use the "
            "same images and options to continue it, or choose another folder",
            subject=folder,
            value=(len(recorded.models), recorded.steps),
        )
    if not max(trained) and recorded.finished:  # its models have been removed
        recorded = replace(recorded, seconds=0.0, finished=False, kept=[])
    if not limited:
        return recorded
    if steps is not None and steps < max(trained):
        raise FitError(
            f"the fit in {folder} has been trained for {max(trained):,} steps; pass at least as "
            "many, or choose another folder",
            subject=folder,
            value=(len(names), max(trained)),
        )
    # A fit that is finished stays finished unless it gets more time or steps than before.
    enough = minutes is not None and recorded.minutes is not None and minutes <= recorded.minutes
    finished = recorded.finished and steps is None and enough
    return replace(recorded, steps=steps, minutes=minutes, finished=finished)


def _checked_steps(steps: object) -> int:
    if type(steps) is not int or not 0 < steps <= LIMITS["steps"][1]:
        raise ValueError(f"steps cannot be {shown(steps)}")
    return steps


def _check_names(what: str, names: object) -> None:
    if not isinstance(names, list) or not all(
        isinstance(name, str) and RUN_NAME.fullmatch(name) for name in names
    ):
        raise TypeError(f"{what} cannot be {shown(names)}")
