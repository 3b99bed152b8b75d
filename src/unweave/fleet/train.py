"""Training a fleet from beginning to end: progress, checkpoints, interruption, results."""

import hashlib
import math
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.origin import remember
from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet import checkpoint
from unweave.fleet.config import Config
from unweave.fleet.device import chosen_device
from unweave.fleet.engine import Engine
from unweave.fleet.models import Fleet, Model, check_alike, join
from unweave.fleet.models import load as load_model
from unweave.fleet.size import fits, shares
from unweave.fleet.watch import Watch
from unweave.methods import Method

if TYPE_CHECKING:
    from unweave.evaluation.runs import Models

__all__ = [
    "all_runs",
    "checkpoints",
    "damaged_checkpoints",
    "interruptible",
    "train",
    "train_runs",
]

WINDOW = 100
GLANCES = 30
"""How often, at most, latents are looked at, and what methods add."""
CHECKPOINT = ".fleet-"
GLANCE_SECONDS = 0.3


def train(
    method: Method,
    data: Dataset | str,
    *,
    seeds: int | Iterable[int] = 1,
    steps: int = 300_000,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    checkpoint_every: float = 60.0,
    fleet_size: int | None = None,
    first: "Models | None" = None,
    **settings: Any,
) -> Fleet:
    """Train a fleet: every combination of the method's values, each with every seed.

    Args:
        method: A method; fields with several values, `BetaVAE(beta=[1, 4, 16])`, are a grid.
        data: A data set, or the name of one.
        seeds: How many seeds (0, 1, 2 …), or which.
        steps: Updates of the parameters.
        out: A folder for the trained models, one folder each; runs that it already has are not
            trained again, and training that was interrupted goes on from its last checkpoint
            there.
        device: By default a GPU where there is one.
        progress: Whether to show how far training is.
        checkpoint_every: Seconds between checkpoints in `out`.
        fleet_size: How many models to train at once; by default as many as fit, which is measured.
        first: For a method that builds on trained models, such as `MSVAE`, these models or their
            folder; they stay as they are: every combination is trained over each of them.
        settings: Of `Config`: batch, latents, architecture, likelihood, init, optimiser,
            precision.

    Returns:
        The trained models, on the CPU, in the order of the grid, seeds fastest, of those that
        build on others one after the other.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> method = uw.methods.BetaVAE(beta=[1, 4])
        >>> fleet = uw.train(method, data, seeds=2, steps=2, batch=8, progress=False)
        >>> len(fleet), [config.method.beta for config in fleet.configs]
        (4, [1, 1, 4, 4])
    """
    data = load_data(data) if isinstance(data, str) else data
    below = None if first is None else _together(first)
    return train_runs(
        all_runs(method, data, seeds, steps, below, **settings),
        data,
        first=below,
        out=out,
        device=device,
        progress=progress,
        checkpoint_every=checkpoint_every,
        fleet_size=fleet_size,
    )


def all_runs(
    method: Method,
    data: Dataset,
    seeds: int | Iterable[int],
    steps: int,
    first: Fleet | None = None,
    **settings: Any,
) -> list[Config]:
    """Every combination of the method's values, each with every seed, seeds fastest; see `train`.

    Each is there once, and there is at least one.
    """
    chosen = range(seeds) if isinstance(seeds, int | np.integer) else list(seeds)
    origin = data.origin or remember(data, None, {}).origin
    before = [None] if first is None else first.configs
    configs = [
        Config(method=one, data=tuple(origin), seed=seed, steps=steps, first=below, **settings)
        for below in before
        for one in method.grid()
        for seed in chosen
    ]
    if not configs:
        raise UnweaveError("there is nothing to train: no seed or no value was given")
    if len({config.hash for config in configs}) != len(configs):
        raise UnweaveError("two of these runs are the same; give each seed and value once")
    return configs


