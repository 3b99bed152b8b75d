"""Training finished runs further: their optimiser states are saved, found and restored.

The weights and moments of a run that continues are bit-identical to those of a run trained without
a break, since random streams depend on the step only.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.fleet.parameters import NetworkGroup
from unweave.fleet.parts import Part
from unweave.models.config import Config
from unweave.models.files import (
    FIRST_MOMENT,
    RAW_WEIGHTS,
    SECOND_MOMENT,
    State,
    read_state,
    state_kinds,
    write,
)
from unweave.models.images import check_shape
from unweave.models.lineage import lineage, states
from unweave.models.model import Fleet, Model, load

__all__ = ["SavedRun", "continued", "restore", "save"]


class SavedRun(NamedTuple):
    """A saved run that a longer one can continue."""

    steps: int
    folder: Path


def continued(configs: Iterable[Config], folder: Path) -> dict[str, SavedRun]:
    """Return the saved run that each run can continue, by the hash of the longer run.

    This is the run with most steps, but fewer than the longer one has, whose optimiser state is in
    the folder. Runs that continue no other are left out.
    """
    saved, found = states(folder), {}
    for config in configs if saved else ():
        runs = saved.get(lineage(config), {}).items()
        shorter = [SavedRun(steps, path) for steps, path in runs if steps < config.steps]
        if shorter:
            found[config.hash] = max(shorter)
    return found


def save(trained: Fleet, engine: Engine, part: Part, folder: Path) -> None:
    """Save the models of a part with their optimiser states; existing folders are unchanged."""
    for place, model in enumerate(trained, part.models.start):
        if not (folder / model.config.hash).exists():
            write(model, folder / model.config.hash, state=_state(engine, place))


def restore(engine: Engine, folders: Sequence[Path]) -> Tensor:
    """Restore an engine from the saved runs that its models continue.

    Args:
        engine: Engine before its first step.
        folders: Folder of the saved run of each model; all have the same number of steps.

    Returns:
        The curve so far, `[windows, columns, M]`.
    """
    wanted = engine.configs
    models = [
        load(folder, method=type(config.method))
        for config, folder in zip(wanted, folders, strict=True)
    ]
    check_shape(models[0].shape, engine.data.shape, engine.data.name)
    states = [
        read_state(folder, model.config, model.shape, _trained_networks(engine, place))
        for place, (model, folder) in enumerate(zip(models, folders, strict=True))
    ]
    _fill(engine, models, states)
    engine.step.fill_(models[0].config.steps)
    diverged_at = np.concatenate([model.diverged_at for model in models])
    engine.diverged_at.copy_(torch.from_numpy(diverged_at))
    engine.alive.copy_(engine.diverged_at < 0)
    return _rows(engine, models)


def _groups(engine: Engine, place: int) -> Iterator[tuple[NetworkGroup, slice]]:
    """Yield the network groups that train a model, with its rows in each."""
    for name, group in engine.groups.items():
        models = engine.models_of[name]
        if group.optimiser is not None and models.start <= place < models.stop:
            yield group, engine.rows(name, slice(place, place + 1))


def _trained_networks(engine: Engine, place: int) -> list[str]:
    """Return the names of the networks of a model that have an optimiser."""
    return [name for group, _ in _groups(engine, place) for name in group.networks]


def _state(engine: Engine, place: int) -> State:
    """Return the optimiser state of one model."""
    state: dict[str, dict[str, Tensor]] = {kind: {} for kind in state_kinds(engine.configs[place])}
    for group, rows in _groups(engine, place):
        for kind, found in state.items():
            found.update(group.buffers(_buffer(group, kind)[rows].cpu()))
    return state


def _fill(engine: Engine, models: Sequence[Model], states: Sequence[State]) -> None:
    """Copy parameters and optimiser states of models into the buffers of an engine."""
    for key, group in engine.groups.items():
        own, of_models = models[engine.models_of[key]], states[engine.models_of[key]]
        for name, buffer in group.buffers(group.trained):
            missing = [model for model in own if name not in model.parameters]
            if missing:
                raise UnweaveError(
                    f"run {missing[0].config.hash} was saved without {name}, so it cannot be "
                    "trained further; remove its optimiser state to train from the start",
                    subject=missing[0].config.hash,
                )
            buffer.copy_(torch.cat([model.parameters[name] for model in own]))
        if group.optimiser is not None:
            group.parameters.copy_(group.trained)
            for place, (model, state) in enumerate(zip(own, of_models, strict=True)):
                rows = slice(place * group.rows_per_model, (place + 1) * group.rows_per_model)
                for kind in state_kinds(model.config):
                    for name, buffer in group.buffers(_buffer(group, kind)[rows]):
                        buffer.copy_(state[kind][name])
        group.refresh()


def _buffer(group: NetworkGroup, kind: str) -> Tensor:
    """Return the buffer of a network group that belongs to a kind of values in a state."""
    return {
        FIRST_MOMENT: group.moments.first,
        SECOND_MOMENT: group.moments.second,
        RAW_WEIGHTS: group.parameters,
    }[kind]


def _rows(engine: Engine, models: Sequence[Model]) -> Tensor:
    """Return the curves of saved models, at the steps that all of them have."""
    _, *columns = curve_columns(engine)
    curves = [_curve(model.curve, columns, model.config.steps) for model in models]
    common = sorted(set.intersection(*(set(curve.index) for curve in curves)))
    values = [curve.loc[common].to_numpy(np.float32) for curve in curves]
    steps = np.array(common, np.float32)[:, None]
    rows = [np.concatenate([steps, value], 1) for value in values]
    return torch.from_numpy(np.stack(rows, 2))


def _curve(curve: pd.DataFrame, columns: Sequence[str], steps: int) -> pd.DataFrame:
    """Return the given columns of a curve by step, without rows beyond the last step."""
    inside = curve[curve["step"].isin(range(1, steps + 1))].drop_duplicates("step", keep="last")
    return inside.set_index("step").reindex(columns=list(columns)).astype(np.float32)
