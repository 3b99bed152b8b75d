"""The training loop of a fleet, with its curve, checkpoints, progress display and result."""

import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.fleet import checkpoint, continuation
from unweave.fleet.callbacks import Callbacks
from unweave.fleet.diagnostics import curve_columns, diagnose, diagnostic_names
from unweave.fleet.engine import Engine
from unweave.fleet.parts import Part
from unweave.io.generations import DamagedCheckpointError, put_aside
from unweave.methods.mixins import Quantised
from unweave.models.config import Config
from unweave.models.model import Fleet, join
from unweave.progress import bars, say
from unweave.text import counted

__all__ = ["interruptible", "train_fleet"]

WINDOW = 100
"""Steps per row of a curve."""
MAX_DIAGNOSES = 30
"""Largest number of times that diagnostics are computed in a run."""
PAUSE_SECONDS = 0.3
"""Approximate time between progress updates and checks for interruptions."""
LINE_SECONDS = 30.0
"""Time between progress lines without a terminal or a notebook."""


def train_fleet(
    make: Callable[[], Engine],
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    on_progress: Callable[[str], bool | None] | None,
    callbacks: Callbacks,
    deadline: float | None = None,
    keep_optimiser: bool = False,
) -> Fleet:
    """Train a fleet to the end or until a deadline, resuming if possible; see `train_runs`.

    Args:
        make: Function that creates the engine.
        folder: Folder for checkpoints and models, or None.
        progress: Whether to show progress.
        checkpoint_every: Seconds between checkpoints.
        on_progress: Progress callback; see `train_runs`.
        callbacks: Callbacks of the call.
        deadline: Time of `time.monotonic()` at which training stops, or None.
        keep_optimiser: Whether to save the optimiser states of the models in the folder.

    Returns:
        The trained models, whose configs have the number of steps that they were trained for.
    """
    started = time.monotonic()
    engine: Engine = make()
    rows = _run(engine, folder, progress, checkpoint_every, on_progress, callbacks, deadline)
    of_parts = _collect(engine, rows)
    _warn_of_collapse(list(of_parts.values()))
    if folder is not None:
        if time.monotonic() - started > checkpoint_every:
            # If the process is killed while saving, the remaining models are restored from here.
            # Shorter runs are cheaper to train again.
            checkpoint.save(engine, rows, checkpoint.path_of(engine.configs, folder))
        for part, trained in of_parts.items():
            if keep_optimiser:
                continuation.save(trained, engine, part, folder)
            else:
                trained.save(folder)
        checkpoint.tidy(folder)
    return join(list(of_parts.values()))


def _run(
    engine: Engine,
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    on_progress: Callable[[str], bool | None] | None,
    callbacks: Callbacks,
    deadline: float | None,
) -> Tensor:
    """Train to the end or the deadline; return the curve `[windows, columns, M]`, step first."""
    total, models = engine.config.steps, len(engine.configs)
    path = None if folder is None else checkpoint.path_of(engine.configs, folder)
    rows = None if folder is None else _restored(engine, folder, progress)
    if rows is None:
        rows = torch.empty(0, len(curve_columns(engine)), models)
    start = int(engine.step)
    saved = time.monotonic()
    with interruptible() as stopped, StatusLine(engine, start, progress, deadline) as status:
        for step in _strides(engine, start, total, deadline):
            if step % WINDOW == 0 or step == total:
                means = engine.fetch()
                due = _diagnostics_due(step, total, deadline)
                rows = torch.cat([rows, _row(engine, step, means, due)])
                status.show(step, means)
                _report(callbacks, engine, rows[-1], due)
            else:
                status.show(step)
            stop_requested = on_progress is not None and on_progress(
                f"{counted(models, 'model')} at step {step:,} of {total:,}"
            )
            if (stopped() or stop_requested or callbacks.stopping) and step < total:
                _stop(engine, rows, path, step, total, callbacks)
            if path is not None and time.monotonic() - saved > checkpoint_every and step < total:
                checkpoint.save(engine, rows, path)
                saved = time.monotonic()
        step = int(engine.step)
        if step < total:  # stopped by the deadline
            rows = _with_last_row(engine, rows, step)
            _report(callbacks, engine, rows[-1], with_diagnostics=True)
            status.end(step)
    return rows


