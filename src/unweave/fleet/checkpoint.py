"""Checkpoints: the whole state of a fleet in training, in one file that is written atomically.

A folder may contain checkpoints of several fleets, and for each fleet also the previous one.
"""

import hashlib
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.fleet.diagnostics import curve_columns
from unweave.fleet.engine import Engine
from unweave.io import generations
from unweave.io.generations import DAMAGED, DamagedCheckpointError, previous_of
from unweave.io.tensors import Layout, TensorFile
from unweave.models.config import RUN_NAME, Config

__all__ = [
    "CHECKPOINT",
    "checkpoints",
    "damaged_checkpoints",
    "irregular_checkpoints",
    "newest_first",
    "path_of",
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


def save(engine: Engine, rows: Tensor, path: Path) -> None:
    """Write the state of an engine and its curve so far, `[windows, columns, M]`."""
    runs = [config.hash for config in engine.configs]
    generations.save(path, {**_tensors(engine), "curve": rows}, {"runs": runs})


def runs_of(path: Path) -> list[str]:
    """Return the names of the runs in a checkpoint."""
    with generations.opened(path) as file:
        return _runs(file)


def restore(engine: Engine, path: Path) -> Tensor:
    """Restore an engine from a checkpoint, which may also contain other runs.

    If the checkpoint is damaged, the engine is not changed.

    Returns:
        The curve so far.
    """
    with generations.opened(path) as file:
        runs = _runs(file)
        wanted = [config.hash for config in engine.configs]
        if not set(wanted) <= set(runs):
            raise UnweaveError(
                f"checkpoint {path} belongs to other runs; remove it to start again", subject=path
            )
        if file.layout["curve"][1][1:2] != (len(curve_columns(engine)),):
            raise UnweaveError(
                f"checkpoint {path} is from another version of unweave; remove it to start again",
                subject=path,
            )
        _check_layout(file.layout, engine, len(runs))
        stored = generations.verified(file)
        _check_state(stored, engine.config.steps)
        if not generations.has_checksum(file):
            _check_numbers(stored)
    places = torch.tensor([runs.index(run) for run in wanted])
    for name, tensor in _tensors(engine).items():
        value = stored[name]
        axis = MODEL_AXIS.get(name, 0)
        tensor.copy_(_of_models(value, axis, places, len(runs)) if value.ndim else value)
    for group in engine.groups.values():
        group.refresh()
    return stored["curve"].index_select(MODEL_AXIS["curve"], places)


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
    """Remove checkpoints whose runs are all saved; if none remain, also damaged ones."""
    for path, runs in _readable(folder).items():
        if all((folder / run).exists() for run in runs):
            path.unlink(missing_ok=True)
    if not newest_first(folder):
        for path in folder.glob(f"{CHECKPOINT}*{DAMAGED}"):
            path.unlink(missing_ok=True)


def _runs(file: TensorFile) -> list[str]:
    runs = file.facts["runs"]
    if (
        not isinstance(runs, list)
        or not 0 < len(runs) <= MAX_RUNS
        or not all(isinstance(run, str) and RUN_NAME.fullmatch(run) for run in runs)
        or len(set(runs)) != len(runs)
    ):
        raise ValueError("its metadata has no valid list of runs")
    return runs


def _check_layout(layout: Layout, engine: Engine, models: int) -> None:
    """Check names, types and shapes of the tensors, before reading any of them."""
    wanted: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for name, tensor in _tensors(engine).items():
        shape = list(tensor.shape)
        if shape:
            axis = MODEL_AXIS.get(name, 0)
            shape[axis] = shape[axis] // len(engine.configs) * models
        wanted[name] = (tensor.dtype, tuple(shape))
    # The number of rows is at most the number of steps.
    windows = min(max(layout["curve"][1][0], 0), engine.config.steps)
    wanted["curve"] = (torch.float32, (windows, len(curve_columns(engine)), models))
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
    rows = stored.shape[axis] // models
    return stored.index_select(axis, (places[:, None] * rows + torch.arange(rows)).flatten())


def _tensors(engine: Engine) -> Mapping[str, Tensor]:
    """Return all tensors that a step changes, by name."""
    tensors = {
        "step": engine.step,
        "alive": engine.alive,
        "diverged_at": engine.diverged_at,
        "sums": engine.sums,
        "count": engine.count,
    }
    for name, group in engine.groups.items():
        tensors[f"{name}/parameters"] = group.parameters
        tensors[f"{name}/first"] = group.moments.first
        tensors[f"{name}/second"] = group.moments.second
        if group.averages is not None:
            tensors[f"{name}/average"] = group.averages
    return tensors


def _readable(folder: Path) -> dict[Path, list[str]]:
    found = {}
    for path in newest_first(folder):
        with suppress(FileNotFoundError, DamagedCheckpointError):
            found[path] = runs_of(path)
    return found
