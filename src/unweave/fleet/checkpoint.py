"""Checkpoints: the whole state of a fleet in training, in one file that is written atomically.

A folder may contain checkpoints of several fleets, and for each fleet also the previous one. Each
part of a fleet is stored as if it were a fleet of its own; if there are several parts, the names
of their tensors begin with the index of the part.
"""

import hashlib
import itertools
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.fleet.parts import Part
from unweave.io import generations
from unweave.io.generations import DAMAGED, DamagedCheckpointError, previous_of
from unweave.io.tensors import Layout, TensorFile
from unweave.models.config import RUN_NAME, Config
from unweave.models.lineage import lineage, states

__all__ = [
    "CHECKPOINT",
    "checkpoints",
    "damaged_checkpoints",
    "irregular_checkpoints",
    "newest_first",
    "path_of",
    "progress_of",
    "restore",
    "runs_of",
    "save",
    "tidy",
]

CHECKPOINT = ".fleet-"
"""Prefix of the names of checkpoints."""
MODEL_AXIS = {"sums": 1, "curve": 2}
"""Model axis of tensors in which it is not the first."""
MAX_RUNS = 1_000_000
Item = TypeVar("Item")


def save(engine: Engine, rows: Tensor, path: Path) -> None:
    """Write the state of an engine and its curve so far, `[windows, columns, M]`."""
    facts: dict[str, Any] = {
        "runs": [config.hash for config in engine.configs],
        "lineages": [lineage(config) for config in engine.configs],
    }
    if len(engine.parts) == 1:
        generations.save(path, {**_tensors(engine, engine.parts[0]), "curve": rows}, facts)
        return
    facts["parts"] = [len(part.configs) for part in engine.parts]
    tensors: dict[str, Tensor] = {}
    for index, part in enumerate(engine.parts):
        columns = [curve_columns(engine).index(name) for name in curve_columns(engine, part)]
        state = {**_tensors(engine, part), "curve": rows[:, columns, part.models]}
        # Files cannot hold tensors that share memory.
        tensors |= {f"{index}/{n}": v if v.ndim else v.clone() for n, v in state.items()}
    generations.save(path, tensors, facts)


def runs_of(path: Path) -> list[str]:
    """Return the names of the runs in a checkpoint."""
    with generations.opened(path) as file:
        return _runs(file)


def progress_of(path: Path, configs: Iterable[Config]) -> dict[str, int]:
    """Return the step from which a checkpoint resumes runs, for those that it can resume.

    These are its own runs, and runs that differ from them only in the total number of steps, if
    they have not ended by then.
    """
    with generations.opened(path) as file:
        runs, lineages, step = _runs(file), _lineages(file), _step(file)
    return {
        config.hash: step
        for config in configs
        if config.hash in runs or (lineage(config) in lineages and step <= config.steps)
    }


def restore(engine: Engine, path: Path) -> Tensor:
    """Restore an engine from a checkpoint, which may also contain other runs.

    If the checkpoint is damaged, the engine is not changed.

    Returns:
        The curve so far.
    """
    with generations.opened(path) as file:
        of_parts = {part: _stored_part(file, part, path) for part in engine.parts}
        for part, (prefix, _, models) in of_parts.items():
            layout = _without(prefix, file.layout)
            if layout["curve"][1][1:2] != (len(curve_columns(engine, part)),):
                raise UnweaveError(
                    f"checkpoint {path} is from another version of unweave; remove it to start "
                    "again",
                    subject=path,
                )
            _check_layout(layout, engine, part, models)
        content = generations.verified(file)
        stored = {part: _without(prefix, content) for part, (prefix, *_) in of_parts.items()}
        for one in stored.values():
            _check_state(one, engine.config.steps)
            if not generations.has_checksum(file):
                _check_numbers(one)
        steps = {int(one["step"]) for one in stored.values()}
        windows = {len(one["curve"]) for one in stored.values()}
        if len(steps) != 1 or len(windows) != 1:
            raise ValueError("its parts are at different steps")
    columns = curve_columns(engine)
    curve = torch.full((*windows, len(columns), len(engine.configs)), torch.nan)
    for part, one in stored.items():
        _, places, models = of_parts[part]
        chosen = {
            name: _of_models(value, MODEL_AXIS.get(name, 0), places, models)
            for name, value in one.items()
        }
        _fill(engine, part, chosen)
        own = [columns.index(name) for name in curve_columns(engine, part)]
        curve[:, own, part.models] = chosen["curve"]
    for group in engine.groups.values():
        group.refresh()
    return curve


