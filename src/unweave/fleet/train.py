"""Training of grids of runs in fleets that fit into memory; finished runs are skipped."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unweave.data import load_with
from unweave.data.dataset import Dataset
from unweave.data.origin import origin_of
from unweave.errors import UnknownNameError, UnweaveError
from unweave.fleet.callbacks import Callback, Callbacks
from unweave.fleet.capacity import fleet_capacity, fleet_sizes
from unweave.fleet.checkpoint import checkpoints, irregular_checkpoints, progress_of
from unweave.fleet.continuation import continued
from unweave.fleet.engine import Engine
from unweave.fleet.loop import train_fleet
from unweave.io.arguments import check_count
from unweave.io.generations import DamagedCheckpointError
from unweave.io.paths import check_folder, path_errors
from unweave.io.plain_data import is_number
from unweave.io.temporary import remove_leftovers
from unweave.methods import Method, find_method
from unweave.models.config import Config, group_into_fleets
from unweave.models.images import check_shape
from unweave.models.lineage import lineage, saved_runs
from unweave.models.model import Fleet, Model, check_alike, join
from unweave.models.model import load as load_model
from unweave.nets.adam import Adam
from unweave.nets.device import chosen_device
from unweave.progress import say
from unweave.text import canonical_name, counted, shown

if TYPE_CHECKING:
    from unweave.models.finding import Models

__all__ = [
    "all_runs",
    "check_minutes",
    "chosen_method",
    "cost",
    "in_fleets",
    "prepare_folder",
    "train",
    "train_runs",
]

OWN = ("method", "data", "seed", "steps", "first")
SETTINGS = (
    *(field.name for field in fields(Config) if field.name not in OWN),
    "learning_rate",
)
"""Settings that are the same for all runs of a call."""
STEP_OVERHEAD = 11
"""Additional models that take as long as the fixed part of a step on a GPU: β-VAEs take 452 µs
per step alone, and 42.7 µs each in a fleet of 256 (`benchmarks/results/fleet_h200.json`)."""
MAX_SEEDS = 10_000
MAX_MINUTES = 1_000_000


def train(
    method: Method | str | Sequence[Method | str],
    data: Any,
    *,
    seeds: int | Iterable[int] = 1,
    steps: int = 300_000,
    minutes: float | None = None,
    out: str | Path | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
    checkpoint_every: float = 60.0,
    keep_optimiser: bool = False,
    fleet_size: int | None = None,
    first: "Models | None" = None,
    callbacks: Iterable[Callback] | Callback | None = None,
    **settings: Any,
) -> Fleet:
    """Train a fleet: every combination of the method's values, each with every seed.

    Args:
        method: A method or its name; lists of values, as in `BetaVAE(beta=[1, 4, 16])`, define a
            grid. With a list of methods, all of them train in one fleet.
        data: A data set, or any source that `uw.data.load` accepts: a name, a folder of images,
            an array.
        seeds: Number of random seeds (0, 1, 2 …), or the seeds themselves (default 1).
        steps: Number of training steps (default 300,000). Runs that were saved with their
            optimiser state continue if this is more than they had.
        minutes: Deadline for this call, in minutes (default: none). Fleets share the time so that
            all get about as many steps. Models that do not reach `steps` in time are kept as
            runs of fewer steps, with their optimiser state.
        out: Output folder, with one subfolder per model. Finished runs are skipped, and
            interrupted training resumes from the last checkpoint.
        device: Device to train on (default: a GPU if available).
        progress: Whether to show progress.
        checkpoint_every: Seconds between checkpoints in `out` (default 60).
        keep_optimiser: Whether to save optimiser states, so that models can be trained further;
            they are twice as large as the weights (default: only with `minutes`).
        fleet_size: Number of models trained at once (default: as many as fit into memory).
        first: For a second stage, the trained models that it builds on, or their folder; every
            combination is trained on top of each of them.
        callbacks: Callbacks and trackers, see `uw.trackers.Callback`.
        settings: Settings of `Config` (batch, latents, architecture, likelihood, init, optimiser,
            precision); `learning_rate`, short for `optimiser=uw.Adam(lr=…)`; and options of
            `uw.data.load` (size, channels, bits, non_square, factors, path, picture), if it loads
            the data.

    Returns:
        The trained models, on the CPU, by method, in the order of its grid, with seeds varying
        fastest; for second stages, grouped by first-stage model.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> method = uw.methods.BetaVAE(beta=[1, 4])
        >>> fleet = uw.train(method, data, seeds=2, steps=2, batch=8, progress=False)
        >>> len(fleet), [config.method.beta for config in fleet.configs]
        (4, [1, 1, 4, 4])
        >>> methods = [method, uw.methods.FactorVAE(gamma=40), "ae"]
        >>> uw.train(methods, data, steps=2, batch=8, progress=False)
        4 beta_vae, factor_vae, ae models of 64 × 64 × 1 images
    """
    data, settings = load_with(data, settings)
    below = None if first is None else _as_fleet(first)
    runs = all_runs(method, data, seeds, steps, below, **settings)
    with Callbacks(callbacks) as calls:
        calls.result = fleet = train_runs(
            runs,
            data,
            first=below,
            out=out,
            device=device,
            progress=progress,
            checkpoint_every=checkpoint_every,
            fleet_size=fleet_size,
            minutes=minutes,
            keep_optimiser=keep_optimiser,
            callbacks=calls,
        )
    return fleet


def all_runs(
    method: Method | str | Sequence[Method | str],
    data: Dataset,
    seeds: int | Iterable[int],
    steps: int,
    first: Fleet | None = None,
    **settings: Any,
) -> list[Config]:
    """Return the configs of all combinations of values and seeds, seeds fastest; see `train`.

    There is at least one config, and no duplicates.
    """
    for name in settings:
        if name not in SETTINGS:
            raise UnknownNameError("training setting", name, SETTINGS)
    if "learning_rate" in settings:
        rate, optimiser = settings.pop("learning_rate"), settings.get("optimiser", Adam())
        # `Config` rejects any other optimiser.
        settings["optimiser"] = (
            replace(optimiser, lr=rate) if isinstance(optimiser, Adam) else optimiser
        )
    if isinstance(seeds, int | np.integer):
        seeds = range(check_count("seeds", seeds, 1, MAX_SEEDS))
    chosen = list(islice(seeds, MAX_SEEDS + 1))
    if len(chosen) > MAX_SEEDS:
        raise UnweaveError(
            f"at most {MAX_SEEDS:,} seeds can be trained in one call, got more", subject="seeds"
        )
    origin = origin_of(data)
    before = [None] if first is None else first.configs
    methods = list(method) if isinstance(method, list | tuple) else [method]
    configs = [
        Config(method=one, data=tuple(origin), seed=seed, steps=steps, first=below, **settings)
        for below in before
        for one in itertools.chain(*(chosen_method(each).grid() for each in methods))
        for seed in chosen
    ]
    if not configs:
        raise UnweaveError(
            "nothing to train: methods, seeds or a grid of values is empty; pass at least one",
            subject="seeds",
        )
    if len({config.hash for config in configs}) != len(configs):
        raise UnweaveError(
            "some runs are duplicates; pass each seed and each value only once", subject="runs"
        )
    return configs


def chosen_method(method: Any) -> Method:
    """Return a method; a name or class gives the method with its default settings."""
    if isinstance(method, str):
        return find_method(canonical_name(method))()
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    if not isinstance(method, Method):
        raise UnweaveError(
            f"method must be one of uw.methods, got {shown(method)}",
            subject="method",
            value=method,
        )
    return method


def _as_fleet(models: "Models") -> Fleet:
    from unweave.models.finding import models_of

    return models if isinstance(models, Fleet) else join(models_of(models, chosen=True))


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
    on_progress: Callable[[str], bool | None] | None = None,
    minutes: float | None = None,
    keep_optimiser: bool = False,
    callbacks: Callbacks | None = None,
) -> Fleet:
    """Train runs; runs that can share a fleet are trained together.

    With a deadline, the returned models may have fewer steps than their configs ask for.

    Args:
        configs: Runs to train.
        data: Training images.
        first: Models of the first stage; missing models are looked up in `out`.
        out: Output folder; see `train`.
        device: Device to train on (default: a GPU if available).
        progress: Whether to show progress.
        checkpoint_every: Seconds between checkpoints (default 60).
        fleet_size: Number of models trained at once (default: as many as fit into memory).
        on_progress: Callback for a progress message, called a few times a second; training stops
            as on Ctrl-C if it returns True.
        minutes: Deadline for this call, in minutes (default: none); see `train`.
        keep_optimiser: Whether to save optimiser states; see `train`.
        callbacks: Callbacks of the call, whose `on_end` is left to the caller.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * check_minutes(minutes)
    if deadline is not None and any(one.optimiser.schedule == "cosine" for one in configs):
        raise UnweaveError(
            "a cosine schedule depends on the number of steps, which a deadline does not fix; "
            "pass steps without minutes, or use another schedule",
            subject="minutes",
            value=minutes,
        )
    if keep_optimiser and out is None:
        raise UnweaveError(
            "keep_optimiser requires an output folder; pass out=…", subject="keep_optimiser"
        )
    keep_optimiser = keep_optimiser or deadline is not None
    if fleet_size is not None and fleet_size < 1:
        raise UnweaveError(
            f"fleet_size must be at least 1, got {fleet_size}",
            subject="fleet_size",
            value=fleet_size,
        )
    if not configs:
        raise UnweaveError("nothing to train: configs is empty; pass at least one run")
    check_alike(configs, data.shape)
    device = chosen_device(device)
    folder = None if out is None else Path(out)
    if folder is not None:
        prepare_folder(folder)
    done = {} if folder is None else _finished(configs, folder)
    calls = callbacks or Callbacks()
    given = {} if first is None else {model.config.hash: model for model in first}
    left = [config for config in configs if config.hash not in done]
    fleets = [
        fleet
        for alike in group_into_fleets(left)
        for fleet in _fleets_of(alike, data, folder, device, fleet_size, progress)
    ]
    costs = [cost(len(fleet), device) for fleet in fleets]
    for place, fleet in enumerate(fleets):
        make = partial(Engine, fleet, data, device, _first_stages(fleet, given, folder, data))
        try:
            trained = train_fleet(
                make,
                folder,
                progress,
                checkpoint_every,
                on_progress,
                calls,
                _share(deadline, costs[place] / sum(costs[place:])),
                keep_optimiser,
            )
        except torch.cuda.OutOfMemoryError as error:
            raise UnweaveError(_out_of_memory(len(fleet), device)) from error
        # At a deadline, models have fewer steps than their configs.
        done |= {config.hash: model for config, model in zip(fleet, trained, strict=True)}
    return join([done[config.hash] for config in configs])