def _restored(engine: Engine, folder: Path, progress: bool) -> Tensor | None:
    """Restore the runs from a checkpoint or from saved runs; return the curve so far, or None.

    The newest intact checkpoint with all runs is used, unless saved runs are ahead of it.
    """
    saved = continuation.continued(engine.configs, folder)
    from_saved = min(run.steps for run in saved.values()) if saved else 0
    for path in checkpoint.newest_first(folder):
        try:
            found = checkpoint.progress_of(path, engine.configs)
            behind = any(0 <= step < from_saved for step in found.values())
            if len(found) == len(engine.configs) and not behind:
                rows = checkpoint.restore(engine, path)
                _announce(engine, "a checkpoint", progress)
                return rows
        except FileNotFoundError:  # another process has removed it
            continue
        except DamagedCheckpointError as error:
            put_aside(path, error)
    if len(saved) < len(engine.configs) or any(r.steps != from_saved for r in saved.values()):
        return None
    rows = continuation.restore(engine, [saved[config.hash].folder for config in engine.configs])
    _announce(engine, "the saved optimiser state", progress)
    return rows


def _announce(engine: Engine, source: str, progress: bool) -> None:
    """Print the step and the state from which training resumes."""
    if progress and int(engine.step) < engine.config.steps:
        models = counted(len(engine.configs), "model")
        say(f"Resuming {models} at step {int(engine.step):,} from {source}")


def _row(engine: Engine, step: int, means: Tensor, with_diagnostics: bool) -> Tensor:
    """Return a row of the curve, `[1, columns, M]`; its diagnostics are NaN unless asked for."""
    models = len(engine.configs)
    unknown = torch.full((len(diagnostic_names(engine)), models), torch.nan)
    diagnostics = diagnose(engine) if with_diagnostics else unknown
    return torch.cat([torch.full((1, models), step), means, diagnostics])[None]


def _with_last_row(engine: Engine, rows: Tensor, step: int) -> Tensor:
    """Return the curve with a complete last row, for training that stops early."""
    if len(rows) and int(rows[-1, 0, 0]) == step:
        means = rows[-1, 1 : 1 + len(engine.terms)]
        return torch.cat([rows[:-1], _row(engine, step, means, True)])
    return torch.cat([rows, _row(engine, step, engine.fetch(), True)])


def _report(callbacks: Callbacks, engine: Engine, row: Tensor, with_diagnostics: bool) -> None:
    """Pass the mean terms of a row of the curve, and its diagnostics, to the callbacks."""
    step, values, terms = int(row[0, 0]), row[1:], len(engine.terms)
    callbacks.report("on_window", engine.configs, step, engine.terms, values[:terms])
    if with_diagnostics:
        names = diagnostic_names(engine)
        callbacks.report("on_diagnostics", engine.configs, step, names, values[terms:])


def _diagnostics_due(step: int, total: int, deadline: float | None) -> bool:
    """Whether diagnostics are computed at the end of this window."""
    if deadline is not None:
        # The number of steps is not known in advance: intervals double as training continues.
        total = MAX_DIAGNOSES * WINDOW
        while total < step:
            total *= 2
    every = math.ceil(total / MAX_DIAGNOSES / WINDOW) * WINDOW
    return step % every == 0 or step == total