def _stored_part(file: TensorFile, part: Part, path: Path) -> tuple[str, Tensor, int]:
    """Return where a checkpoint has the runs of a part of an engine.

    Returns:
        Prefix of the names of its tensors, indices of the runs in these, and number of models.
    """
    for names, wanted in (
        (_runs(file), [config.hash for config in part.configs]),
        (_lineages(file), [lineage(config) for config in part.configs]),
    ):
        sizes = _sizes(file)
        for index, end in enumerate(itertools.accumulate(sizes)):
            own = names[end - sizes[index] : end]
            if set(wanted) <= set(own):
                places = torch.tensor([own.index(name) for name in wanted])
                return (f"{index}/" if "parts" in file.facts else ""), places, len(own)
    raise UnweaveError(
        f"checkpoint {path} belongs to other runs; remove it to start again", subject=path
    )


def _sizes(file: TensorFile) -> list[int]:
    """Return the number of models of each part."""
    runs = _runs(file)
    sizes = file.facts.get("parts", [len(runs)])
    if (
        not isinstance(sizes, list)
        or not all(type(size) is int and size > 0 for size in sizes)
        or sum(sizes) != len(runs)
    ):
        raise ValueError("its metadata has no valid list of parts")
    return sizes


def _without(prefix: str, values: Mapping[str, Item]) -> dict[str, Item]:
    """Return the values whose names have a prefix, by names without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def path_of(configs: Sequence[Config], folder: Path) -> Path:
    """Return the path of the newest checkpoint of a fleet of these runs."""
    names = hashlib.sha256(" ".join(config.hash for config in configs).encode()).hexdigest()[:16]
    return folder / f"{CHECKPOINT}{names}.safetensors"


def checkpoints(folder: Path) -> dict[Path, list[str]]:
    """Return the last readable checkpoint of each fleet with its runs, newest first."""
    found = _readable(folder)
    older = {previous_of(path) for path in found}
    return {path: runs for path, runs in found.items() if path not in older}


def newest_first(folder: Path) -> list[Path]:
    """Return all checkpoints, including previous and unreadable ones, newest first."""
    times = {}
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        # Another process may remove a checkpoint at any time.
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                times[path] = status.st_mtime_ns
    older = {previous_of(path) for path in times}
    return sorted(times, key=lambda path: (-times[path], path in older))


def irregular_checkpoints(folder: Path) -> list[Path]:
    """Return paths with names of checkpoints that are not files, so cannot be replaced."""
    found = []
    for path in folder.glob(f"{CHECKPOINT}*"):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                found.append(path)
    return found


def damaged_checkpoints(folder: Path) -> list[Path]:
    """Return checkpoints that cannot be read."""
    damaged = irregular_checkpoints(folder)
    for path in newest_first(folder):
        try:
            runs_of(path)
        except FileNotFoundError:
            continue
        except DamagedCheckpointError:
            damaged.append(path)
    return damaged


def tidy(folder: Path) -> None:
    """Remove checkpoints whose runs are all saved; if none remain, also damaged ones.

    A run also counts as saved if a run that continues it has been saved with its optimiser state.
    """
    for path, runs in _readable(folder).items():
        if all((folder / run).exists() for run in runs) or _surpassed(path, folder):
            path.unlink(missing_ok=True)
    if not newest_first(folder):
        for path in folder.glob(f"{CHECKPOINT}*{DAMAGED}"):
            path.unlink(missing_ok=True)


def _surpassed(path: Path, folder: Path) -> bool:
    """Whether saved optimiser states make a checkpoint unnecessary."""
    saved = states(folder)
    if not saved:
        return False
    try:
        with generations.opened(path) as file:
            lineages, step = _lineages(file), _step(file)
    except (FileNotFoundError, DamagedCheckpointError):
        return False
    ahead = [max(saved.get(name, {}), default=-1) >= step for name in lineages]
    return bool(ahead) and all(ahead)


def _runs(file: TensorFile) -> list[str]:
    return _names(file.facts["runs"])


def _lineages(file: TensorFile) -> list[str]:
    """Return the lineages of the runs; none for checkpoints of earlier versions."""
    lineages = file.facts.get("lineages")
    if lineages is None:
        return []
    if len(_names(lineages)) != len(_runs(file)):
        raise ValueError("its metadata has another number of lineages than of runs")
    return _names(lineages)


def _step(file: TensorFile) -> int:
    """Return the step of a checkpoint without reading its other tensors."""
    name = "0/step" if "parts" in file.facts else "step"
    if file.layout[name] != (torch.int64, ()):
        raise ValueError("its step is not an integer")
    return int(file.tensor(name))


def _names(runs: Any) -> list[str]:
    """Check a list of names of runs or lineages."""
    if (
        not isinstance(runs, list)
        or not 0 < len(runs) <= MAX_RUNS
        or not all(isinstance(run, str) and RUN_NAME.fullmatch(run) for run in runs)
        or len(set(runs)) != len(runs)
    ):
        raise ValueError("its metadata has no valid list of runs")
    return runs


def _check_layout(layout: Layout, engine: Engine, part: Part, models: int) -> None:
    """Check names, types and shapes of a part's tensors, before reading any of them."""
    wanted: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for name, tensor in _tensors(engine, part).items():
        shape = list(tensor.shape)
        if shape:
            axis = MODEL_AXIS.get(name, 0)
            shape[axis] = shape[axis] // len(part.configs) * models
        wanted[name] = (tensor.dtype, tuple(shape))
    # The number of rows is at most the number of steps.
    windows = min(max(layout["curve"][1][0], 0), engine.config.steps)
    wanted["curve"] = (torch.float32, (windows, len(curve_columns(engine, part)), models))
    # Only other runs of the fleet may have averaged their weights.
    found = {name: v for name, v in layout.items() if name in wanted or "/average" not in name}
    if found != wanted:
        odd = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise ValueError(f"{odd[0]} does not match the runs")


