"""The networks of a run: which there are, and what its method sees of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from unweave.methods import Method
from unweave.methods.base import FIRST, Nets, NetworkSpec, Stage
from unweave.models.config import Config
from unweave.nets.likelihoods import LIKELIHOODS, mean_image
from unweave.nets.network import Network

__all__ = ["BELOW", "applied", "nets_of", "networks_by_name", "networks_of", "parameters_by_name"]

BELOW = "first/"
"""Prefix of the names of the first stage's networks."""


def networks_of(config: Config, shape: tuple[int, int, int]) -> dict[str, dict[str, Network]]:
    """All networks of a run, by group and name."""
    below = 0 if config.first is None else config.first.code_size
    spec = NetworkSpec(config.architecture, shape, config.latents, below)
    groups = {group: dict(networks) for group, networks in config.method.networks(spec).items()}
    if config.first is not None:
        groups[FIRST] = {
            BELOW + name: network
            for networks in networks_of(config.first, shape).values()
            for name, network in networks.items()
        }
    return groups


def networks_by_name(config: Config, shape: tuple[int, int, int]) -> dict[str, Network]:
    """All networks of a run by name, of all groups."""
    groups = networks_of(config, shape).values()
    return {name: network for group in groups for name, network in group.items()}


def parameters_by_name(
    networks: Mapping[str, Network], parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Every parameter of one model by name (`"encoder/0.weight"`), without the model axis.

    Those of an ensemble begin with the axis of its members.
    """
    return {
        f"{network}/{name}": (value[0] if len(value) == 1 else value).contiguous()
        for network, buffer in parameters.items()
        for name, value in networks[network].named(buffer)
    }


def nets_of(
    config: Config,
    apply: Mapping[str, Callable[..., Tensor]],
    before: Sequence[Method] | None = None,
) -> Nets:
    """The networks of a run as its method sees them, with those of its first stage.

    Args:
        config: The run.
        apply: What each network does, by name.
        before: The methods of earlier stages, the latest first, stacked for a fleet; by default
            those of the run alone.
    """
    own = {name: network for name, network in apply.items() if not name.startswith(BELOW)}
    first = None
    if config.first is not None:
        below = {
            name.removeprefix(BELOW): network
            for name, network in apply.items()
            if name.startswith(BELOW)
        }
        method, *others = before or [config.first.method]
        first = Stage(
            method,
            nets_of(config.first, below, others),
            config.first.code_size,
            partial(mean_image, config.first.likelihood),
        )
    return Nets(own, LIKELIHOODS[config.likelihood], first, config.latents)


def applied(
    network: Network,
    parameters: Tensor | Mapping[str, Tensor],
    dtype: torch.dtype,
    x: Tensor,
    code: Tensor | None = None,
    reference: int | None = None,
) -> Tensor:
    """The output of a network that multiplies numbers of some kind."""
    as_it_is = network.precise or x.dtype == torch.uint8
    return network(parameters, x if as_it_is else x.to(dtype), code, reference)