def _together(models: "Models") -> Fleet:
    from unweave.evaluation.runs import runs_of

    return models if isinstance(models, Fleet) else join([run.model for run in runs_of(models)])


def train_runs(
    configs: Sequence[Config],
    data: Dataset,
    *,
    first: Fleet | None = None,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    checkpoint_every: float = 60.0,
    fleet_size: int | None = None,
    meanwhile: Callable[[str], bool | None] | None = None,
) -> Fleet:
    """Train runs, those that can share a fleet together; see `train`.

    Args:
        configs: The runs.
        data: What they learn from.
        first: The models that they build on; those that are not given are looked for in `out`.
        out: See `train`, as for all that follows.
        device: …
        progress: …
        checkpoint_every: …
        fleet_size: …
        meanwhile: Called a few times a second while training goes on, told how far it is; where it
            returns True, training stops as it does on Ctrl-C.
    """
    if fleet_size is not None and fleet_size < 1:
        raise UnweaveError(f"a fleet has at least one model, but got {fleet_size=}")
    if not configs:
        raise UnweaveError("there is nothing to train: no run was given")
    check_alike(configs, data.shape)
    device = chosen_device(device)
    folder = None if out is None else _writable(Path(out))
    done = {} if folder is None else _finished(configs, folder)
    given = {} if first is None else {model.config.hash: model for model in first}
    kinds: dict[str, list[Config]] = {}
    for config in configs:
        if config.hash not in done:
            kinds.setdefault(config.fleet, []).append(config)
    for kind in kinds.values():
        for fleet in _fleets(kind, data, folder, device, fleet_size):
            before = _before(fleet, given, folder, data)
            make = partial(Engine, fleet, data, device, before)
            try:
                trained = _train_fleet(make, folder, progress, checkpoint_every, meanwhile)
            except torch.cuda.OutOfMemoryError as error:
                raise UnweaveError(_too_large(len(fleet), device)) from error
            done |= {model.config.hash: model for model in trained}
    return join([done[config.hash] for config in configs])


def _fleets(
    configs: list[Config],
    data: Dataset,
    folder: Path | None,
    device: torch.device,
    fleet_size: int | None,
) -> Iterator[list[Config]]:
    """Runs of one kind in fleets that fit; those that were interrupted together stay together."""
    left = {config.hash: config for config in configs}
    for runs in [] if folder is None else checkpoints(folder).values():
        interrupted = [left.pop(run) for run in runs if run in left]
        if interrupted:
            yield interrupted
    rest = list(left.values())
    if rest:
        for count in shares(len(rest), fleet_size or fits(rest, data, device)):
            fleet, rest = rest[:count], rest[count:]
            yield fleet


def _before(
    configs: Sequence[Config], given: Mapping[str, Model], folder: Path | None, data: Dataset
) -> dict[str, Tensor] | None:
    """The parameters of the models that runs build on, by network, `[M, P]`."""
    runs = [config.first for config in configs if config.first is not None]
    if not runs:
        return None
    models = [given.get(run.hash) or _kept(run, folder) for run in runs]
    lost = [model.config.hash for model in models if model.diverged_at[0] >= 0]
    if lost:
        raise UnweaveError(f"the model {lost[0]} has diverged; build on others")
    if models[0].shape != data.shape:
        raise UnweaveError(
            f"the models to build on take images {list(models[0].shape)}, but those of "
            f"{data.name} are {list(data.shape)}; train both on the same"
        )
    return {
        name: torch.cat([model.parameters[name].cpu() for model in models])
        for name in models[0].parameters
    }


def _kept(config: Config, folder: Path | None) -> Model:
    if folder is None or not (folder / config.hash).exists():
        raise UnweaveError(
            f"the model {config.hash} to build on is not at hand; give it (first=…), or train it "
            "into the same folder before"
        )
    return load_model(folder / config.hash)


