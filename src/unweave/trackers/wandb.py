"""Weights & Biases: one run per call, with one metric `NAME/MODEL` per value and model."""

from collections.abc import Mapping
from typing import Any

from unweave.io.extras import import_extra
from unweave.trackers.tracker import Tracker

__all__ = ["WandB"]


class WandB(Tracker):
    """Writes to a run of Weights & Biases.

    Metrics are called `NAME/MODEL` and plotted against `step`. The run's config has the run name,
    method, seed and strengths of each model.

    Args:
        project: Name of the project (default `"unweave"`).
        options: Arguments of `wandb.init`, such as `mode="offline"`, `name` and `dir`.
    """

    def __init__(self, project: str = "unweave", **options: Any) -> None:
        super().__init__()
        self.project, self.options = project, options
        self._run: Any = None
        self._import()

    def open(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        if self._run is None:
            # A new run, even if the program has one of its own.
            options = {"reinit": "create_new", **self.options}
            self._run = self._import().init(project=self.project, **options)
            self._run.define_metric("*", step_metric="step")
        self._run.config.update({name: dict(model) for name, model in models.items()})

    def log(self, step: int, values: Mapping[str, Mapping[str, float]]) -> None:
        named = {
            f"{name}/{series}": value
            for series, own in values.items()
            for name, value in own.items()
        }
        self._run.log({"step": step, **named})

    def close(self, finished: bool) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=0 if finished else 1)

    @staticmethod
    def _import() -> Any:
        return import_extra("wandb", "Weights & Biases", "wandb")