def _check_state(stored: Mapping[str, Tensor], steps: int) -> None:
    """Check that the step counter and the record of diverged models are consistent."""
    step = int(stored["step"])
    if not 0 <= step <= steps:
        raise ValueError(f"its step must be between 0 and {steps:,}, got {step:,}")
    diverged_at = stored["diverged_at"]
    if not bool(((diverged_at >= -1) & (diverged_at <= step)).all()):
        raise ValueError("diverged_at is beyond the current step")
    if not bool(((diverged_at < 0) == stored["alive"]).all()):
        raise ValueError("diverged_at and alive contradict each other")


def _check_numbers(stored: Mapping[str, Tensor]) -> None:
    """Check all other numbers, for checkpoints without a checksum."""
    for name, value in stored.items():
        if name.endswith(("/parameters", "/first", "/second", "/average")):
            possible = value.isfinite() & ((value >= 0) | (not name.endswith("/second")))
            if not bool(possible.all()):
                raise ValueError(f"{name} has invalid values")
    steps = stored["curve"][:, 0]
    if not bool(((steps >= 0) & (steps <= stored["step"].float())).all()):
        raise ValueError("its curve has steps beyond the current step")
    if not 0 <= float(stored["count"]) <= float(stored["step"]):
        raise ValueError("its count of steps exceeds the current step")


def _of_models(stored: Tensor, axis: int, places: Tensor, models: int) -> Tensor:
    """Select the rows of some models, which have one or more rows each."""
    if not stored.ndim:
        return stored
    rows = stored.shape[axis] // models
    return stored.index_select(axis, (places[:, None] * rows + torch.arange(rows)).flatten())


def _tensors(engine: Engine, part: Part) -> dict[str, Tensor]:
    """Return all tensors that a step changes for a part of a fleet, by name."""
    terms = [engine.terms.index(name) for name in engine.terms_of[part]]
    tensors = {
        "step": engine.step,
        "alive": engine.alive[part.models],
        "diverged_at": engine.diverged_at[part.models],
        "sums": engine.sums[terms, part.models],
        "count": engine.count,
    }
    for name, views in _buffers(engine, part).items():
        tensors[name] = views[0] if len(views) == 1 else torch.cat(views, 1)
    return tensors


def _fill(engine: Engine, part: Part, tensors: Mapping[str, Tensor]) -> None:
    """Set the tensors of a part to those of a checkpoint; see `_tensors`."""
    engine.step.copy_(tensors["step"])
    engine.count.copy_(tensors["count"])
    engine.alive[part.models] = tensors["alive"].to(engine.device)
    engine.diverged_at[part.models] = tensors["diverged_at"].to(engine.device)
    terms = [engine.terms.index(name) for name in engine.terms_of[part]]
    engine.sums[terms, part.models] = tensors["sums"].to(engine.device)
    for name, views in _buffers(engine, part).items():
        widths = [view.shape[1] for view in views]
        for view, value in zip(views, tensors[name].split(widths, 1), strict=True):
            view.copy_(value)


def _buffers(engine: Engine, part: Part) -> dict[str, list[Tensor]]:
    """Return the buffers of a part by name; several form one with adjacent columns."""
    found: dict[str, list[Tensor]] = {}
    for loss, names in part.groups.items():
        for name in names:
            group = engine.groups[name].rows(engine.rows(name, part.models))
            buffers = {
                "parameters": group.parameters,
                "first": group.moments.first,
                "second": group.moments.second,
            }
            if group.averages is not None:
                buffers["average"] = group.averages
            for kind, buffer in buffers.items():
                found.setdefault(f"{loss}/{kind}", []).append(buffer)
    return found


def _readable(folder: Path) -> dict[Path, list[str]]:
    found = {}
    for path in newest_first(folder):
        with suppress(FileNotFoundError, DamagedCheckpointError):
            found[path] = runs_of(path)
    return found
