"""TensorBoard: one run per model, so that each chart shows a value of all models."""

import os
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unweave.io.extras import import_extra
from unweave.io.paths import path_errors
from unweave.trackers.tracker import Tracker

__all__ = ["TensorBoard"]


class TensorBoard(Tracker):
    """Writes event files for TensorBoard: `FOLDER/MODEL/events.out.tfevents.…`.

    Strengths and seeds also appear in the tab HPARAMS. Files are appended to at every window, and
    none stays open, so a fleet may have any number of models.

    Args:
        folder: Output folder, for `tensorboard --logdir FOLDER` (default `"logs"`).

    Example:
        >>> import tempfile
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     few = {"seeds": 2, "steps": 2, "batch": 8, "progress": False}
        ...     fleet = uw.train("vae", data, callbacks=TensorBoard(folder), **few)
        ...     len(list(Path(folder).glob("vae-seed?-*/events.out.tfevents.*")))
        2
    """

    def __init__(self, folder: str | Path = "logs") -> None:
        super().__init__()
        self.folder = Path(folder)
        self._file = ""
        self._import()

    def open(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        _, event, summary = self._import()
        if not self._file:
            place = f"{socket.gethostname()}.{os.getpid()}"
            self._file = f"events.out.tfevents.{time.time_ns() / 1e9:.9f}.{place}"
        now = time.time()
        for series, model in models.items():
            settings = {name: value for name, value in model.items() if name != "run"}
            with path_errors(self.folder, "write to"):
                (self.folder / series).mkdir(parents=True, exist_ok=True)
            start = event.Event(wall_time=now, file_version="brain.Event:2")
            hparams = summary.hparams_pb(settings, trial_id=series, start_time_secs=now)
            self._write(series, [start, event.Event(wall_time=now, summary=hparams)])

    def log(self, step: int, values: Mapping[str, Mapping[str, float]]) -> None:
        _, event, _ = self._import()
        now = time.time()
        for series, named in values.items():
            summary = [{"tag": name, "simple_value": value} for name, value in named.items()]
            if summary:
                one = event.Event(wall_time=now, step=step, summary={"value": summary})
                self._write(series, [one])

    def close(self, finished: bool) -> None:  # noqa: ARG002 - event files have no end
        self._file = ""

    def _write(self, series: str, events: Iterable[Any]) -> None:
        records, _, _ = self._import()
        with (self.folder / series / self._file).open("ab") as file:
            writer = records.RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())

    @staticmethod
    def _import() -> list[Any]:
        return [
            import_extra(f"tensorboard.{module}", "TensorBoard", "tensorboard")
            for module in (
                "summary.writer.record_writer",
                "compat.proto.event_pb2",
                "plugins.hparams.summary_v2",
            )
        ]