def _strides(engine: Engine, step: int, total: int, deadline: float | None) -> Iterator[int]:
    """Train to the end or the deadline; yield the step every window and a few times a second.

    No step is started that would probably end after the deadline, except step 0.
    """
    first, stride, seconds = step, 1, 0.0
    while step < total:
        start = time.monotonic()
        window_end = (step // WINDOW + 1) * WINDOW
        count = min(stride, window_end - step, total - step)
        if deadline is not None and step > 0:
            left = deadline - start
            if left <= seconds:
                return
            count = max(1, min(count, int(left / seconds))) if seconds else 1
        engine.advance(count)
        if engine.device.type == "cuda":
            torch.cuda.synchronize(engine.device)
        end = time.monotonic()
        if deadline is not None and step == 0 and end > deadline:
            raise UnweaveError(
                f"the time is too short for one step: {counted(len(engine.configs), 'model')} "
                f"took {end - start:.2g} s, but only {max(0.0, deadline - start):.2g} s were "
                "left; pass more minutes",
                subject="minutes",
                value=deadline - start,
            )
        if end - start < PAUSE_SECONDS:
            stride = min(2 * stride, WINDOW)
        elif stride > 1:
            stride //= 2
        # On a GPU, the first steps compile kernels.
        compiling = engine.device.type == "cuda" and step < first + Engine.STEPS_TO_FULL_MEMORY
        seconds = 0.0 if compiling else (end - start) / count
        step += count
        yield step


def _stop(
    engine: Engine, rows: Tensor, path: Path | None, step: int, total: int, callbacks: Callbacks
) -> None:
    advice = "nothing was saved because `out` was not set"
    if path is not None:
        checkpoint.save(engine, rows, path)
        advice = "run the same command again to resume"
    raise callbacks.interruption(f"stopped at step {step:,} of {total:,}; {advice}", step)


def _collect(engine: Engine, rows: Tensor) -> dict[Part, Fleet]:
    """Return the trained models; their configs have the steps that they were trained for."""
    step, diverged_at = int(engine.step), engine.diverged_at.cpu()
    fleets = {}
    for part in engine.parts:
        configs = [replace(config, steps=step) for config in part.configs]
        parameters = {
            name: buffer.to("cpu", copy=True)
            for name, _, buffer in engine.networks(part, "trained")
        }
        diverged = diverged_at[part.models].clone()
        for buffer in parameters.values():
            # No loss has been computed with the final weights, so check them here.
            finite = buffer.unflatten(0, (len(configs), -1)).isfinite().flatten(1).all(1)
            diverged[~finite & (diverged < 0)] = step
        curve = _table(engine, part, configs, rows)
        fleets[part] = Fleet(configs, engine.data.shape, parameters, curve, diverged.numpy())
    return fleets


def _table(engine: Engine, part: Part, configs: Sequence[Config], rows: Tensor) -> pd.DataFrame:
    """Return the curve of a part as a tidy table: run, step, terms and diagnostics."""
    names, tables = curve_columns(engine, part), []
    columns = [curve_columns(engine).index(name) for name in names]
    own = rows[:, columns, part.models]
    for place, config in enumerate(configs):
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
    """A progress bar on a terminal and in a notebook; elsewhere, a line every 30 seconds.

    Args:
        engine: Fleet in training.
        step: First step.
        shown: Whether to show progress.
        deadline: Time of `time.monotonic()` at which training stops, or None.
    """

    def __init__(self, engine: Engine, step: int, shown: bool, deadline: float | None) -> None:
        self.engine, self.shown, self.first = engine, shown, step
        self.deadline = deadline
        self.total, self.models = engine.config.steps, len(engine.configs)
        self.terms = ""
        self.start = self.last = time.monotonic()

    def __enter__(self) -> Self:
        from rich.progress import BarColumn, TextColumn

        self.progress = bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[terms]}"),
            shown=self.shown,
        )
        self.live = not self.progress.disable
        self.progress.start()
        self.task = self.progress.add_task(
            "training", total=self.total, completed=self.first, left="", terms=""
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
        left, end = (self.total - step) / max(rate, 1e-9), f"{self.total:,}"
        if self.deadline is not None and now + left > self.deadline:
            left = max(0.0, self.deadline - now)
            end = f"about {step + int(rate * left):,}"
        throughput = self.models * rate
        speed = f"{throughput:,.{0 if throughput >= 10 else 1}f} model-steps/s"
        text = f"{counted(self.models, 'model')}  step {step:,} of {end}  {speed}"
        until = f"{left:,.0f} s left"
        self.progress.update(
            self.task,
            total=step + rate * left,
            completed=step,
            description=text,
            left=until,
            terms=self.terms,
        )
        if self.shown and not self.live and (now - self.last > LINE_SECONDS or step == self.total):
            print(f"{text}  {until}  {self.terms}", file=sys.stderr)  # noqa: T201
            self.last = now

    def end(self, step: int) -> None:
        """Print at which step the deadline stopped training."""
        if self.shown:
            say(f"Time is up: {counted(self.models, 'model')} trained for {step:,} steps")
