"""Training runs: every combination of a grid, in fleets that fit, those that are done left out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from unweave.fleet.capacity import fits, shares
from unweave.fleet.checkpoint import checkpoints, strange_checkpoints
from unweave.fleet.engine import Engine
from unweave.fleet.loop import train_fleet
from unweave.io.arguments import check_count
from unweave.io.paths import check_folder, path_errors
from unweave.io.temporary import remove_leftovers
from unweave.methods import Method, find_method
from unweave.models.config import Config, group_into_fleets
from unweave.models.join import check_alike, join
from unweave.models.model import Fleet, Model
from unweave.models.model import load as load_model
from unweave.models.shapes import check_shape
from unweave.nets.adam import Adam
from unweave.nets.device import chosen_device
from unweave.text import shown, spelled

if TYPE_CHECKING:
    from unweave.models.finding import Models

__all__ = ["all_runs", "chosen_method", "train", "train_runs"]

OWN = ("method", "data", "seed", "steps", "first")
SETTINGS = (
    *(field.name for field in fields(Config) if field.name not in OWN),
    "learning_rate",
)
"""What is the same for all runs of a call."""
MOST_SEEDS = 10_000


def train(
    method: Method | str,
    data: Any,
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
        method: A method, or the name of one; fields with several values,
            `BetaVAE(beta=[1, 4, 16])`, are a grid.
        data: A data set, or what `uw.data.load` takes: a name, a folder of images, an array.
        seeds: How many seeds (0, 1, 2 …), or which.
        steps: Updates of the parameters.
        out: A folder for the trained models, one folder each; runs that it already has are not
            trained again, and training that was interrupted goes on from its last checkpoint
            there.
        device: By default a GPU where there is one.
        progress: Whether to show how far training is.
        checkpoint_every: Seconds between checkpoints in `out`.
        fleet_size: How many models to train at once; by default as many as fit, which is measured.
        first: For a second stage, the trained models that it builds on, or their folder; every
            combination is trained over each of them.
        settings: Of `Config`: batch, latents, architecture, likelihood, init, optimiser,
            precision; `learning_rate`, short for `optimiser=uw.Adam(lr=…)`; and options of
            `uw.data.load` (size, channels, factors, path, picture) where it loads the data.

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
    data, settings = load_with(data, settings)
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
    method: Method | str,
    data: Dataset,
    seeds: int | Iterable[int],
    steps: int,
    first: Fleet | None = None,
    **settings: Any,
) -> list[Config]:
    """Every combination of the method's values, each with every seed, seeds fastest; see `train`.

    Each is there once, and there is at least one.
    """
    for name in settings:
        if name not in SETTINGS:
            raise UnknownNameError("setting of training", name, SETTINGS)
    if "learning_rate" in settings:
        rate, optimiser = settings.pop("learning_rate"), settings.get("optimiser", Adam())
        # `Config` refuses anything else than Adam.
        settings["optimiser"] = (
            replace(optimiser, lr=rate) if isinstance(optimiser, Adam) else optimiser
        )
    if isinstance(seeds, int | np.integer):
        seeds = range(check_count("seeds", seeds, 1, MOST_SEEDS))
    chosen = list(islice(seeds, MOST_SEEDS + 1))
    if len(chosen) > MOST_SEEDS:
        raise UnweaveError(f"at most {MOST_SEEDS:,} seeds can be trained in one call, got more")
    origin = origin_of(data)
    before = [None] if first is None else first.configs
    configs = [
        Config(method=one, data=tuple(origin), seed=seed, steps=steps, first=below, **settings)
        for below in before
        for one in chosen_method(method).grid()
        for seed in chosen
    ]
    if not configs:
        raise UnweaveError("there is nothing to train: no seed or no value was given")
    if len({config.hash for config in configs}) != len(configs):
        raise UnweaveError("two of these runs are the same; give each seed and value once")
    return configs


def chosen_method(method: Any) -> Method:
    """A method; of a name or a class, the one with its usual values."""
    if isinstance(method, str):
        return find_method(spelled(method))()
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    if not isinstance(method, Method):
        raise UnweaveError(f"method must be one of uw.methods, but got {shown(method)}")
    return method


def _together(models: "Models") -> Fleet:
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
    folder = None if out is None else Path(out)
    if folder is not None:
        check_folder(folder)
        with path_errors(folder, "make"):
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            strange = strange_checkpoints(folder)
        if strange:
            raise UnweaveError(f"{strange[0]} is in the way of a checkpoint; remove it")
    done = {} if folder is None else _finished(configs, folder)
    given = {} if first is None else {model.config.hash: model for model in first}
    for alike in group_into_fleets(config for config in configs if config.hash not in done):
        for fleet in _fleets(alike, data, folder, device, fleet_size):
            make = partial(Engine, fleet, data, device, _first_stages(fleet, given, folder, data))
            try:
                trained = train_fleet(make, folder, progress, checkpoint_every, meanwhile)
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
    """Runs that can share a fleet, in fleets that fit; interrupted fleets stay as they were."""
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


def _first_stages(
    configs: Sequence[Config], given: Mapping[str, Model], folder: Path | None, data: Dataset
) -> dict[str, Tensor] | None:
    """The parameters of the models that second stages build on, by network, `[M, P]`."""
    runs = [config.first for config in configs if config.first is not None]
    if not runs:
        return None
    models = [given.get(run.hash) or _saved(run, folder) for run in runs]
    lost = [model.config.hash for model in models if model.diverged_at[0] >= 0]
    if lost:
        raise UnweaveError(f"the model {lost[0]} has diverged; build on others")
    check_shape(models[0].shape, data.shape, data.name)
    return {
        name: torch.cat([model.parameters[name].cpu() for model in models])
        for name in models[0].parameters
    }


def _saved(config: Config, folder: Path | None) -> Model:
    if folder is None or not (folder / config.hash).exists():
        raise UnweaveError(
            f"the model {config.hash} to build on was not found; give it (first=…), or train it "
            "into the same folder first"
        )
    return load_model(folder / config.hash)


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


def _finished(configs: Sequence[Config], folder: Path) -> dict[str, Model]:
    return {
        config.hash: load_model(folder / config.hash, method=type(config.method))
        for config in configs
        if (folder / config.hash).exists()
    }
