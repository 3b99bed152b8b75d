"""Training of the models of a fit in rounds: after each round, the less promising ones stop."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unweave.data.dataset import Dataset
from unweave.fitting.plan import TOO_SHORT, Plan
from unweave.fleet.train import train_runs
from unweave.io.writing import temporary_folder
from unweave.models.config import Config
from unweave.models.lineage import lineage, saved_runs
from unweave.models.model import Fleet, Model, join
from unweave.progress import say
from unweave.text import counted

__all__ = ["MAX_STEPS", "Rounds", "trained_steps"]

MAX_STEPS = 100_000
"""Largest number of steps if the caller gives none."""
RECORD_SECONDS = 5.0
"""Time between updates of the time spent in the manifest."""

Best = Callable[[Fleet, int], list[int]]
"""Function of a fleet and a number that returns the indices of that many best models."""


class Rounds:
    """Trains the models of a fit for the steps and the time that are left.

    Args:
        plan: Plan of the fit, in which the time spent is recorded.
        folder: Folder of the runs.
        recorded: Folder in which the plan is recorded, if any.
        start: Time of `time.monotonic()` at which the fit started.
        best: Function that chooses the models of the next round.
        fewest: Smallest number of models in a round.
        options: Options of `train_runs`.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path | None,
        recorded: Path | None,
        start: float,
        best: Best,
        fewest: int,
        **options: Any,
    ) -> None:
        self.plan, self.folder, self.recorded, self.options = plan, folder, recorded, options
        self.best, self.fewest = best, fewest
        self.before, self.start, self.written = plan.seconds, start, start

    def run(self, runs: Sequence[Config], data: Dataset) -> Fleet:
        """Train the models, and remove earlier states that are now obsolete."""
        places = {name: place for place, name in enumerate(self.plan.models)}
        models: dict[int, Model] = {}
        while True:
            current = [places[name] for name in self.plan.current]
            trained = self._round([runs[place] for place in current], data)
            models |= dict(zip(current, trained, strict=True))
            if self.plan.finished or self.plan.round == self.plan.rounds - 1:
                break
            self._stop_some(models)
        stopped = [place for place in range(len(runs)) if place not in models]
        models |= dict(zip(stopped, self._saved(runs, stopped, data), strict=True))
        fleet = join([models[place] for place in range(len(runs))])
        if self.folder is not None:
            for path in _obsolete(fleet.configs, self.folder):
                with temporary_folder(path) as trash:
                    path.rename(trash / path.name)
        self.plan.finished = True
        self._spend()
        return fleet

    def _round(self, runs: Sequence[Config], data: Dataset) -> Fleet:
        """Train the models of the current round."""
        trained = trained_steps(runs, self.folder)
        most = max(trained)
        if self.plan.finished:  # only models that have been removed are trained
            return self._train(runs, [steps or most for steps in trained], data)
        limit = max(self.plan.round_steps or MAX_STEPS, most)
        if self.plan.minutes is not None and min(trained) < most:
            # Fleets that an interruption left behind catch up before all share the time.
            self._train(runs, [most] * len(runs), data)
            trained = trained_steps(runs, self.folder)
        time_is_up = self.plan.seconds_left == TOO_SHORT
        return self._train(runs, [(time_is_up and steps) or limit for steps in trained], data)

    def _stop_some(self, models: dict[int, Model]) -> None:
        """End a round: choose the models of the next one."""
        current = [place for place in models if self.plan.models[place] in self.plan.current]
        wanted = max(min(self.fewest, len(current)), (len(current) + 1) // 2)
        best = [current[k] for k in self.best(join([models[k] for k in current]), wanted)]
        self.plan.kept.append([self.plan.models[place] for place in sorted(best)])
        self._spend()
        if len(best) < len(current) and self.options["progress"]:
            steps = models[best[0]].config.steps
            say(
                f"After {counted(steps, 'step')}, {len(current) - len(best)} of "
                f"{counted(len(current), 'model')} stop, and the most promising continue"
            )

    def _saved(self, runs: Sequence[Config], places: Sequence[int], data: Dataset) -> list[Model]:
        """Return models that stopped in an earlier round, as they were then."""
        if not places:
            return []
        chosen = [runs[place] for place in places]
        steps = trained_steps(chosen, self.folder)
        most = max(steps) or 1
        return list(self._train(chosen, [own or most for own in steps], data))

    def _train(self, runs: Sequence[Config], steps: Sequence[int], data: Dataset) -> Fleet:
        """Train each model for a number of steps, or until the time is up."""
        self._spend()
        left = None if self.plan.finished else self.plan.seconds_left
        often = 60.0 if left is None else min(60.0, max(10.0, left / 10))
        try:
            return train_runs(
                [replace(run, steps=most) for run, most in zip(runs, steps, strict=True)],
                data,
                out=self.folder,
                on_progress=self._on_progress,
                checkpoint_every=often,
                minutes=None if left is None else left / 60,
                keep_optimiser=self.folder is not None,
                **self.options,
            )
        finally:
            self._spend()

    def _on_progress(self, _: str) -> None:
        """Record the time spent every few seconds, in case the process is killed."""
        if time.monotonic() - self.written > RECORD_SECONDS:
            self.written = time.monotonic()
            self._spend()

    def _spend(self) -> None:
        """Record the time spent so far."""
        self.plan.seconds = self.before + time.monotonic() - self.start
        if self.recorded is not None:
            self.plan.write(self.recorded)


def trained_steps(runs: Iterable[Config], folder: Path | None) -> list[int]:
    """Return the largest number of steps for which each run of a fit has been saved, or 0."""
    saved = {} if folder is None else saved_runs(folder)
    return [max(saved.get(lineage(run), {}), default=0) for run in runs]


def _obsolete(configs: Iterable[Config], folder: Path) -> list[Path]:
    """Return the saved runs in a folder that the given runs continue."""
    saved = saved_runs(folder)
    return [
        path
        for config in configs
        for steps, path in saved.get(lineage(config), {}).items()
        if steps < config.steps
    ]
