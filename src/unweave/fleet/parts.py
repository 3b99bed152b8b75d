"""Parts of a fleet: runs of one kind, which share a stacked method.

Most fleets have a single part. In a fleet of several parts, encoders and decoders of all models
are computed together (`unweave.fleet.joint`), and each part evaluates its own objective.

Shapes: M models in the fleet, N images in the data set, K known factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unweave.data.dataset import Dataset, scaled_factors
from unweave.methods import Method
from unweave.methods.base import MODEL
from unweave.methods.mixins import Auxiliary, KnownFactors
from unweave.models.config import Config
from unweave.models.networks import networks_of
from unweave.nets.network import StackedNetwork

__all__ = ["SHARED", "Part", "parts_of", "split_networks"]

SHARED = ("encoder", "decoder")
"""Networks that all parts of a fleet share, if it has several."""


@dataclass(frozen=True, eq=False)
class Part:
    """Runs of one kind: consecutive models of a fleet.

    Args:
        configs: Runs.
        models: Their indices in the fleet.
        method: Their methods, stacked.
        earlier_methods: Stacked methods of earlier stages, latest first.
        groups: Network groups of the fleet that hold each network group of the method.
        factors: Known factors of all images, `[N, K]`, for methods that use them.
    """

    configs: Sequence[Config]
    models: slice
    method: Method
    earlier_methods: Sequence[Method]
    groups: Mapping[str, Sequence[str]]
    factors: Tensor | None

    @property
    def config(self) -> Config:
        """First run, for the settings that all runs share."""
        return self.configs[0]

    def of_one(self, place: int, device: torch.device) -> "Part":
        """Return a part that consists only of one run of this part."""
        configs = self.configs[place : place + 1]
        method, *earlier = stacked_methods(configs, device)
        return replace(
            self, configs=configs, models=slice(0, 1), method=method, earlier_methods=earlier
        )


def parts_of(configs: Sequence[Config], data: Dataset, device: torch.device) -> list[Part]:
    """Divide runs, among which those of one kind are adjacent, into parts."""
    kinds: dict[str, list[Config]] = {}
    for config in configs:
        kinds.setdefault(config.kind, []).append(config)
    parts: list[Part] = []
    for index, runs in enumerate(kinds.values()):
        start = parts[-1].models.stop if parts else 0
        method, *earlier = stacked_methods(runs, device)
        parts.append(
            Part(
                runs,
                slice(start, start + len(runs)),
                method,
                earlier,
                {
                    group: list(split_networks(group, own, index if len(kinds) > 1 else None))
                    for group, own in networks_of(runs[0], data.shape).items()
                },
                _known_factors(runs[0], data),
            )
        )
    return parts


def split_networks(
    group: str, networks: Mapping[str, StackedNetwork], index: int | None
) -> dict[str, dict[str, StackedNetwork]]:
    """Divide a network group of a method into groups of the fleet.

    Args:
        group: Name of the group.
        networks: Networks of the group.
        index: Index of the part, or None if the fleet has only one.
    """
    if index is None:
        return {group: dict(networks)}
    shared = {name: networks[name] for name in SHARED if group == MODEL and name in networks}
    own = {name: network for name, network in networks.items() if name not in shared}
    groups = {MODEL: shared, f"{index}/{group}": own}
    return {name: networks for name, networks in groups.items() if networks}


def stacked_methods(configs: Sequence[Config], device: torch.device) -> list[Method]:
    """Return the stacked method of runs of one kind, then of earlier stages, latest first."""
    stacked, runs = [], list(configs)
    while runs:
        methods = [run.method for run in runs]
        stacked.append(type(methods[0]).stack(methods, device))
        runs = [run.first for run in runs if run.first is not None]
    return stacked


def _known_factors(config: Config, data: Dataset) -> Tensor | None:
    if isinstance(config.method, Auxiliary):
        return config.method.classes_in(data)[:, None].to(data.device)
    run: Config | None = config
    while run is not None:
        if isinstance(run.method, KnownFactors):
            return scaled_factors(data, run.method.factor_names)
        run = run.first
    return None
