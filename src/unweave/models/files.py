"""Files of a saved model: a folder that is written atomically.

    config.json          settings of the run
    weights.safetensors  parameters by name
    curve.parquet        losses during training
    SHA256SUMS           checksums of these files, in the format of `sha256sum --check`

Every file is verified against its checksum before use. The parameters of an ensemble of n members
have the shape `[n, …]`. Saving the same model always gives the same bytes. Compact files hold
bfloat16 weights and no networks that are used in training only.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from unweave.models.networks import networks_by_name, training_only
from unweave.nets.network import StackedNetwork

if TYPE_CHECKING:
    from unweave.models.model import Model

__all__ = [
    "BEST",
    "CONFIG",
    "CURVE",
    "FILES",
    "RUNS",
    "SUMS",
    "UNREADABLE",
    "WEIGHTS",
    "describe_error",
    "diverged_at",
    "fill",
    "intact",
    "last_losses",
    "read",
    "read_config",
    "read_curve",
    "read_settings",
    "write",
]

CONFIG, WEIGHTS, CURVE = "config.json", "weights.safetensors", "curve.parquet"
FILES = (CONFIG, WEIGHTS, CURVE)
RUNS, BEST = "runs", "best"
"""Subfolders of a study or fit: all models, and a copy of the chosen model."""
NON_LOSS_COLUMNS = re.compile(r"run|step|kl_\d+")
"""Columns of a curve that are not losses."""
MAX_VALUES = 1 << 28
"""Largest number of values (pixels times channels) in an image."""
MAX_LOSS = float(np.finfo(np.float32).max)
"""Largest loss that float32 can represent."""
WEIGHT_TYPES = (torch.float32, torch.bfloat16)
MAX_REASON = 300
"""Largest number of characters of a reason in an error message."""
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # torch, for sizes that are too large
    MemoryError,
)
"""Exceptions that reading the files of a model may raise."""


def write(model: "Model", folder: Path, compact: bool = False) -> None:
    """Write a model into a new folder."""
    with whole_folder(folder) as temporary:
        fill(temporary, model, compact)
        write_sums(temporary, FILES)


def fill(folder: Path, model: "Model", compact: bool = False) -> None:
    """Write the files of a model into a folder, without their checksums."""
    text = json.dumps(model.config.to_dict(), indent=1)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    facts = {"shape": list(model.shape), "diverged_at": int(model.diverged_at[0])}
    parameters = model.named_parameters()
    if compact:
        omitted = training_only(model.config)
        parameters = {
            name: value.to(torch.bfloat16)
            for name, value in parameters.items()
            if name.rpartition("/")[0] not in omitted
        }
    write_tensors(folder / WEIGHTS, parameters, facts)
    model.curve.to_parquet(folder / CURVE, index=False)


def read(
    folder: Path, device: str | torch.device, method: type[Method] | None
) -> tuple[Config, tuple[int, int, int], dict[str, Tensor], pd.DataFrame, int]:
    """Read the files of a model and check them against the networks of its run.

    Returns:
        Config, shape of images, parameters by network (`[n, P]` for n members), curve, and the
        step at which the model diverged, or -1.
    """
    try:
        verify(folder, FILES)
        config = read_config(folder, method)
        with open_tensors(folder / WEIGHTS, device) as file:
            shape, diverged = _shape(file.facts), _diverged_at(file.facts)
            networks = _saved_networks(config, shape, file.layout)
            _check_layout(networks, file.layout, config.method.num_members)
            weights = file.tensors()
        parameters = {
            name: network.packed(
                {
                    key: _rows(weights[f"{name}/{key}"].float(), of)
                    for key, of in network.shapes.items()
                }
            )
            for name, network in networks.items()
        }
        _check_members(len(parameters[next(iter(networks))]), [config.method.num_members])
        if diverged < 0 and not all(bool(v.isfinite().all()) for v in parameters.values()):
            raise ValueError("weights are not finite, but the model is not marked as diverged")
        curve = read_curve(folder)
    except UNREADABLE as error:
        raise UnweaveError(describe_error(folder, error), subject=folder) from error
    return config, shape, parameters, curve, diverged


def read_config(folder: Path, method: type[Method] | None = None) -> Config:
    """Return the config of a saved model; raises `UNREADABLE` errors or an `UnweaveError`."""
    return Config.from_dict(read_settings(folder), method)


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the config of a saved model as plain data; raises errors in `UNREADABLE`."""
    verify(folder, [CONFIG])
    try:
        plain = read_json(folder / CONFIG)
    except ValueError as error:
        raise ValueError(f"cannot read {CONFIG}: {error}") from error
    if not isinstance(plain, dict):
        raise TypeError(f"{CONFIG} does not contain the settings of a run")
    name = folder.absolute().name
    # Hash the data as written, since a later version may know more settings.
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    run = hashlib.sha256(text.encode()).hexdigest()[:16]
    if RUN_NAME.fullmatch(name) and name != run:
        raise ValueError(f"its config belongs to run {run}, not to the run in the folder name")
    return plain


