"""Files of a saved model: a folder that is written atomically.

    config.json            settings of the run
    weights.safetensors    parameters by name
    curve.parquet          losses during training
    optimiser.safetensors  optional: moments of Adam, from which training can continue
    SHA256SUMS             checksums of these files, in the format of `sha256sum --check`

Every file is verified against its checksum before use. The parameters of an ensemble of n members
have the shape `[n, …]`. Saving the same model always gives the same bytes. Compact files hold
bfloat16 weights and no networks that are used in training only.
"""

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
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
from unweave.models.rotation import AppliedRotation
from unweave.nets.network import StackedNetwork

if TYPE_CHECKING:
    from unweave.models.model import Model

__all__ = [
    "BEST",
    "CONFIG",
    "CURVE",
    "FILES",
    "FIRST_MOMENT",
    "OPTIMISER",
    "RAW_WEIGHTS",
    "RUNS",
    "SECOND_MOMENT",
    "SUMS",
    "UNREADABLE",
    "WEIGHTS",
    "State",
    "describe_error",
    "diverged_at",
    "fill",
    "intact",
    "last_losses",
    "read",
    "read_config",
    "read_curve",
    "read_settings",
    "read_state",
    "state_kinds",
    "write",
]

CONFIG, WEIGHTS, CURVE = "config.json", "weights.safetensors", "curve.parquet"
FILES = (CONFIG, WEIGHTS, CURVE)
OPTIMISER = "optimiser.safetensors"
FIRST_MOMENT, SECOND_MOMENT, RAW_WEIGHTS = "first", "second", "weights"
"""Kinds of values in this file. If the weights of a model are moving averages, the file also has
the weights themselves."""
State = Mapping[str, Mapping[str, Tensor]]
"""State of an optimiser: values by kind and network, `[n, P]` each for n members."""
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


def write(
    model: "Model",
    folder: Path,
    compact: bool = False,
    state: State | None = None,
) -> None:
    """Write a model into a new folder.

    Args:
        model: The model.
        folder: New folder.
        compact: Whether to round and omit weights; see `Model.save`.
        state: State of the optimiser, to be saved as well.
    """
    with whole_folder(folder) as temporary:
        fill(temporary, model, compact)
        if state is not None:
            named: dict[str, Tensor] = {}
            for kind, buffers in state.items():
                parts = replace(model, parameters=buffers).named_parameters()
                named |= {f"{name}/{kind}": value for name, value in parts.items()}
            write_tensors(temporary / OPTIMISER, named, {"steps": model.config.steps})
        write_sums(temporary, FILES if state is None else (*FILES, OPTIMISER))


def fill(folder: Path, model: "Model", compact: bool = False) -> None:
    """Write the files of a model into a folder, without their checksums."""
    text = json.dumps(model.config.to_dict(), indent=1)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    facts: dict[str, Any] = {"shape": list(model.shape), "diverged_at": int(model.diverged_at[0])}
    (rotation,) = model.rotations or (None,)
    if rotation is not None:
        facts["rotation"] = rotation._asdict()
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
) -> tuple[
    Config, tuple[int, int, int], dict[str, Tensor], pd.DataFrame, int, AppliedRotation | None
]:
    """Read the files of a model and check them against the networks of its run.

    Returns:
        Config, shape of images, parameters by network (`[n, P]` for n members), curve, the step at
        which the model diverged, or -1, and the rotation of its codes, if any.
    """
    try:
        verify(folder, FILES)
        config = read_config(folder, method)
        with open_tensors(folder / WEIGHTS, device) as file:
            shape, diverged = _shape(file.facts), _diverged_at(file.facts)
            rotation = AppliedRotation.read(file.facts.get("rotation"))
            networks = _saved_networks(config, shape, file.layout)
            _check_layout(networks, file.layout, config.method.num_members)
            weights = file.tensors()
        parameters = _packed(networks, weights)
        _check_members(len(parameters[next(iter(networks))]), [config.method.num_members])
        if diverged < 0 and not all(bool(v.isfinite().all()) for v in parameters.values()):
            raise ValueError("weights are not finite, but the model is not marked as diverged")
        curve = read_curve(folder)
    except UNREADABLE as error:
        raise UnweaveError(describe_error(folder, error), subject=folder) from error
    return config, shape, parameters, curve, diverged, rotation


