"""One fleet in training, from its first step to its last: curve, checkpoints, progress, result."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor

from unweave.errors import InterruptedTrainingError
from unweave.fleet import checkpoint
from unweave.fleet.diagnostics import curve_columns, diagnose, diagnostic_names
from unweave.fleet.engine import Engine
from unweave.io.generations import DamagedCheckpointError, put_aside
from unweave.models.model import Fleet
from unweave.text import counted

__all__ = ["interruptible", "train_fleet"]

WINDOW = 100
"""Steps per row of a curve."""
MOST_DIAGNOSES = 30
"""How often diagnostics are computed in a run, at most."""
PAUSE_SECONDS = 0.3
"""Time between looks at progress and interruptions, about."""
LINE_SECONDS = 30.0
"""Time between lines of progress without a terminal."""


def train_fleet(
    make: Callable[[], Engine],
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    meanwhile: Callable[[str], bool | None] | None,
) -> Fleet:
    """Train a fleet to the end, from its last checkpoint if there is one; see `train_runs`.

    Args:
        make: Makes its engine.
        folder: For its checkpoints and its models, if any.
        progress: See `train_runs`, as for all that follows.
        checkpoint_every: …
        meanwhile: …
    """
    engine: Engine = make()
    begun = time.monotonic()
    rows = _run(engine, folder, progress, checkpoint_every, meanwhile)
    trained = _collect(engine, rows)
    if folder is not None:
        if time.monotonic() - begun > checkpoint_every:
            # If the process is killed while saving, the remaining models come from here. What took
            # less than `checkpoint_every` is cheaper to train again.
            checkpoint.save(engine, rows, checkpoint.path_of(engine.configs, folder))
        trained.save(folder)
        checkpoint.tidy(folder)
    return trained


def _run(
    engine: Engine,
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    meanwhile: Callable[[str], bool | None] | None,
) -> Tensor:
    """Train to the end; the curve `[windows, columns, M]`, each row led by its step."""
    total, models = engine.config.steps, len(engine.configs)
    path = None if folder is None else checkpoint.path_of(engine.configs, folder)
    rows = None if folder is None else _restored(engine, folder)
    if rows is None:
        rows = torch.empty(0, len(curve_columns(engine)), models)
    start = int(engine.step)
    saved = time.monotonic()
    with interruptible() as stopped, StatusLine(engine, start, progress) as status:
        for step in _strides(engine, start, total):
            if step % WINDOW == 0 or step == total:
                means = engine.fetch()
                row = [torch.full((1, models), step), means, _diagnostics(engine, step, total)]
                rows = torch.cat([rows, torch.cat(row)[None]])
                status.show(step, means)
            else:
                status.show(step)
            asked = meanwhile is not None and meanwhile(
                f"{models} models at step {step:,} of {total:,}"
            )
            if (stopped() or asked) and step < total:
                _stop(engine, rows, path, step, total)
            if path is not None and time.monotonic() - saved > checkpoint_every and step < total:
                checkpoint.save(engine, rows, path)
                saved = time.monotonic()
    return rows


def _restored(engine: Engine, folder: Path) -> Tensor | None:
    """Resume from the newest undamaged checkpoint with all runs of an engine; the curve so far."""
    wanted = {config.hash for config in engine.configs}
    for path in checkpoint.newest_first(folder):
        try:
            if wanted <= set(checkpoint.runs_of(path)):
                return checkpoint.restore(engine, path)
        except FileNotFoundError:  # another process has removed it
            continue
        except DamagedCheckpointError as error:
            put_aside(path, error)
    return None


def _diagnostics(engine: Engine, step: int, total: int) -> Tensor:
    """The diagnostics `[diagnostics, M]` at some steps; NaN at all others."""
    every = math.ceil(total / MOST_DIAGNOSES / WINDOW) * WINDOW
    if step % every == 0 or step == total:
        return diagnose(engine)
    return torch.full((len(diagnostic_names(engine)), len(engine.configs)), torch.nan)


def _strides(engine: Engine, step: int, total: int) -> Iterator[int]:
    """Advance to the end, pausing at every window and a few times a second; yields the step."""
    stride = 1
    while step < total:
        window_end = (step // WINDOW + 1) * WINDOW
        count = min(stride, window_end - step, total - step)
        start = time.monotonic()
        engine.advance(count)
        if engine.device.type == "cuda":
            torch.cuda.synchronize(engine.device)
        if time.monotonic() - start < PAUSE_SECONDS:
            stride = min(2 * stride, WINDOW)
        elif stride > 1:
            stride //= 2
        step += count
        yield step


def _stop(engine: Engine, rows: Tensor, path: Path | None, step: int, total: int) -> None:
    if path is None:
        raise InterruptedTrainingError(
            f"stopped at step {step:,} of {total:,}; nothing was saved because `out` was not set"
        )
    checkpoint.save(engine, rows, path)
    raise InterruptedTrainingError(
        f"stopped at step {step:,} of {total:,}; run the same command again to resume"
    )


def _collect(engine: Engine, rows: Tensor) -> Fleet:
    parameters = {
        name: buffer.to("cpu", copy=True)
        for group in engine.groups.values()
        for name, buffer in group.buffers(group.parameters)
    }
    diverged_at = engine.diverged_at.cpu()
    for buffer in parameters.values():
        # No loss has been computed with the weights that the last step ends with.
        finite = buffer.unflatten(0, (len(engine.configs), -1)).isfinite().flatten(1).all(1)
        diverged_at[~finite & (diverged_at < 0)] = engine.config.steps
    return Fleet(
        engine.configs, engine.data.shape, parameters, _table(engine, rows), diverged_at.numpy()
    )


def _table(engine: Engine, rows: Tensor) -> pd.DataFrame:
    """The curve as a tidy table: run, step, every term, every diagnostic."""
    parts = []
    for place, config in enumerate(engine.configs):
        part = pd.DataFrame(rows[:, 1:, place].numpy(), columns=curve_columns(engine)[1:])
        part.insert(0, "run", config.hash)
        part.insert(1, "step", rows[:, 0, place].long().numpy())
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C so that the step can be finished; a second one raises `KeyboardInterrupt`."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def defer(number: int, frame: Any) -> None:  # noqa: ARG001 - as signal calls it
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        print("finishing this step …", file=sys.stderr)  # noqa: T201

    before = {number: signal.signal(number, defer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusLine:
    """A live line of progress on a terminal; without one, a line every half minute.

    Args:
        engine: The fleet in training.
        step: The step it starts from.
        shown: False is silent.
    """

    def __init__(self, engine: Engine, step: int, shown: bool) -> None:
        self.engine, self.shown, self.first = engine, shown, step
        self.total, self.models = engine.config.steps, len(engine.configs)
        self.terms = ""
        self.start = self.last = time.monotonic()

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.live = self.shown and console.is_terminal
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.fields[terms]}"),
        )
        self.progress = Progress(*columns, console=console, disable=not self.live)
        self.progress.start()
        self.task = self.progress.add_task(
            "training", total=self.total, completed=self.first, terms=""
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, step: int, means: Tensor | None = None) -> None:
        """Update the line, with the mean terms `[terms, M]` where they were just fetched."""
        if means is not None:
            average = means.nanmean(1).tolist()
            self.terms = "  ".join(
                f"{name} {value:.4g}"
                for name, value in zip(self.engine.terms, average, strict=True)
            )
            lost = int(means[0].isnan().sum())
            self.terms += f"  ({lost} of {self.models} diverged)" if lost else ""
        now = time.monotonic()
        rate = (step - self.first) / max(now - self.start, 1e-9)
        pace = self.models * rate
        speed = f"{pace:,.0f} model-steps/s" if pace >= 10 else f"{pace:.1f} model-steps/s"
        text = f"{counted(self.models, 'model')}  step {step:,} of {self.total:,}  {speed}"
        self.progress.update(self.task, completed=step, description=text, terms=self.terms)
        if self.shown and not self.live and (now - self.last > LINE_SECONDS or step == self.total):
            left = (self.total - step) / max(rate, 1e-9)
            print(f"{text}  {left:,.0f} s left  {self.terms}", file=sys.stderr)  # noqa: T201
            self.last = now
