"""Checkpoints of m in training: one file beside the one to come, written whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from unweave.data.cache import whole_file
from unweave.errors import UnweaveError

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
    here = {name: value.cpu().contiguous() for name, value in tensors.items()}
    curve = torch.tensor(rows, dtype=torch.float64)
    facts = {"settings": json.dumps(settings, sort_keys=True)}
    with whole_file(path) as temporary:
        save_file({**here, "curve": curve}, temporary, metadata=facts)


def restore(
    tensors: Mapping[str, Tensor], settings: Mapping[str, Any], path: Path
) -> list[list[float]]:
    """Put tensors into the state of their checkpoint, where there is one; the curve so far."""
    if not path.exists():
        return []
    try:
        with safetensors.safe_open(path, "pt") as file:
            before = json.loads(file.metadata()["settings"])
            stored = {name: file.get_tensor(name) for name in (*tensors, "curve")}
    except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise UnweaveError(
            f"the checkpoint {path} is damaged ({error}); remove it to start anew"
        ) from error
    if before != settings:
        raise UnweaveError(f"the checkpoint {path} is of other settings; remove it to start anew")
    for name, tensor in tensors.items():
        tensor.copy_(stored[name])
    rows: list[list[float]] = stored["curve"].tolist()
    return rows