def state_kinds(config: Config) -> tuple[str, ...]:
    """Return the kinds of values in the optimiser state of a run."""
    return (FIRST_MOMENT, SECOND_MOMENT, *[RAW_WEIGHTS] * (config.optimiser.ema > 0))


def read_state(
    folder: Path, config: Config, shape: tuple[int, int, int], trained: Collection[str]
) -> State:
    """Read the optimiser state of a saved run.

    Args:
        folder: Folder of the run.
        config: Config of the run.
        shape: Shape of its images.
        trained: Names of the networks that are trained.
    """
    every, kinds = networks_by_name(config, shape), state_kinds(config)
    networks = {name: every[name] for name in trained}
    try:
        verify(folder, [OPTIMISER])
        with open_tensors(folder / OPTIMISER) as file:
            _check_layout(networks, file.layout, config.method.num_members, OPTIMISER, kinds)
            values = file.tensors()
        state = {kind: _packed(networks, values, f"/{kind}") for kind in kinds}
        if not all(bool(v.isfinite().all()) for part in state.values() for v in part.values()):
            raise ValueError("its values are not finite")
        if any(bool((value < 0).any()) for value in state[SECOND_MOMENT].values()):
            raise ValueError("mean squares are negative")
    except UNREADABLE as error:
        raise UnweaveError(
            f"the optimiser state in {folder / OPTIMISER} is damaged ({_reason(error)}); restore "
            "it from a copy, or remove the file to train from the start",
            subject=folder / OPTIMISER,
        ) from error
    return state


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
    return (
        f"the model in {folder} is damaged ({_reason(error)}); restore it from a copy, or remove "
        "the folder and train it again"
    )


def _reason(error: Exception) -> str:
    """Return the message of an error in one line of limited length."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}…"


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
    networks: Mapping[str, StackedNetwork],
    layout: Layout,
    num_members: int,
    file: str = WEIGHTS,
    kinds: Sequence[str] = (),
) -> None:
    """Check that a file has the weights of these networks, before reading any of them.

    Args:
        networks: Networks by name.
        layout: Types and shapes of the tensors in the file.
        num_members: Number of members of the model.
        file: Name of the file.
        kinds: Kinds of values that the file has instead of weights.
    """
    wanted = {
        f"{name}/{key}{kind}": shape
        for name, network in networks.items()
        for key, shape in network.shapes.items()
        for kind in ([f"/{kind}" for kind in kinds] or [""])
    }
    types = WEIGHT_TYPES[:1] if kinds else WEIGHT_TYPES
    for key, shape in wanted.items():
        if key not in layout:
            raise ValueError(f"{file} has no {key}")
        kind, found = layout[key]
        got = found[len(found) - len(shape) :]  # without the member axis
        if got != shape or len(found) > len(shape) + 1:
            raise ValueError(f"{key} must have the shape {list(shape)}, got {list(got)}")
        # A network shared by all members has one row.
        _check_members(found[0] if len(found) > len(shape) else 1, [num_members, 1])
        if kind not in types:
            names = " or ".join(str(one).removeprefix("torch.") for one in types)
            raise ValueError(f"{key} must be {names}, got {kind}")
    if len(layout) > len(wanted):
        raise ValueError(f"{file} must have {len(wanted)} parameters, got {len(layout)}")


def _packed(
    networks: Mapping[str, StackedNetwork], values: Mapping[str, Tensor], suffix: str = ""
) -> dict[str, Tensor]:
    """Return the values of each network in one buffer, float32 `[n, P]`."""
    return {
        name: network.packed(
            {
                key: _rows(values[f"{name}/{key}{suffix}"].float(), of)
                for key, of in network.shapes.items()
            }
        )
        for name, network in networks.items()
    }


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