def read_curve(folder: Path) -> pd.DataFrame:
    """Return the losses during training; raises errors in `UNREADABLE`."""
    verify(folder, [CURVE])
    curve = read_table(folder / CURVE)
    for name in ("run", "step"):
        if name not in curve:
            raise ValueError(f"{CURVE} has no column {name!r}")
    numbers = curve.select_dtypes("number").to_numpy(np.float64)
    if (np.abs(numbers[np.isfinite(numbers)]) > MAX_LOSS).any():
        raise ValueError(f"{CURVE} has values that float32 cannot represent")
    return curve


def diverged_at(folder: Path) -> int:
    """Return the step at which a saved model diverged, or -1, without reading its weights.

    Raises errors in `UNREADABLE`.
    """
    with open_tensors(folder / WEIGHTS) as file:
        if not file.checked:
            verify(folder, [WEIGHTS])
        return _diverged_at(file.facts)


def intact(folder: Path) -> bool:
    """Return whether the files of a saved model match their checksums."""
    try:
        verify(folder, FILES)
    except (OSError, ValueError):
        return False
    return True


def describe_error(folder: Path, error: Exception) -> str:
    """Return an error message for a folder that cannot be read as a model."""
    if isinstance(error, FileNotFoundError):
        # Check the folder, since not every error names the file.
        missing = [name for name in (*FILES, SUMS) if not (folder / name).exists()]
        if missing == [SUMS]:
            return (
                f"cannot verify the model in {folder}: {SUMS} is missing; copy it as well, "
                f"or, if you trust the files, run `sha256sum {' '.join(FILES)} > {SUMS}` there"
            )
        what = missing[0] if missing else "a file"
        return f"{folder} is not a model: {what} is missing; use the folder of a saved model"
    if isinstance(error, ExtensionError):
        return str(error)
    reason = " ".join(str(error).split()) or type(error).__name__
    if len(reason) > MAX_REASON:
        reason = f"{reason[:MAX_REASON]}…"
    return (
        f"the model in {folder} is damaged ({reason}); restore it from a copy, or remove the "
        "folder and train it again"
    )


def _shape(facts: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return height, width and channels of images from the metadata."""
    shape = facts["shape"]
    if (
        not isinstance(shape, list)
        or len(shape) != 3
        or any(type(size) is not int or size < 1 for size in shape)
        or math.prod(shape) > MAX_VALUES
    ):
        raise ValueError(f"{WEIGHTS} has an invalid image shape: {shape}")
    height, width, channels = shape
    return height, width, channels


def _diverged_at(facts: Mapping[str, Any]) -> int:
    step = facts["diverged_at"]
    if type(step) is not int or not -1 <= step < 2**63:
        raise ValueError(f"{WEIGHTS} has an invalid diverged_at: {step}")
    return step


def _saved_networks(
    config: Config, shape: tuple[int, int, int], layout: Layout
) -> dict[str, StackedNetwork]:
    """Return the networks of a run, without those that its file omits because it is compact."""
    saved = {name.rpartition("/")[0] for name in layout}
    omitted = set(training_only(config)) - saved
    networks = networks_by_name(config, shape)
    return {name: network for name, network in networks.items() if name not in omitted}


def _check_layout(
    networks: Mapping[str, StackedNetwork], layout: Layout, num_members: int
) -> None:
    """Check that a file has the weights of these networks, before reading any of them."""
    wanted = {
        f"{name}/{key}": shape
        for name, network in networks.items()
        for key, shape in network.shapes.items()
    }
    for key, shape in wanted.items():
        if key not in layout:
            raise ValueError(f"{WEIGHTS} has no {key}")
        kind, found = layout[key]
        got = found[len(found) - len(shape) :]  # without the member axis
        if got != shape or len(found) > len(shape) + 1:
            raise ValueError(f"{key} must have the shape {list(shape)}, got {list(got)}")
        # A network shared by all members has one row.
        _check_members(found[0] if len(found) > len(shape) else 1, [num_members, 1])
        if kind not in WEIGHT_TYPES:
            raise ValueError(f"{key} must be float32 or bfloat16, got {kind}")
    if len(layout) > len(wanted):
        raise ValueError(f"{WEIGHTS} must have {len(wanted)} parameters, got {len(layout)}")


def _rows(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Add the member axis to a parameter if it is missing."""
    return value if value.ndim > len(shape) else value[None]


def _check_members(found: int, expected: Sequence[int]) -> None:
    if found not in expected:
        raise ValueError(f"weights must have {expected[0]} members, got {found}")


def last_losses(curve: pd.DataFrame | None) -> dict[str, float]:
    """Return the last losses of a curve that are finite, without values per latent.

    Example:
        >>> last_losses(pd.DataFrame({"run": "0f3a", "step": [100], "loss": 41.5, "kl": math.nan}))
        {'loss': 41.5}
    """
    row = {} if curve is None or curve.empty else curve.iloc[-1].to_dict()
    losses = {str(name): v for name, v in row.items() if not NON_LOSS_COLUMNS.fullmatch(str(name))}
    return {n: float(v) for n, v in losses.items() if v is not None and math.isfinite(v)}
