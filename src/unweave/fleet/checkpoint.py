"""Checkpoints: the whole state of a fleet in training in one file, written whole or not at all.

A folder may hold checkpoints of several fleets, and of each the one before the last.
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
    "newest_first",
    "path_of",
    "restore",
    "runs_of",
    "save",
    "strange_checkpoints",
    "tidy",
]

CHECKPOINT = ".fleet-"
"""What the names of checkpoints begin with."""
MODEL_AXIS = {"sums": 1, "curve": 2}
"""Where the models are in a tensor, if not first."""
MOST_RUNS = 1_000_000


def save(engine: Engine, rows: Tensor, path: Path) -> None:
    """Write the state of an engine and the curve `[windows, columns, M]` so far."""
    runs = [config.hash for config in engine.configs]
    generations.save(path, {**_tensors(engine), "curve": rows}, {"runs": runs})


def runs_of(path: Path) -> list[str]:
    """The names of the runs in a checkpoint."""
    with generations.opened(path) as file:
        return _runs(file)


def restore(engine: Engine, path: Path) -> Tensor:
    """Put an engine into the state of a checkpoint, which may have other runs besides.

    An engine is left as it is where the checkpoint is damaged.

    Returns:
        The curve so far.
    """
    with generations.opened(path) as file:
        runs = _runs(file)
        wanted = [config.hash for config in engine.configs]
        if not set(wanted) <= set(runs):
            raise UnweaveError(f"the checkpoint {path} is of other runs; remove it to start anew")
        if file.layout["curve"][1][1:2] != (len(curve_columns(engine)),):
            raise UnweaveError(
                f"the checkpoint {path} is of another version of unweave; remove it to start anew"
            )
        _check_layout(file.layout, engine, len(runs))
        stored = generations.verified(file)
        _check_state(stored, engine.config.steps)
        if not generations.is_sealed(file):
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
    """The path of the newest checkpoint of a fleet of these runs."""
    names = hashlib.sha256(" ".join(config.hash for config in configs).encode()).hexdigest()[:16]
    return folder / f"{CHECKPOINT}{names}.safetensors"


def checkpoints(folder: Path) -> dict[Path, list[str]]:
    """The last readable checkpoint of every fleet and the runs in it, the newest first."""
    found = _readable(folder)
    older = {previous_of(path) for path in found}
    return {path: runs for path, runs in found.items() if path not in older}


def newest_first(folder: Path) -> list[Path]:
    """All checkpoints, also those before the last, and also those that cannot be read."""
    times = {}
    for path in folder.glob(f"{CHECKPOINT}*.safetensors"):
        # Another process may remove one at any moment.
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                times[path] = status.st_mtime_ns
    older = {previous_of(path) for path in times}
    return sorted(times, key=lambda path: (-times[path], path in older))


def strange_checkpoints(folder: Path) -> list[Path]:
    """Folders, pipes and the like with names of checkpoints, which could not be replaced."""
    found = []
    for path in folder.glob(f"{CHECKPOINT}*"):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                found.append(path)
    return found


def damaged_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints that cannot be read."""
    damaged = strange_checkpoints(folder)
    for path in newest_first(folder):
        try:
            runs_of(path)
        except FileNotFoundError:
            continue
        except DamagedCheckpointError:
            damaged.append(path)
    return damaged


def tidy(folder: Path) -> None:
    """Remove checkpoints all of whose runs are saved; after the last, damaged ones too."""
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
        or not 0 < len(runs) <= MOST_RUNS
        or not all(isinstance(run, str) and RUN_NAME.fullmatch(run) for run in runs)
        or len(set(runs)) != len(runs)
    ):
        raise ValueError("its metadata do not name its runs")
    return runs


def _check_layout(layout: Layout, engine: Engine, models: int) -> None:
    """Whether the tensors are those of such an engine with so many models; none is read yet."""
    wanted: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
    for name, tensor in _tensors(engine).items():
        shape = list(tensor.shape)
        if shape:
            axis = MODEL_AXIS.get(name, 0)
            shape[axis] = shape[axis] // len(engine.configs) * models
        wanted[name] = (tensor.dtype, tuple(shape))
    # A row is written every so many steps.
    windows = min(max(layout["curve"][1][0], 0), engine.config.steps)
    wanted["curve"] = (torch.float32, (windows, len(curve_columns(engine)), models))
    if dict(layout) != wanted:
        odd = sorted(name for name in {*layout, *wanted} if layout.get(name) != wanted.get(name))
        raise ValueError(f"{odd[0]} is not that of such a fleet")


def _check_state(stored: Mapping[str, Tensor], steps: int) -> None:
    """Whether the numbers that steer training are possible."""
    step = int(stored["step"])
    if not 0 <= step <= steps:
        raise ValueError(f"its step {step:,} is not between 0 and {steps:,}")
    lost = stored["diverged_at"]
    if not bool(((lost >= -1) & (lost <= step)).all()):
        raise ValueError("it has models that diverged in steps that were not taken")
    if not bool(((lost < 0) == stored["alive"]).all()):
        raise ValueError("it has models of which it is not clear whether they diverged")


def _check_numbers(stored: Mapping[str, Tensor]) -> None:
    """The same for all other numbers, where no checksum vouches for them."""
    for name, value in stored.items():
        if name.endswith(("/parameters", "/first", "/second")):
            possible = value.isfinite() & ((value >= 0) | (not name.endswith("/second")))
            if not bool(possible.all()):
                raise ValueError(f"{name} has impossible numbers")
    steps = stored["curve"][:, 0]
    if not bool(((steps >= 0) & (steps <= stored["step"].float())).all()):
        raise ValueError("its curve has steps that were not taken")
    if not 0 <= float(stored["count"]) <= float(stored["step"]):
        raise ValueError("it has counted more steps than were taken")


def _of_models(stored: Tensor, axis: int, places: Tensor, models: int) -> Tensor:
    """The parts of a tensor that are some models', each of which has one row or several."""
    rows = stored.shape[axis] // models
    return stored.index_select(axis, (places[:, None] * rows + torch.arange(rows)).flatten())


def _tensors(engine: Engine) -> Mapping[str, Tensor]:
    """Everything that a step changes, by name."""
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
    return tensors


def _readable(folder: Path) -> dict[Path, list[str]]:
    found = {}
    for path in newest_first(folder):
        with suppress(FileNotFoundError, DamagedCheckpointError):
            found[path] = runs_of(path)
    return found
