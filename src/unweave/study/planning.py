"""Estimates of the fleets, training time and disk space that a study needs."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch

from unweave.errors import UnweaveError
from unweave.fleet.capacity import fleet_sizes
from unweave.fleet.continuation import continued
from unweave.io.arguments import renamed_attribute
from unweave.models.config import Config, group_into_fleets
from unweave.models.networks import disk_bytes, num_parameters
from unweave.nets.device import chosen_device
from unweave.study.ledger import OPEN, Ledger
from unweave.study.remote import open_store
from unweave.study.store import LEDGER
from unweave.study.study import Study, read
from unweave.text import counted

__all__ = [
    "Part",
    "Plan",
    "device_name",
    "model_bytes",
    "plan",
    "seconds_per_step",
    "trains_mixed_fleets",
]

Shape: TypeAlias = tuple[int, int, int]

CPU_MODEL_BYTES = 62e6
GPU_MICROSECONDS = {"factor_vae": (102.4, 117.3), "beta_tc_vae": (48.5, 61.3)}
"""Time per step of one model with batch size 64 on an H200 in bf16, for one and three channels
(`benchmarks/results`); other methods take about as long as the β-VAE."""
BETA_VAE_MICROSECONDS = (45.3, 58.1)
SLOWER = {"bf16": 1.0, "tf32": 2.0, "float32": 5.0}
CPU_SECONDS, CPU_SECONDS_PER_BATCH, CPU_SECONDS_OF_DISCRIMINATOR = 0.022, 0.053, 0.045
"""Time per step of one model on two cores, one of which scores other models: fixed part, part for
64 images of 64 × 64, and part for FactorVAE's discriminator."""
PIXELS, BATCH = 64 * 64, 64
GPU_MODEL_BYTES = 80e6
BASE_PARAMETERS = 1e6
"""Number of parameters of the models for which the constants above were measured."""
GPU_SECONDS_PER_PARAMETER, GPU_BYTES_PER_PARAMETER = 17e-12, 38
"""Time and memory for each further parameter, measured with eight second stages of 80 million
parameters each (`benchmarks/results/stages_h200.json`)."""
DENSE, DENSE_BYTES = 0.165, 0.08
"""Time and memory of dense layers relative to convolutions for the same images, without the cost
of their parameters (`benchmarks/results/isa_2048_h200.json`)."""


@dataclass(frozen=True)
class Part:
    """Unfinished runs on one data set that can share fleets."""

    data: str  # name of the data set
    method: str  # names of the methods
    models: int  # number of models
    fleets: Sequence[int]  # number of models in each fleet
    seconds: float  # training time in seconds if fleets are trained one after another
    disk: int  # disk space in bytes


@dataclass(frozen=True)
class Plan:
    """Estimated cost of a study.

    Args:
        name: Name of the study.
        device: Name of the device.
        parts: Runs that are still to be trained, longest first.
        done: Number of runs that are already trained.
        errors: Error message for each data set that cannot be opened.
        measured: Whether times are based on measurements in this study on this kind of device.
    """

    name: str
    device: str
    parts: Sequence[Part]
    done: int
    errors: dict[str, str]
    measured: bool
    met = renamed_attribute("met", "measured")

    @property
    def models(self) -> int:
        """Number of models that are still to be trained."""
        return sum(part.models for part in self.parts)

    @property
    def seconds(self) -> float:
        """Training time in seconds."""
        return sum(part.seconds for part in self.parts)

    @property
    def disk(self) -> int:
        """Disk space in bytes."""
        return sum(part.disk for part in self.parts)

    def __str__(self) -> str:
        rows = [("data", "method", "models", "fleets", "time", "disk")]
        rows += [
            (p.data, p.method, f"{p.models:,}", _fleets(p.fleets), _time(p.seconds), _size(p.disk))
            for p in self.parts
        ]
        count = sum(len(part.fleets) for part in self.parts)
        rows.append(
            ("total", "", f"{self.models:,}", f"{count}", _time(self.seconds), _size(self.disk))
        )
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if k < 2 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        known = "measured in this study" if self.measured else "estimated from benchmarks"
        done = f"; {counted(self.done, 'run')} already trained" if self.done else ""
        lines.append(f"{self.name} on {self.device}; times {known}{done}")
        lines += [f"skipping {name}: {error}" for name, error in self.errors.items()]
        return "\n".join(lines)


