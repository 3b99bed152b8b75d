"""MLflow: one run per call, with one metric `NAME/MODEL` per value and model."""

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from unweave.io.extras import import_extra
from unweave.trackers.tracker import Tracker

__all__ = ["MLflow"]

MAX_METRICS, MAX_PARAMS = 1000, 100
"""Largest numbers in one request."""


class MLflow(Tracker):
    """Writes to a run of MLflow, in a background thread, so that training never waits for it.

    Metrics are called `NAME/MODEL`. The run has one parameter per model, with its run name,
    method, seed and strengths.

    Args:
        uri: Where to write: a database such as `"sqlite:///mlflow.db"` or the URL of a server
            (default: the environment variable `MLFLOW_TRACKING_URI`, or `mlflow.db` here).
        experiment: Name of the experiment, created if necessary (default `"unweave"`).
        name: Name of the run (default: chosen by MLflow).
    """

    def __init__(
        self, uri: str | None = None, experiment: str = "unweave", name: str | None = None
    ) -> None:
        super().__init__()
        self.uri, self.experiment, self.name = uri, experiment, name
        self._client: Any = None
        self._run = ""
        self._writer: ThreadPoolExecutor | None = None
        self._written: Future[None] | None = None
        self._import()

    def open(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        mlflow = self._import()
        if self._writer is None:
            self._client = mlflow.MlflowClient(self.uri)
            found = self._client.get_experiment_by_name(self.experiment)
            experiment = (
                self._client.create_experiment(self.experiment)
                if found is None
                else found.experiment_id
            )
            self._run = self._client.create_run(experiment, run_name=self.name).info.run_id
            self._writer = ThreadPoolExecutor(1, "mlflow")
        self._submit(
            "params",
            [
                mlflow.entities.Param(
                    series, ", ".join(f"{name}={value}" for name, value in model.items())
                )
                for series, model in models.items()
            ],
            MAX_PARAMS,
        )

    def log(self, step: int, values: Mapping[str, Mapping[str, float]]) -> None:
        metric, now = self._import().entities.Metric, time.time_ns() // 1_000_000
        metrics = [
            metric(f"{name}/{series}", value, now, step)
            for series, own in values.items()
            for name, value in own.items()
        ]
        self._submit("metrics", metrics, MAX_METRICS)

    def close(self, finished: bool) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        writer.shutdown()
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")
        self._client = None
        self._wait()

    def _submit(self, kind: str, items: Sequence[Any], most: int) -> None:
        """Write items in the background, after the previous ones are written."""
        self._wait()
        client, run = self._client, self._run

        def write() -> None:
            for start in range(0, len(items), most):
                client.log_batch(run, **{kind: items[start : start + most]})

        assert self._writer is not None
        self._written = self._writer.submit(write)

    def _wait(self) -> None:
        """Wait until the last items are written; raise the error, if any."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    @staticmethod
    def _import() -> Any:
        # MLflow sends usage statistics by default; it reads this variable on import.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        return import_extra("mlflow", "MLflow", "mlflow")