def prepare_folder(folder: Path) -> None:
    """Create the folder of a fleet; raise an error if no checkpoints can be written to it."""
    check_folder(folder)
    with path_errors(folder, "make"):
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        strange = irregular_checkpoints(folder)
    if strange:
        raise UnweaveError(
            f"cannot write a checkpoint to {strange[0]}, which is not a file; remove it",
            subject=strange[0],
        )


def in_fleets(
    configs: Sequence[Config],
    data: Dataset,
    interrupted: Iterable[Sequence[str]],
    device: torch.device,
    fleet_size: int | None,
    saved: Mapping[str, int] | None = None,
) -> Iterator[list[Config]]:
    """Split runs into fleets that fit into memory; interrupted fleets are kept together.

    All models of a fleet start from the same step.

    Args:
        configs: Runs that can share a fleet.
        data: Training images.
        interrupted: Names of the runs in each checkpoint.
        device: Device to train on.
        fleet_size: Number of models trained at once (default: as many as fit into memory).
        saved: Step from which runs continue, by hash (default: all start from step 0).
    """
    left = {config.hash: config for config in configs}
    for runs in interrupted:
        fleet = [left.pop(run) for run in runs if run in left]
        if fleet:
            yield fleet
    by_start: dict[int, list[Config]] = {}
    for config in left.values():
        by_start.setdefault((saved or {}).get(config.hash, 0), []).append(config)
    for _, rest in sorted(by_start.items()):
        size = fleet_size or fleet_capacity(rest, data, device)
        count = len(fleet_sizes(len(rest), size))
        for index in range(count):  # every fleet gets runs of all methods
            yield rest[index::count]


