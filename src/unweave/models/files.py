"""The files of a saved model, which is a folder, written whole or not at all.

    config.json          what it was trained with
    weights.safetensors  its parameters by name
    curve.parquet        what the losses did while training
    SHA256SUMS           checksums of these, as `sha256sum --check` reads them

Every file is compared with its checksum before it is used. A model of an ensemble has n members:
its parameters are n rows, in its file `[n, …]`. The same model always gives the same bytes.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.checksums import SUMS, verify, write_sums
from unweave.io.extensions import ExtensionError
from unweave.io.plain_data import read_json
from unweave.io.tables import read_table
from unweave.io.tensors import Layout, open_tensors, write_tensors
from unweave.io.writing import whole_folder
from unweave.methods import Method
from unweave.models.config import RUN_NAME, Config
from unweave.models.networks import networks_by_name, parameters_by_name
from unweave.nets.network import Network

__all__ = [
    "BEST",
    "CONFIG",
    "CURVE",
    "FILES",
    "RUNS",
    "SUMS",
    "UNREADABLE",
    "WEIGHTS",
    "Saved",
    "diverged_at",
    "fill",
    "finite_losses",
    "intact",
    "read",
    "read_config",
    "read_curve",
    "read_settings",
    "trouble_with",
    "write",
]

CONFIG, WEIGHTS, CURVE = "config.json", "weights.safetensors", "curve.parquet"
FILES = (CONFIG, WEIGHTS, CURVE)
RUNS, BEST = "runs", "best"
"""Folders, beside each other: of the models of a study or of a fit, and of the one it chose."""
BESIDE = re.compile(r"run|step|kl_\d+")
"""Columns of a curve that are no losses."""
MOST_PIXELS = 1 << 28
LARGEST = float(np.finfo(np.float32).max)
"""Of a loss, which is computed in float32."""
MOST_LETTERS = 300
"""Of a reason in an error message."""
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # torch, of numbers that are too large for it
    MemoryError,
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
    with whole_folder(folder) as temporary:
        fill(temporary, saved)
        write_sums(temporary, FILES)


def fill(folder: Path, saved: Saved) -> None:
    """Write the files of a model into a folder, without their checksums."""
    weights = parameters_by_name(networks_by_name(saved.config, saved.shape), saved.parameters)
    text = json.dumps(saved.config.to_dict(), indent=1)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    facts = {"shape": list(saved.shape), "diverged_at": saved.diverged_at}
    write_tensors(folder / WEIGHTS, weights, facts)
    saved.curve.to_parquet(folder / CURVE, index=False)


def read(folder: Path, device: str | torch.device, method: type[Method] | None) -> Saved:
    """What `write` wrote, checked against the networks of its run; see `unweave.load`."""
    try:
        verify(folder, FILES)
        config = read_config(folder, method)
        with open_tensors(folder / WEIGHTS, device) as file:
            shape, lost = _shape(file.facts), _diverged_at(file.facts)
            networks = networks_by_name(config, shape)
            _check_layout(networks, file.layout, config.method.num_members)
            weights = file.tensors()
        parameters = {
            name: network.packed(
                {key: _rows(weights[f"{name}/{key}"], of) for key, of in network.shapes.items()}
            )
            for name, network in networks.items()
        }
        _check_members(len(parameters[next(iter(networks))]), [config.method.num_members])
        if lost < 0 and not all(bool(value.isfinite().all()) for value in parameters.values()):
            raise ValueError("it has weights that are not finite, but is not marked as diverged")
        curve = read_curve(folder)
    except UNREADABLE as error:
        raise UnweaveError(trouble_with(folder, error)) from error
    return Saved(config, shape, parameters, curve, lost)


def read_config(folder: Path, method: type[Method] | None = None) -> Config:
    """The run of a saved model; errors are those of `UNREADABLE`, or say what is unknown in it."""
    return Config.from_dict(read_settings(folder), method)


def read_settings(folder: Path) -> dict[str, Any]:
    """The run of a saved model as plain data; errors are those of `UNREADABLE`."""
    verify(folder, [CONFIG])
    try:
        plain = read_json(folder / CONFIG)
    except ValueError as error:
        raise ValueError(f"{CONFIG} cannot be read: {error}") from error
    if not isinstance(plain, dict):
        raise TypeError(f"{CONFIG} does not hold the settings of a run")
    name = folder.absolute().name
    # Of the data as they were written: a later version may know more settings.
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    run = hashlib.sha256(text.encode()).hexdigest()[:16]
    if RUN_NAME.fullmatch(name) and name != run:
        raise ValueError(f"it is run {run}, not the one that its folder is named after")
    return plain


def read_curve(folder: Path) -> pd.DataFrame:
    """The losses while training; errors are those of `UNREADABLE`."""
    verify(folder, [CURVE])
    curve = read_table(folder / CURVE)
    for name in ("run", "step"):
        if name not in curve:
            raise ValueError(f"{CURVE} has no column {name!r}")
    numbers = curve.select_dtypes("number").to_numpy(np.float64)
    if (np.abs(numbers[np.isfinite(numbers)]) > LARGEST).any():
        raise ValueError(f"{CURVE} has larger numbers than training can give")
    return curve


def diverged_at(folder: Path) -> int:
    """The step at which a saved model stopped being finite, or -1; its weights are not read.

    Errors are those of `UNREADABLE`.
    """
    with open_tensors(folder / WEIGHTS) as file:
        if not file.checked:
            verify(folder, [WEIGHTS])
        return _diverged_at(file.facts)


def intact(folder: Path) -> bool:
    """Whether the files of a saved model are those that were written."""
    try:
        verify(folder, FILES)
    except (OSError, ValueError):
        return False
    return True


def trouble_with(folder: Path, error: Exception) -> str:
    """Why a folder cannot be read as a model, and what to do."""
    if isinstance(error, FileNotFoundError):
        # Asked of the folder, as not every error names the file.
        missing = [name for name in (*FILES, SUMS) if not (folder / name).exists()]
        if missing == [SUMS]:
            return (
                f"the model in {folder} cannot be verified: {SUMS} is missing; copy it as well, "
                f"or, if you trust the files, run `sha256sum {' '.join(FILES)} > {SUMS}` there"
            )
        what = missing[0] if missing else "a file"
        return f"{folder} holds no model: {what} is missing; give the folder of a saved one"
    if isinstance(error, ExtensionError):
        return str(error)
    reason = " ".join(str(error).split()) or type(error).__name__
    if len(reason) > MOST_LETTERS:
        reason = f"{reason[:MOST_LETTERS]}…"
    return (
        f"the model in {folder} is damaged ({reason}); restore it from a copy, or remove the "
        "folder and train it again"
    )


def _shape(facts: Mapping[str, Any]) -> tuple[int, int, int]:
    """Height, width and channels of images, as the metadata have them."""
    shape = facts["shape"]
    if (
        not isinstance(shape, list)
        or len(shape) != 3
        or any(type(size) is not int or size < 1 for size in shape)
        or math.prod(shape) > MOST_PIXELS
    ):
        raise ValueError(f"{WEIGHTS} says that images have the shape {shape}")
    height, width, channels = shape
    return height, width, channels


def _diverged_at(facts: Mapping[str, Any]) -> int:
    step = facts["diverged_at"]
    if type(step) is not int or not -1 <= step < 2**63:
        raise ValueError(f"{WEIGHTS} says that the model diverged at step {step}")
    return step


def _check_layout(networks: Mapping[str, Network], layout: Layout, num_members: int) -> None:
    """Whether a file has the weights of these networks, before any of them is read."""
    wanted = {
        f"{name}/{key}": shape
        for name, network in networks.items()
        for key, shape in network.shapes.items()
    }
    for key, shape in wanted.items():
        if key not in layout:
            raise ValueError(f"{WEIGHTS} has no {key}")
        kind, found = layout[key]
        got = found[len(found) - len(shape) :]  # without an axis for members
        if got != shape or len(found) > len(shape) + 1:
            raise ValueError(f"{key} is {list(got)}, but its settings want {list(shape)}")
        # A network that all members share has one row.
        _check_members(found[0] if len(found) > len(shape) else 1, [num_members, 1])
        if kind != torch.float32:
            raise ValueError(f"{key} is not float32")
    if len(layout) > len(wanted):
        raise ValueError(f"{WEIGHTS} has {len(layout)} parameters in place of {len(wanted)}")


def _rows(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A parameter of one model with an axis for its members, even of one."""
    return value if value.ndim > len(shape) else value[None]


def _check_members(found: int, expected: Sequence[int]) -> None:
    if found not in expected:
        raise ValueError(f"{found} members in place of {expected[0]}")


def finite_losses(row: Mapping[str, Any]) -> dict[str, float]:
    """The losses in a row of a curve, without its run, its step and what is of single latents.

    Example:
        >>> finite_losses({"run": "0f3a", "step": 100, "loss": 41.5, "kl": math.nan})
        {'loss': 41.5}
    """
    losses = {name: value for name, value in row.items() if not BESIDE.fullmatch(name)}
    return {n: float(v) for n, v in losses.items() if v is not None and math.isfinite(v)}
