"""Networks of a run: construction, forward functions and sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.io.paths import check_disk_space
from unweave.methods import Method
from unweave.methods.base import FIRST, MODEL, Nets, NetworkSpec, Stage
from unweave.models.config import Config
from unweave.nets.likelihoods import LIKELIHOODS, mean, mean_image
from unweave.nets.network import StackedNetwork
from unweave.text import counted

__all__ = [
    "FIRST_PREFIX",
    "applied",
    "check_disk",
    "disk_bytes",
    "nets_of",
    "networks_by_name",
    "networks_of",
    "num_parameters",
    "training_only",
]

FIRST_PREFIX = "first/"
"""Prefix of the names of the first stage's networks."""
CURVE_BYTES = 12
"""Bytes per number in a compressed curve."""
WINDOW, TERMS, SMALL_FILES = 100, 6, 8_000
CHECKPOINT_COPIES = 6
"""Arrays of the size of the parameters in the two checkpoints of a fleet: parameters and two
moments in each."""


def networks_of(
    config: Config, shape: tuple[int, int, int]
) -> dict[str, dict[str, StackedNetwork]]:
    """Build all networks of a run, by group and name."""
    below = 0 if config.first is None else config.first.code_size
    spec = NetworkSpec(config.architecture, shape, config.latents, below)
    groups = {group: dict(networks) for group, networks in config.method.networks(spec).items()}
    if config.first is not None:
        groups[FIRST] = {
            FIRST_PREFIX + name: network
            for networks in networks_of(config.first, shape).values()
            for name, network in networks.items()
        }
    return groups


def networks_by_name(config: Config, shape: tuple[int, int, int]) -> dict[str, StackedNetwork]:
    """Build all networks of a run, by name."""
    groups = networks_of(config, shape).values()
    return {name: network for group in groups for name, network in group.items()}


def training_only(config: Config) -> list[str]:
    """Return the names of the networks that encoding and decoding do not need."""
    below = [] if config.first is None else training_only(config.first)
    return [*config.method.training_only, *(FIRST_PREFIX + name for name in below)]


def nets_of(
    config: Config,
    apply: Mapping[str, Callable[..., Tensor]],
    before: Sequence[Method] | None = None,
) -> Nets:
    """Return the networks of a run as passed to its method, with those of its first stage.

    Args:
        config: Config of the run.
        apply: Forward functions by network name.
        before: Stacked methods of earlier stages, latest first (default: that of `config.first`).
    """
    own = {name: network for name, network in apply.items() if not name.startswith(FIRST_PREFIX)}
    first = None
    if config.first is not None:
        below = {
            name.removeprefix(FIRST_PREFIX): network
            for name, network in apply.items()
            if name.startswith(FIRST_PREFIX)
        }
        method, *others = before or [config.first.method]
        first = Stage(
            method,
            nets_of(config.first, below, others),
            config.first.code_size,
            partial(mean_image, config.first.likelihood),
        )
    likelihood = LIKELIHOODS[config.likelihood]
    return Nets(own, likelihood, first, config.latents, partial(mean, config.likelihood))


def applied(
    network: StackedNetwork,
    parameters: Tensor | Mapping[str, Tensor],
    dtype: torch.dtype,
    x: Tensor,
    code: Tensor | None = None,
    reference: int | None = None,
    hidden: list[Tensor] | None = None,
) -> Tensor:
    """Apply a network to inputs converted to `dtype`; uint8 images are passed unchanged.

    Hidden layers are computed in float32, since they serve for finite differences.
    """
    if hidden is not None:
        named = dict(network.named(parameters)) if isinstance(parameters, Tensor) else parameters
        precise = {name: value.float() for name, value in named.items()}
        return network(precise, x, code, reference, hidden)
    unchanged = network.precise or x.dtype == torch.uint8
    return network(parameters, x if unchanged else x.to(dtype), code, reference)


def disk_bytes(
    config: Config,
    shape: tuple[int, int, int],
    in_training: bool = False,
    keep_optimiser: bool = False,
) -> int:
    """Estimate the disk space of a run.

    Args:
        config: Config of the run.
        shape: Shape of its images.
        in_training: Whether to include its share of checkpoints.
        keep_optimiser: Whether to include its optimiser state, two moments per parameter.
    """
    weights = 4 * num_parameters(config, shape)
    windows = -(-config.steps // WINDOW)
    saved = weights + windows * TERMS * CURVE_BYTES + SMALL_FILES
    moments = 2 * weights + SMALL_FILES if keep_optimiser else 0
    return saved + moments + (CHECKPOINT_COPIES * weights if in_training else 0)


def check_disk(
    configs: Sequence[Config],
    shape: tuple[int, int, int],
    folder: Path,
    keep_optimiser: bool = False,
) -> None:
    """Check that the runs fit on the disk; runs already in the folder need no space."""
    missing = [config for config in configs if not (folder / config.hash).exists()]
    need = sum(disk_bytes(config, shape, True, keep_optimiser) for config in missing)
    check_disk_space(folder, need, counted(len(missing), "model"))


def num_parameters(config: Config, shape: tuple[int, int, int]) -> int:
    """Count the parameters of one model, including all members and extra networks."""
    # Strengths do not affect sizes; replacing all by 2 makes the cache effective.
    try:
        method = replace(config.method, **dict.fromkeys(config.method.strengths(), 2.0))
    except UnweaveError:  # some must be 0 together with other settings
        method = config.method
    return _counted(replace(config, method=method, data=(), seed=0), shape)


@lru_cache
def _counted(config: Config, shape: tuple[int, int, int]) -> int:
    return sum(
        network.width * (config.method.num_members if group == MODEL else 1)
        for group, networks in networks_of(config, shape).items()
        for network in networks.values()
    )