def check_minutes(minutes: float, error: type[UnweaveError] = UnweaveError) -> float:
    """Return a time in minutes; raise an error unless it is positive and not too large."""
    if not is_number(minutes) or not 0 < minutes <= MAX_MINUTES:
        raise error.must("minutes", f"be greater than 0 and at most {MAX_MINUTES:,}", minutes)
    return minutes


def _fleets_of(
    alike: Sequence[Config],
    data: Dataset,
    folder: Path | None,
    device: torch.device,
    fleet_size: int | None,
    progress: bool,
) -> Iterator[list[Config]]:
    """Split runs that can share a fleet, some of which may have been interrupted or saved."""
    found = {} if folder is None else continued(alike, folder)
    saved = {run: one.steps for run, one in found.items()}
    interrupted = [] if folder is None else _interrupted(alike, folder, saved)
    if folder is not None and progress and not saved and not interrupted:
        _announce_restart(alike, folder)
    for chosen in in_fleets(alike, data, interrupted, device, fleet_size, saved):
        yield from group_into_fleets(chosen)


def cost(models: int, device: torch.device) -> float:
    """Return the time of a training step of a fleet, in units of the time per additional model."""
    return models + (STEP_OVERHEAD if device.type == "cuda" else 0)


def _share(deadline: float | None, share: float) -> float | None:
    """Return the deadline of a fleet that may use a share of the remaining time."""
    now = time.monotonic()
    return None if deadline is None else now + share * (deadline - now)


