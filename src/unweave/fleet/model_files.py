"""The files of a saved model, which is a folder, written whole or not at all.

    config.json          what it was trained with
    weights.safetensors  its parameters by name
    curve.parquet        what the losses did while training
    SHA256SUMS           checksums of these, as `sha256sum --check` reads them

A model of an ensemble has n members: its parameters are n rows, in its file `[n, …]`.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import safetensors
import torch
from safetensors.torch import save_file
from torch import Tensor

from unweave.data.cache import whole_folder
from unweave.errors import UnweaveError
from unweave.fleet.config import Config
from unweave.fleet.networks import networks_by_name, parameters_by_name
from unweave.methods import Method
from unweave.nets.network import Network

__all__ = [
    "CONFIG",
    "CURVE",
    "SUMS",
    "WEIGHTS",
    "Saved",
    "finite_losses",
    "has_diverged",
    "intact",
    "read",
    "write",
]

CONFIG, WEIGHTS, CURVE = "config.json", "weights.safetensors", "curve.parquet"
SUMS = "SHA256SUMS"
BESIDE = re.compile(r"run|step|kl_\d+")
"""Columns of a curve that are no losses."""


@dataclass(frozen=True, eq=False)
class Saved:
    """What the files of a model hold.

    Args:
        config: Its run.
        shape: Height, width and channels of its images.
        parameters: By network, `[1, P]`; those of an ensemble of n, `[n, P]`.
        curve: The losses while training, one row per window of steps.
        diverged_at: The step at which it stopped being finite, or -1.
    """

    config: Config
    shape: tuple[int, int, int]
    parameters: Mapping[str, Tensor]
    curve: pd.DataFrame
    diverged_at: int


def write(saved: Saved, folder: Path) -> None:
    """Write a model into a folder that is not there yet."""
    facts = {"shape": json.dumps(saved.shape), "diverged_at": str(saved.diverged_at)}
    weights = parameters_by_name(networks_by_name(saved.config, saved.shape), saved.parameters)
    with whole_folder(folder) as temporary:
        text = json.dumps(saved.config.to_dict(), indent=1)
        (temporary / CONFIG).write_text(text + "\n")
        on_host = {name: value.cpu() for name, value in weights.items()}
        save_file(on_host, temporary / WEIGHTS, metadata=facts)
        saved.curve.to_parquet(temporary / CURVE, index=False)
        (temporary / SUMS).write_text(_sums(temporary))


def read(folder: Path, device: str | torch.device, method: type[Method] | None) -> Saved:
    """What `write` wrote, checked against the networks of its run; see `unweave.load`."""
    try:
        config = Config.from_dict(json.loads((folder / CONFIG).read_text()), method)
        with safetensors.safe_open(folder / WEIGHTS, "pt", device=str(device)) as file:
            facts = file.metadata()
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        curve = pd.read_parquet(folder / CURVE)
        shape = tuple(json.loads(facts["shape"]))
        diverged_at = int(facts["diverged_at"])
        networks = networks_by_name(config, shape)
        parameters = {
            name: network.packed(_fitting(name, network, weights))
            for name, network in networks.items()
        }
        _check_members(len(parameters[next(iter(networks))]), config.method.copies)
    except FileNotFoundError as error:
        raise UnweaveError(
            f"{folder} holds no model: {Path(error.filename).name} is missing"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise UnweaveError(
            f"the model in {folder} is damaged ({error}); train it again"
        ) from error
    return Saved(config, shape, parameters, curve, diverged_at)


def _fitting(name: str, network: Network, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a network, an axis for members first, checked to be those of such a one."""
    rows = {key: _rows(weights[f"{name}/{key}"], shape) for key, shape in network.shapes.items()}
    for key, shape in network.shapes.items():
        got = rows[key].shape[1:]
        if got != shape:
            raise ValueError(f"{name}/{key} is {list(got)}, but its settings want {list(shape)}")
    return rows


def _rows(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A parameter of one model with an axis for its members, even of one."""
    return value if value.ndim > len(shape) else value[None]


def _check_members(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} members in place of {expected}")


def intact(folder: Path) -> bool:
    """Whether the files of a saved model are those that were written."""
    try:
        return (folder / SUMS).read_text() == _sums(folder)
    except OSError:
        return False


def _sums(folder: Path) -> str:
    lines = []
    for name in (CONFIG, WEIGHTS, CURVE):
        with (folder / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)


def has_diverged(folder: Path) -> bool:
    """Whether a saved model stopped being finite while it was trained."""
    with safetensors.safe_open(folder / WEIGHTS, "pt") as file:
        return int(file.metadata()["diverged_at"]) >= 0


def finite_losses(row: Mapping[str, Any]) -> dict[str, float]:
    """The losses in a row of a curve, without its run, its step and what is of single latents.

    Example:
        >>> finite_losses({"run": "0f3a", "step": 100, "loss": 41.5, "kl": math.nan})
        {'loss': 41.5}
    """
    losses = {name: value for name, value in row.items() if not BESIDE.fullmatch(name)}
    return {n: float(v) for n, v in losses.items() if v is not None and math.isfinite(v)}
