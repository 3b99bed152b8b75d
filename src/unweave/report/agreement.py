"""What was found of trained models: who agrees with whom, on what, and which one to keep.

Models that learned from the same data, with equally many latents, can be compared: they are a
part of the report. Shapes: M models of a part, n images, d latents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch

from unweave.analysis.activity import Activity
from unweave.data.dataset import Dataset
from unweave.io.arrays import on_host
from unweave.models.model import Model
from unweave.report.labels import flat
from unweave.report.subject import Given
from unweave.select import Consensus, Latents, UDRScores

__all__ = ["Findings", "Part", "settings_of"]


@dataclass(eq=False)
class Part:
    """Models that can be compared, and what comparing them says.

    Args:
        name: Of their data.
        origin: How these were made.
        runs: The models, as in the table.
        data: The data; None where they cannot be had.
        missing: Why not.
        note: What is to be said of the data besides.
        compared: The models that were compared, in the order of what follows.
        latents: Their codes.
        activity: Of the latents of each; None where a model has no codes.
        udr: UDR of every model and pair.
        mcc: How far matched latents of two models correlate, `[M, M]`.
        agreed: The factors that they share.
        chosen: The model to keep.
        why: Why this one.
        follows: For each shared factor, which known factor it follows and how closely.
        images_of: The numbers of the images on which they were compared, `[n]`.
    """

    name: str
    origin: Sequence[Any]
    runs: list[str]
    data: Dataset | None = None
    missing: str = ""
    note: str = ""
    compared: list[str] = field(default_factory=list)
    latents: Latents | None = None
    activity: Sequence[Activity | None] = ()
    udr: UDRScores | None = None
    mcc: np.ndarray | None = None
    agreed: Consensus | None = None
    chosen: str | None = None
    why: str = ""
    follows: list[tuple[str, float]] = field(default_factory=list)
    images_of: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @cached_property
    def classes(self) -> Mapping[str, np.ndarray]:
        """Of these images the classes of each factor that is known, `[n]` each."""
        known = None if self.data is None else self.data.grid or self.data.labels
        if known is None or self.data is None:
            return {}
        columns = on_host(self.data.factors(self.images_of)).T
        return dict(zip(known.names, columns, strict=True))

    @property
    def num_compared(self) -> int:
        """Models that were really compared with others: not those that diverged."""
        return 0 if self.latents is None else int(self.latents.usable.sum())

    @property
    def num_images(self) -> int:
        """On how many images they were compared."""
        return 0 if self.latents is None else int(self.latents.means.shape[1])


@dataclass(eq=False)
class Findings:
    """Everything that the page says.

    Args:
        given: What the report is about.
        table: The study table, with the columns `udr`, `active`, `found` and `front` besides.
        names: A name for each run, in words.
        parts: The parts of the report.
        trouble: Runs about which something is to be said: run, state, what.
        device: Where models are opened.
    """

    given: Given
    table: pd.DataFrame
    names: dict[str, str]
    parts: list[Part]
    trouble: list[tuple[str, str, str]]
    device: torch.device

    def open(self, run: str) -> Model:
        """The model of a run, where it is to work."""
        return self.given.model(run).to(self.device)

    def part_of(self, run: str) -> Part:
        """Where a run belongs."""
        return next(part for part in self.parts if run in part.runs)


def settings_of(given: Given) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The settings that all models share, and the values of those that vary."""
    plain = [flat(given.configs[run]) for run in given.table["run"]]
    values: dict[str, list[Any]] = {}
    for settings in plain:
        for name, value in settings.items():
            values.setdefault(name, [])
            if value not in values[name]:
                values[name].append(value)
    everywhere = {name for name in values if all(name in settings for settings in plain)}
    same = {n: v[0] for n, v in values.items() if len(v) == 1 and n in everywhere}
    return same, {n: v for n, v in values.items() if n not in same}