def _interrupted(
    configs: Sequence[Config], folder: Path, saved: Mapping[str, int]
) -> list[list[str]]:
    """Return the runs that resume from each checkpoint, unless saved runs are ahead of it."""
    found = []
    for path in checkpoints(folder):
        with suppress(FileNotFoundError, DamagedCheckpointError):
            steps = progress_of(path, configs)
            found.append([run for run, step in steps.items() if step >= saved.get(run, 0)])
    return [runs for runs in found if runs]


def _announce_restart(configs: Sequence[Config], folder: Path) -> None:
    """Print that saved runs with other numbers of steps are not continued."""
    shorter = saved_runs(folder)
    restarted = [config for config in configs if lineage(config) in shorter]
    if restarted:
        say(
            f"{counted(len(restarted), 'run')} in {folder} cannot continue, since no shorter run "
            "was saved with its optimiser state (keep_optimiser); training starts from step 0"
        )


def _first_stages(
    configs: Sequence[Config], given: Mapping[str, Model], folder: Path | None, data: Dataset
) -> dict[str, Tensor] | None:
    """Return the parameters of first-stage models by network, `[M, P]`, if there are any."""
    runs = [config.first for config in configs if config.first is not None]
    if not runs:
        return None
    models = [given.get(run.hash) or _saved(run, folder) for run in runs]
    diverged = [model.config.hash for model in models if model.diverged_at[0] >= 0]
    if diverged:
        raise UnweaveError(
            f"first-stage model {diverged[0]} has diverged; use other first-stage models",
            subject=diverged[0],
        )
    check_shape(models[0].shape, data.shape, data.name)
    return {
        name: torch.cat([model.parameters[name].cpu() for model in models])
        for name in models[0].parameters
    }


def _saved(config: Config, folder: Path | None) -> Model:
    if folder is None or not (folder / config.hash).exists():
        raise UnweaveError(
            f"first-stage model {config.hash} was not found; pass it as first=…, or train it in "
            "the same folder first",
            subject=config.hash,
        )
    return load_model(folder / config.hash)


def _out_of_memory(models: int, device: torch.device) -> str:
    free = torch.cuda.mem_get_info(device)[0] / 1e9
    if models == 1:
        return (
            f"a single model does not fit into {free:.1f} GB of free memory; reduce the batch "
            "size, or free memory on the device"
        )
    return (
        f"{models} models do not fit into {free:.1f} GB of free memory; train fewer at once "
        "(--fleet-size), or free memory on the device"
    )


def _finished(configs: Sequence[Config], folder: Path) -> dict[str, Model]:
    return {
        config.hash: load_model(folder / config.hash, method=type(config.method))
        for config in configs
        if (folder / config.hash).exists()
    }
