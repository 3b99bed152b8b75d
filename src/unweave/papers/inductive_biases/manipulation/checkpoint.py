"""Checkpoints of m in training: one file beside the one to come, written whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io import generations

__all__ = ["beside", "restore", "save"]


def beside(path: Path) -> Path:
    """Where the checkpoint of a file to come is."""
    return path.with_name(f".{path.name}.checkpoint")


def save(
    tensors: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    rows: list[list[float]],
    path: Path,
) -> None:
    """Write everything that a step changes, and the curve so far."""
    curve = torch.tensor(rows, dtype=torch.float64)
    generations.save(path, {**tensors, "curve": curve}, {"settings": settings})


def restore(
    tensors: Mapping[str, Tensor], settings: Mapping[str, Any], columns: int, path: Path
) -> list[list[float]]:
    """Put tensors into the state of their newest undamaged checkpoint, where there is one.

    Args:
        tensors: Everything that a step changes, by name, `step` among them.
        settings: Those of the training, `steps` among them.
        columns: How many numbers a row of the curve has.
        path: Where the newest checkpoint is.

    Returns:
        The curve so far.
    """
    for place in (path, generations.previous_of(path)):
        try:
            return _restored(tensors, settings, columns, place)
        except FileNotFoundError:
            continue
        except generations.DamagedCheckpointError as error:
            generations.put_aside(place, error)
    return []


def _restored(
    tensors: Mapping[str, Tensor], settings: Mapping[str, Any], columns: int, path: Path
) -> list[list[float]]:
    with generations.opened(path) as file:
        if file.facts["settings"] != json.loads(json.dumps(settings)):
            raise UnweaveError(
                f"the checkpoint {path} is of other settings; remove it to start anew"
            )
        steps = settings["steps"]
        wanted = {name: (value.dtype, tuple(value.shape)) for name, value in tensors.items()}
        # The first row is of m before it is trained.
        windows = min(max(file.layout["curve"][1][0], 0), steps + 1)
        wanted["curve"] = (torch.float64, (windows, columns))
        if dict(file.layout) != wanted:
            raise ValueError("its tensors are not those of such a training")
        stored = generations.verified(file)
        if not 0 <= int(stored["step"]) <= steps:
            raise ValueError(f"its step {int(stored['step']):,} is not between 0 and {steps:,}")
        if not generations.is_sealed(file):
            for name in tensors:
                if not bool(stored[name].isfinite().all()):
                    raise ValueError(f"{name} has numbers that are not finite")
    for name, tensor in tensors.items():
        tensor.copy_(stored[name])
    rows: list[list[float]] = stored["curve"].tolist()
    return rows
