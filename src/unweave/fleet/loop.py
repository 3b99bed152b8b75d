"""One fleet in training, from its first step to its last: curve, checkpoints, progress, result."""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from unweave.errors import InterruptedTrainingError
from unweave.fleet import checkpoint
from unweave.fleet.checkpoint_files import newest_first, path_of, tidy
from unweave.fleet.engine import Engine
from unweave.fleet.interruption import interruptible
from unweave.fleet.status_line import Watch
from unweave.io.generations import DamagedCheckpointError, put_aside
from unweave.models.model import Fleet

__all__ = ["train_fleet"]

WINDOW = 100
GLANCES = 30
"""How often, at most, latents are looked at, and what methods add."""
GLANCE_SECONDS = 0.3


def train_fleet(
    make: Callable[[], Engine],
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    meanwhile: Callable[[str], bool | None] | None,
) -> Fleet:
    """Train a fleet to the end, from its last checkpoint where there is one; see `train_runs`.

    Args:
        make: Makes its engine.
        folder: For its checkpoints and its models, if any.
        progress: …
        checkpoint_every: …
        meanwhile: …
    """
    engine: Engine = make()
    begun = time.monotonic()
    rows = _run(engine, folder, progress, checkpoint_every, meanwhile)
    trained = _collect(engine, rows)
    if folder is not None:
        if time.monotonic() - begun > checkpoint_every:
            # Killed while saving, the models that are not saved yet come from here. What took no
            # longer than may be lost at any time is sooner trained again.
            checkpoint.save(engine, rows, path_of(engine.configs, folder))
        trained.save(folder)
        tidy(folder)
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
    path = None if folder is None else path_of(engine.configs, folder)
    rows = None if folder is None else _restored(engine, folder)
    if rows is None:
        rows = torch.empty(0, len(engine.columns), models)
    start = int(engine.step)
    saved = time.monotonic()
    with interruptible() as stopped, Watch(engine, start, progress) as watch:
        for step in _strides(engine, start, total):
            if step % WINDOW == 0 or step == total:
                means = engine.fetch()
                row = [torch.full((1, models), step), means, _glance(engine, step, total)]
                rows = torch.cat([rows, torch.cat(row)[None]])
                watch.show(step, means)
            else:
                watch.show(step)
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
    for path in newest_first(folder):
        try:
            if wanted <= set(checkpoint.runs_of(path)):
                return checkpoint.restore(engine, path)
        except FileNotFoundError:  # another process is done with it
            continue
        except DamagedCheckpointError as error:
            put_aside(path, error)
    return None


def _glance(engine: Engine, step: int, total: int) -> Tensor:
    """What is looked at now and then, `[glances, M]`; NaN at other times."""
    every = math.ceil(total / GLANCES / WINDOW) * WINDOW
    if step % every == 0 or step == total:
        return engine.glance()
    return torch.full((len(engine.glances), len(engine.configs)), torch.nan)


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
        if time.monotonic() - start < GLANCE_SECONDS:
            stride = min(2 * stride, WINDOW)
        elif stride > 1:
            stride //= 2
        step += count
        yield step


def _stop(engine: Engine, rows: Tensor, path: Path | None, step: int, total: int) -> None:
    if path is None:
        raise InterruptedTrainingError(
            f"stopped at step {step:,} of {total:,}; nothing was kept, for want of an out folder"
        )
    checkpoint.save(engine, rows, path)
    raise InterruptedTrainingError(
        f"stopped at step {step:,} of {total:,}; run the same again to go on from there"
    )


def _collect(engine: Engine, rows: Tensor) -> Fleet:
    parameters = {
        name: buffer.to("cpu", copy=True)
        for player in engine.players.values()
        for name, buffer in player.buffers(player.parameters)
    }
    diverged_at = engine.diverged_at.cpu()
    for buffer in parameters.values():
        # The last step may end with weights that no loss has been computed of.
        finite = buffer.unflatten(0, (len(engine.configs), -1)).isfinite().flatten(1).all(1)
        diverged_at[~finite & (diverged_at < 0)] = engine.config.steps
    return Fleet(
        engine.configs, engine.data.shape, parameters, _table(engine, rows), diverged_at.numpy()
    )


def _table(engine: Engine, rows: Tensor) -> pd.DataFrame:
    """The curve as a tidy table: run, step, every term, and what is looked at now and then."""
    parts = []
    for place, config in enumerate(engine.configs):
        part = pd.DataFrame(rows[:, 1:, place].numpy(), columns=engine.columns[1:])
        part.insert(0, "run", config.hash)
        part.insert(1, "step", rows[:, 0, place].long().numpy())
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
