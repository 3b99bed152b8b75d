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
    "BEST",
    "CONFIG",
    "CURVE",
    "RUNS",
    "SUMS",
    "UNREADABLE",
    "WEIGHTS",
    "Saved",
    "diverged_at",
    "finite_losses",
    "intact",
    "read",
    "read_config",
    "trouble_with",
    "write",
]

CONFIG, WEIGHTS, CURVE = "config.json", "weights.safetensors", "curve.parquet"
SUMS = "SHA256SUMS"
RUNS, BEST = "runs", "best"
"""Folders, beside each other: of the models of a study or of a fit, and of the one it chose."""
BESIDE = re.compile(r"run|step|kl_\d+")
"""Columns of a curve that are no losses."""
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    safetensors.SafetensorError,
)
"""What reading the files of a model may raise."""


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
        config = read_config(folder, method)
        with safetensors.safe_open(folder / WEIGHTS, "pt", device=str(device)) as file:
            facts = file.metadata()
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        curve = pd.read_parquet(folder / CURVE)
        shape, stopped = tuple(json.loads(facts["shape"])), int(facts["diverged_at"])
        networks = networks_by_name(config, shape)
        parameters = {
            name: network.packed(_fitting(name, network, weights))
            for name, network in networks.items()
        }
        _check_members(len(parameters[next(iter(networks))]), config.method.copies)
    except UNREADABLE as error:
        raise UnweaveError(trouble_with(folder, error)) from error
    return Saved(config, shape, parameters, curve, stopped)


def read_config(folder: Path, method: type[Method] | None = None) -> Config:
    """The run of a saved model; errors are those of `UNREADABLE`, or say what is unknown in it."""
    return Config.from_dict(json.loads((folder / CONFIG).read_text()), method)


def trouble_with(folder: Path, error: Exception) -> str:
    """Why a folder cannot be read as a model, and what to do."""
    if isinstance(error, FileNotFoundError):
        # Asked of the folder, as the errors of safetensors and of pyarrow name no file.
        missing = [name for name in (CONFIG, WEIGHTS, CURVE) if not (folder / name).exists()]
        what = missing[0] if missing else "a file"
        return f"{folder} holds no model: {what} is missing; give the folder of a saved one"
    return f"the model in {folder} is damaged ({error}); train it again"


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


def diverged_at(folder: Path) -> int:
    """The step at which a saved model stopped being finite, or -1; its weights are not read."""
    # Opening reads the header and compares the file's length with it.
    with safetensors.safe_open(folder / WEIGHTS, "np") as file:
        return int(file.metadata()["diverged_at"])


def finite_losses(row: Mapping[str, Any]) -> dict[str, float]:
    """The losses in a row of a curve, without its run, its step and what is of single latents.

    Example:
        >>> finite_losses({"run": "0f3a", "step": 100, "loss": 41.5, "kl": math.nan})
        {'loss': 41.5}
    """
    losses = {name: value for name, value in row.items() if not BESIDE.fullmatch(name)}
    return {n: float(v) for n, v in losses.items() if v is not None and math.isfinite(v)}
