"""The training loop of a fleet, with its curve, checkpoints, progress display and result."""

import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from unweave.fleet.parts import Part
from unweave.io.generations import DamagedCheckpointError, put_aside
from unweave.methods.mixins import Quantised
from unweave.models.model import Fleet, join
from unweave.text import counted

__all__ = ["interruptible", "train_fleet"]

WINDOW = 100
"""Steps per row of a curve."""
MAX_DIAGNOSES = 30
"""Largest number of times that diagnostics are computed in a run."""
PAUSE_SECONDS = 0.3
"""Approximate time between progress updates and checks for interruptions."""
LINE_SECONDS = 30.0
"""Time between progress lines without a terminal."""


def train_fleet(
    make: Callable[[], Engine],
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    on_progress: Callable[[str], bool | None] | None,
) -> Fleet:
    """Train a fleet to the end, from its last checkpoint if there is one; see `train_runs`.

    Args:
        make: Function that creates the engine.
        folder: Folder for checkpoints and models, or None.
        progress: Whether to show progress.
        checkpoint_every: Seconds between checkpoints.
        on_progress: Progress callback; see `train_runs`.
    """
    engine: Engine = make()
    started = time.monotonic()
    rows = _run(engine, folder, progress, checkpoint_every, on_progress)
    of_parts = _collect(engine, rows)
    _warn_of_collapse(of_parts)
    if folder is not None:
        if time.monotonic() - started > checkpoint_every:
            # If the process is killed while saving, the remaining models are restored from here.
            # Shorter runs are cheaper to train again.
            checkpoint.save(engine, rows, checkpoint.path_of(engine.configs, folder))
        for trained in of_parts:
            trained.save(folder)
        checkpoint.tidy(folder)
    return join(of_parts)


def _run(
    engine: Engine,
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    on_progress: Callable[[str], bool | None] | None,
) -> Tensor:
    """Train to the end; return the curve `[windows, columns, M]`, with the step first."""
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
            stop_requested = on_progress is not None and on_progress(
                f"{counted(models, 'model')} at step {step:,} of {total:,}"
            )
            if (stopped() or stop_requested) and step < total:
                _stop(engine, rows, path, step, total)
            if path is not None and time.monotonic() - saved > checkpoint_every and step < total:
                checkpoint.save(engine, rows, path)
                saved = time.monotonic()
    return rows


def _restored(engine: Engine, folder: Path) -> Tensor | None:
    """Restore the newest intact checkpoint with all runs; return the curve so far, or None."""
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
    """Return the diagnostics `[diagnostics, M]` at some steps, and NaN at all others."""
    every = math.ceil(total / MAX_DIAGNOSES / WINDOW) * WINDOW
    if step % every == 0 or step == total:
        return diagnose(engine)
    return torch.full((len(diagnostic_names(engine)), len(engine.configs)), torch.nan)


def _strides(engine: Engine, step: int, total: int) -> Iterator[int]:
    """Train to the end; yield the step after every window and a few times a second."""
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
            f"stopped at step {step:,} of {total:,}; nothing was saved because `out` was not set",
            subject="step",
            value=step,
        )
    checkpoint.save(engine, rows, path)
    raise InterruptedTrainingError(
        f"stopped at step {step:,} of {total:,}; run the same command again to resume",
        subject="step",
        value=step,
    )


def _collect(engine: Engine, rows: Tensor) -> list[Fleet]:
    """Return the trained models of each part."""
    diverged_at = engine.diverged_at.cpu()
    fleets = []
    for part in engine.parts:
        parameters = {
            name: buffer.to("cpu", copy=True) for name, _, buffer in engine.networks(part)
        }
        diverged = diverged_at[part.models].clone()
        for buffer in parameters.values():
            # No loss has been computed with the final weights, so check them here.
            finite = buffer.unflatten(0, (len(part.configs), -1)).isfinite().flatten(1).all(1)
            diverged[~finite & (diverged < 0)] = engine.config.steps
        curve = _table(engine, part, rows)
        fleets.append(Fleet(part.configs, engine.data.shape, parameters, curve, diverged.numpy()))
    return fleets


def _table(engine: Engine, part: Part, rows: Tensor) -> pd.DataFrame:
    """Return the curve of a part as a tidy table: run, step, terms and diagnostics."""
    names, tables = curve_columns(engine, part), []
    columns = [curve_columns(engine).index(name) for name in names]
    own = rows[:, columns, part.models]
    for place, config in enumerate(part.configs):
        table = pd.DataFrame(own[:, 1:, place].numpy(), columns=names[1:])
        table.insert(0, "run", config.hash)
        table.insert(1, "step", own[:, 0, place].long().numpy())
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _warn_of_collapse(fleets: Sequence[Fleet]) -> None:
    """Log how many models encode all images alike because their quantised latents collapsed."""
    for fleet in fleets:
        if not isinstance(fleet.configs[0].method, Quantised):
            continue
        last = fleet.curve.groupby("run", sort=False).tail(1)
        collapsed = int((Quantised.values_in_use(last) <= 1).all(axis=1).sum())
        if collapsed:
            logging.getLogger("unweave").warning(
                "%d of %s collapsed: every latent takes a single value for all images; train "
                "longer, or use a larger learning rate or less weight decay",
                collapsed,
                counted(len(fleet), f"{fleet.configs[0].method.name} model"),
            )


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C until the step is finished; a second one raises `KeyboardInterrupt`."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested.is_set
        return

    def defer(number: int, frame: Any) -> None:  # noqa: ARG001 (signature of signal handlers)
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()
        print("stopping after this step …", file=sys.stderr)  # noqa: T201

    before = {number: signal.signal(number, defer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusLine:
    """A progress bar on a terminal; elsewhere, a line every 30 seconds.

    Args:
        engine: Fleet in training.
        step: First step.
        shown: Whether to show progress.
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
        """Update the progress, with the mean terms `[terms, M]` if they were just fetched."""
        if means is not None:
            average = means.nanmean(1).tolist()
            several = len(self.engine.parts) > 1  # their losses cannot be compared
            self.terms = "  ".join(
                f"{name} {value:.4g}"
                for name, value in zip(self.engine.terms, average, strict=True)
                if not several or all(name in own for own in self.engine.terms_of.values())
            )
            diverged = int(means[0].isnan().sum())
            self.terms += f"  ({diverged} of {self.models} diverged)" if diverged else ""
        now = time.monotonic()
        rate = (step - self.first) / max(now - self.start, 1e-9)
        throughput = self.models * rate
        speed = f"{throughput:,.{0 if throughput >= 10 else 1}f} model-steps/s"
        text = f"{counted(self.models, 'model')}  step {step:,} of {self.total:,}  {speed}"
        self.progress.update(self.task, completed=step, description=text, terms=self.terms)
        if self.shown and not self.live and (now - self.last > LINE_SECONDS or step == self.total):
            left = (self.total - step) / max(rate, 1e-9)
            print(f"{text}  {left:,.0f} s left  {self.terms}", file=sys.stderr)  # noqa: T201
            self.last = now
