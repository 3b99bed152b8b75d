"""Checkpoints: all that a fleet in training is, in one file, written whole or not at all."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from unweave.data.cache import whole_file
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine

__all__ = ["restore", "runs_of", "save"]

MODEL_AXIS = {"sums": 1, "curve": 2}
"""Where the models are in a tensor, if not first."""


def save(engine: Engine, rows: Tensor, path: Path) -> None:
    """Write the state of an engine and the curve `[windows, columns, M]` so far."""
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(engine).items()
    }
    runs = json.dumps([config.hash for config in engine.configs])
    with whole_file(path) as temporary:
        save_file({**tensors, "curve": rows.contiguous()}, temporary, metadata={"runs": runs})


def runs_of(path: Path) -> list[str]:
    """The names of the runs in a checkpoint."""
    with _reading(path), safetensors.safe_open(path, "pt") as file:
        runs: list[str] = json.loads(file.metadata()["runs"])
    return runs


def restore(engine: Engine, path: Path) -> Tensor:
    """Put an engine into the state of a checkpoint, which may have other runs besides.

    Returns:
        The curve so far.
    """
    runs = runs_of(path)
    wanted = [config.hash for config in engine.configs]
    if not set(wanted) <= set(runs):
        raise UnweaveError(f"the checkpoint {path} is of other runs; remove it to start anew")
    places = torch.tensor([runs.index(run) for run in wanted])
    with _reading(path), safetensors.safe_open(path, "pt") as file:
        curve = file.get_tensor("curve").index_select(MODEL_AXIS["curve"], places)
        if curve.shape[1] != len(engine.columns):
            raise UnweaveError(
                f"the checkpoint {path} is of another version of unweave; remove it to start anew"
            )
        for name, tensor in _tensors(engine).items():
            stored = file.get_tensor(name)
            axis = MODEL_AXIS.get(name, 0)
            tensor.copy_(_of_models(stored, axis, places, len(runs)) if stored.ndim else stored)
        for player in engine.players.values():
            player.refresh()
    return curve


def _of_models(stored: Tensor, axis: int, places: Tensor, models: int) -> Tensor:
    """The parts of a tensor that are some models', each of which has one row or several."""
    rows = stored.shape[axis] // models
    return stored.index_select(axis, (places[:, None] * rows + torch.arange(rows)).flatten())


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise UnweaveError(
            f"the checkpoint {path} is damaged ({error}); remove it to start anew"
        ) from error


def _tensors(engine: Engine) -> Mapping[str, Tensor]:
    """Everything that a step changes, by name."""
    tensors = {
        "step": engine.step,
        "alive": engine.alive,
        "diverged_at": engine.diverged_at,
        "sums": engine.sums,
        "count": engine.count,
    }
    for name, player in engine.players.items():
        tensors[f"{name}/parameters"] = player.parameters
        tensors[f"{name}/first"] = player.moments.first
        tensors[f"{name}/second"] = player.moments.second
    return tensors