def plan(
    study: Study | str | Path,
    folder: str | Path | None = None,
    device: str | torch.device | None = None,
    fleet_size: int | None = None,
) -> Plan:
    """Estimate the cost of training a study; nothing is trained or written.

    Args:
        study: A study, or the path of a study file.
        folder: Folder or URL of the study if it has been started; finished runs are not counted.
        device: Device to train on (default: a GPU if available).
        fleet_size: Number of models to train at once (default: about as many as fit).
    """
    study = study if isinstance(study, Study) else read(study)
    device = chosen_device(device)
    store = None if folder is None else open_store(folder)
    begun = store is not None and (store.folder / LEDGER).exists()
    ledger = store.ledger if store is not None and begun else None
    done: set[str] = set()
    if ledger is not None:
        table = ledger.table()
        done = set(table.loc[~table["state"].isin([*OPEN, "failed"]), "run"])
    parts, errors, finished = [], {}, 0
    for source in study.sources:
        try:
            runs = study.runs_on(source)
            left = [config for config in runs if config.hash not in done]
            finished += len(runs) - len(left)
            for configs in group_into_fleets(left, mixed=trains_mixed_fleets(device)):
                largest = max(configs, key=lambda config: model_bytes(config, source.shape))
                size = fleet_size or _fits(largest, source.shape, device)
                each = {
                    config.kind: seconds_per_step(config, source.shape, device, ledger)
                    for config in {config.kind: config for config in configs}.values()
                }
                saved = {} if store is None else continued(configs, store.runs)
                steps = {config: config.steps for config in configs}
                steps |= {
                    config: config.steps - saved[config.hash].steps
                    for config in configs
                    if config.hash in saved
                }
                parts.append(
                    Part(
                        source.name,
                        ", ".join(dict.fromkeys(config.method.name for config in configs)),
                        len(configs),
                        fleet_sizes(len(configs), size),
                        sum(count * each[config.kind] for config, count in steps.items()),
                        sum(
                            disk_bytes(config, source.shape, keep_optimiser=study.keep_optimiser)
                            for config in configs
                        ),
                    )
                )
        except UnweaveError as error:
            errors[source.name] = str(error)
    parts.sort(key=lambda part: -part.seconds)
    name = device_name(device)
    measured = ledger is not None and bool(ledger.speeds(name))
    return Plan(study.name, name, parts, finished, errors, measured)


def trains_mixed_fleets(device: torch.device) -> bool:
    """Whether runs of several methods share fleets on a device.

    On a CPU, each model is trained separately, so fleets of one method lose nothing, and the first
    models are scored earlier.
    """
    return device.type == "cuda"


def _fits(config: Config, shape: Shape, device: torch.device) -> int:
    """Estimate how many models fit in memory; training measures it."""
    if device.type == "cuda":
        free = 0.9 * torch.cuda.mem_get_info(device)[0]
        return max(1, int(free / model_bytes(config, shape)))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, int(0.5 * memory / CPU_MODEL_BYTES))


def _fleets(sizes: Sequence[int]) -> str:
    return f"{len(sizes)} × {max(sizes)}" if sizes else "0"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def _size(count: float) -> str:
    return f"{count / 1e6:,.0f} MB" if count < 1e9 else f"{count / 1e9:,.1f} GB"


def device_name(device: torch.device) -> str:
    """Name of the kind of device, under which measured speeds are stored."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()}, {torch.get_num_threads()} threads"


def seconds_per_step(
    config: Config,
    shape: Shape,
    device: torch.device,
    ledger: Ledger | None = None,
) -> float:
    """Seconds per step of one model in a large fleet, from this study's ledger or benchmarks."""
    measured = {} if ledger is None else ledger.speeds(device_name(device))
    if config.kind in measured:
        return measured[config.kind]
    size = _work(config, shape)
    if device.type == "cpu":
        second = CPU_SECONDS_OF_DISCRIMINATOR if config.method.name == "factor_vae" else 0.0
        return CPU_SECONDS + CPU_SECONDS_PER_BATCH * size + second
    grey, colour = GPU_MICROSECONDS.get(config.method.name, BETA_VAE_MICROSECONDS)
    images = (grey if shape[2] == 1 else colour) * 1e-6 * size
    if _dense(config):
        images *= DENSE
    large = GPU_SECONDS_PER_PARAMETER * _unusual_parameters(config, shape)
    return (images + large) * SLOWER[config.precision]


def model_bytes(config: Config, shape: Shape) -> float:
    """Approximate GPU memory that a model needs during training, in bytes."""
    images = GPU_MODEL_BYTES * _work(config, shape) * (DENSE_BYTES if _dense(config) else 1)
    return images + GPU_BYTES_PER_PARAMETER * _unusual_parameters(config, shape)


def _work(config: Config, shape: Shape) -> float:
    """Work per step relative to encoding and decoding 64 images of 64 × 64 pixels once.

    An ensemble of n members encodes n times and decodes n² times.
    """
    n = config.method.num_members
    return shape[0] * shape[1] / PIXELS * config.batch / BATCH * (n + n**2) / 2


def _dense(config: Config) -> bool:
    return config.architecture.endswith("mlp")


def _unusual_parameters(config: Config, shape: Shape) -> float:
    return max(0.0, num_parameters(config, shape) - BASE_PARAMETERS * config.method.num_members)
