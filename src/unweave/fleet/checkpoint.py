"""Checkpoints: all that a fleet in training is, in one file, written whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path

import safetensors
from safetensors.torch import save_file
from torch import Tensor

from unweave.data.cache import whole_file
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine

__all__ = ["restore", "save"]


def save(engine: Engine, rows: Tensor, path: Path) -> None:
    """Write the state of an engine and the curve `[windows, terms + 1, M]` so far."""
    tensors = {
        name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(engine).items()
    }
    runs = json.dumps([config.hash for config in engine.configs])
    with whole_file(path) as temporary:
        save_file({**tensors, "curve": rows.contiguous()}, temporary, metadata={"runs": runs})


def restore(engine: Engine, path: Path) -> Tensor:
    """Put an engine into the state of a checkpoint; the curve so far is returned."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            runs = json.loads(file.metadata()["runs"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise UnweaveError(
            f"the checkpoint {path} is damaged ({error}); remove it to start anew"
        ) from error
    if runs != [config.hash for config in engine.configs]:
        raise UnweaveError(f"the checkpoint {path} is of other runs; remove it to start anew")
    for name, tensor in _tensors(engine).items():
        tensor.copy_(tensors[name])
    return tensors["curve"]


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