def _train_fleet(
    make: Callable[[], Engine],
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    meanwhile: Callable[[str], bool | None] | None,
) -> Fleet:
    engine: Engine = make()
    begun = time.monotonic()
    rows = _run(engine, folder, progress, checkpoint_every, meanwhile)
    trained = _collect(engine, rows)
    if folder is not None:
        if time.monotonic() - begun > checkpoint_every:
            # Killed while saving, the models that are not saved yet come from here. What took no
            # longer than may be lost at any time is sooner trained again.
            checkpoint.save(engine, rows, _checkpoint_path(engine.configs, folder))
        trained.save(folder)
        _tidy(folder)
    return trained


def _too_large(models: int, device: torch.device) -> str:
    free = torch.cuda.mem_get_info(device)[0] / 1e9
    if models == 1:
        return (
            f"not even one model fits on the device, where {free:.1f} GB are free; make the batch "
            "smaller, or free the device"
        )
    return (
        f"{models} models do not fit on the device, where {free:.1f} GB are free; train fewer at "
        "once (--fleet-size), or free the device"
    )


def _writable(folder: Path) -> Path:
    """The folder, made if need be; better to know now than after training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        reason = error.strerror or error
        raise UnweaveError(
            f"cannot write into {folder}: {reason}; choose another folder"
        ) from error


def _finished(configs: Sequence[Config], folder: Path) -> dict[str, Model]:
    return {
        config.hash: load_model(folder / config.hash, method=type(config.method))
        for config in configs
        if (folder / config.hash).exists()
    }


def _checkpoint_path(configs: Sequence[Config], folder: Path) -> Path:
    names = hashlib.sha256(" ".join(config.hash for config in configs).encode()).hexdigest()[:16]
    return folder / f"{CHECKPOINT}{names}.safetensors"


def checkpoints(folder: Path) -> dict[Path, list[str]]:
    """All checkpoints and the runs in each, those that are furthest behind last."""
    found = {}
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        # Another process may remove one that is done with at any moment.
        with suppress(FileNotFoundError):
            found[path] = (-path.stat().st_mtime, checkpoint.runs_of(path))
    return {path: found[path][1] for path in sorted(found, key=lambda path: found[path][0])}


def damaged_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints that cannot be read."""
    damaged = []
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        try:
            checkpoint.runs_of(path)
        except FileNotFoundError:
            continue
        except UnweaveError:
            damaged.append(path)
    return damaged


def _tidy(folder: Path) -> None:
    """Remove checkpoints all of whose runs are saved."""
    for path, runs in checkpoints(folder).items():
        if all((folder / run).exists() for run in runs):
            path.unlink(missing_ok=True)


def _run(
    engine: Engine,
    folder: Path | None,
    progress: bool,
    checkpoint_every: float,
    meanwhile: Callable[[str], bool | None] | None,
) -> Tensor:
    """Train to the end; the curve `[windows, columns, M]`, each row led by its step."""
    total, models = engine.config.steps, len(engine.configs)
    path = None if folder is None else _checkpoint_path(engine.configs, folder)
    rows = torch.empty(0, len(engine.columns), models)
    wanted = {config.hash for config in engine.configs}
    for earlier, runs in ({} if folder is None else checkpoints(folder)).items():
        if wanted <= set(runs):
            rows = checkpoint.restore(engine, earlier)
            break
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


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """While this holds, Ctrl-C is noted and not thrown; a second one is thrown."""
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted.is_set
        return

    def note(number: int, frame: Any) -> None:  # noqa: ARG001 - as signal calls it
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()
        print("finishing this step …", file=sys.stderr)  # noqa: T201

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _collect(engine: Engine, rows: Tensor) -> Fleet:
    parameters = {
        name: buffer.to("cpu", copy=True)
        for player in engine.players.values()
        for name, buffer in player.buffers(player.parameters)
    }
    return Fleet(
        engine.configs,
        engine.data.shape,
        parameters,
        _table(engine, rows),
        engine.diverged_at.cpu().numpy(),
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
