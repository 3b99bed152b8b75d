"""What a study would take: fleets, models, hours and disk, before anything starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unweave.errors import UnweaveError
from unweave.fleet.capacity import shares
from unweave.models.config import Config, group_into_fleets
from unweave.models.size import disk_bytes
from unweave.nets.device import chosen_device
from unweave.study.estimate import device_name, model_bytes, seconds_per_step
from unweave.study.ledger import OPEN
from unweave.study.remote import open_store
from unweave.study.store import LEDGER
from unweave.study.study import Source, Study
from unweave.study.study_file import read

__all__ = ["Part", "Plan", "plan"]

CPU_MODEL_BYTES = 62e6


@dataclass(frozen=True)
class Part:
    """The runs of one method on one data set that can share fleets.

    Args:
        data: The data set.
        method: The method.
        models: How many are still to be trained.
        fleets: How many models each fleet takes.
        seconds: How long they take, one fleet after the other.
        disk: How many bytes they will take.
    """

    data: str
    method: str
    models: int
    fleets: Sequence[int]
    seconds: float
    disk: int


@dataclass(frozen=True)
class Plan:
    """What a study would take.

    Args:
        name: The study's.
        device: On what.
        parts: What is still to be trained, longest first.
        done: How many runs are trained already.
        errors: For each data set that cannot be had, why.
        met: Whether times are those that this study met on this kind of device.
    """

    name: str
    device: str
    parts: Sequence[Part]
    done: int
    errors: dict[str, str]
    met: bool

    @property
    def models(self) -> int:
        """How many models are still to be trained."""
        return sum(part.models for part in self.parts)

    @property
    def seconds(self) -> float:
        """How long that takes."""
        return sum(part.seconds for part in self.parts)

    @property
    def disk(self) -> int:
        """How many bytes they will take."""
        return sum(part.disk for part in self.parts)

    def __str__(self) -> str:
        rows = [("data", "method", "models", "fleets", "time", "disk")]
        rows += [
            (p.data, p.method, f"{p.models:,}", _fleets(p.fleets), _time(p.seconds), _size(p.disk))
            for p in self.parts
        ]
        count = sum(len(part.fleets) for part in self.parts)
        rows.append(
            ("sum", "", f"{self.models:,}", f"{count}", _time(self.seconds), _size(self.disk))
        )
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if k < 2 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        known = "as met in this study" if self.met else "estimated from benchmarks"
        done = f"; {self.done:,} runs are trained already" if self.done else ""
        lines.append(f"{self.name} on {self.device}; times {known}{done}")
        lines += [f"without {name}: {error}" for name, error in self.errors.items()]
        return "\n".join(lines)


def plan(
    study: Study | str | Path,
    folder: str | Path | None = None,
    device: str | torch.device | None = None,
    fleet_size: int | None = None,
) -> Plan:
    """What training a study would take; nothing is trained or written.

    Args:
        study: A study, or a file of one.
        folder: Where it is kept, if it was begun: what is done there does not count.
        device: By default a GPU where there is one.
        fleet_size: How many models at once; by default about as many as fit.
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
            for configs in group_into_fleets(left):
                size = fleet_size or _fits(configs[0], source, device)
                each = seconds_per_step(configs[0], source.shape, device, ledger)
                parts.append(
                    Part(
                        source.name,
                        configs[0].method.name,
                        len(configs),
                        shares(len(configs), size),
                        len(configs) * configs[0].steps * each,
                        sum(disk_bytes(config, source.shape) for config in configs),
                    )
                )
        except UnweaveError as error:
            errors[source.name] = str(error)
    parts.sort(key=lambda part: -part.seconds)
    name = device_name(device)
    met = ledger is not None and bool(ledger.speeds(name))
    return Plan(study.name, name, parts, finished, errors, met)


def _fits(config: Config, source: Source, device: torch.device) -> int:
    """About how many models fit; training measures it."""
    if device.type == "cuda":
        free = 0.9 * torch.cuda.mem_get_info(device)[0]
        return max(1, int(free / model_bytes(config, source.shape)))
    import os

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
