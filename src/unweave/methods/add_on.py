"""Add-ons: methods that add a penalty to the loss of another method (the host).

Shapes: M models in a fleet, B images per model and step, d latents.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from unweave.errors import UnknownNameError, UnweaveError
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import (
    CustomPrior,
    Diagnostics,
    Ensemble,
    KnownFactors,
    Pairs,
    SecondStage,
)
from unweave.methods.settings import settings_of
from unweave.nets.adam import Adam
from unweave.text import shown

__all__ = ["AddOn"]

UNSUPPORTED = (CustomPrior, Diagnostics, Ensemble, KnownFactors, Pairs, SecondStage)
INHERITED = ("architectures", "likelihoods", "deterministic", "standard_noise", "training_only")
"""Properties that an add-on has from its host."""


@dataclass(frozen=True, kw_only=True)
class AddOn(Method):
    """A method that adds a penalty to the loss of another method, its host.

    Networks, optimisers, codes and reported terms are those of the host. The weight of the
    penalty is the add-on's first strength; with 0, it trains exactly the models of the host.
    """

    term: ClassVar[str]
    """Name of the reported penalty."""

    host: str = "beta_vae"

    @abstractmethod
    def penalty(self, nets: Nets, batch: Batch, posterior: Posterior, z: Tensor) -> Tensor:
        """Return the penalty of each model, `[M]`.

        Args:
            nets: Networks of the fleet.
            batch: Batch of the step.
            posterior: q(z|x) of the host, `[M, B, d]`.
            z: Codes that the host has decoded, `[M, B, d]`.
        """

    @cached_property
    def host_method(self) -> Method:
        """The host, as described by the field `host`."""
        return _parse(self.host, self.name)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.host, str):
            for name in INHERITED:
                object.__setattr__(self, name, getattr(self.host_method, name))

    @classmethod
    def stack(cls, methods: Sequence[Self], device: torch.device | str = "cpu") -> Self:
        stacked = super().stack(methods, device)
        hosts = [method.host_method for method in methods]
        object.__setattr__(stacked, "host_method", type(hosts[0]).stack(hosts, device))
        return stacked

    def check_latents(self, latents: int) -> None:
        self.host_method.check_latents(latents)

    def extra_networks(self, latents: int) -> NetworkGroups:
        return self.host_method.extra_networks(latents)

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return self.host_method.extra_optimisers()

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        return self.host_method.encode(nets, images)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        return self.host_method.decode(nets, codes)

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        encoded: list[Tensor] = []
        decoded: list[Tensor] = []

        def encode(images: Tensor) -> Tensor:
            encoded.append(nets.apply["encoder"](images))
            return encoded[-1]

        def decode(z: Tensor) -> Tensor:
            decoded.append(z)
            return nets.apply["decoder"](z)

        apply: Mapping[str, Callable[..., Tensor]] = {
            **nets.apply,
            "encoder": encode,
            "decoder": decode,
        }
        losses = self.host_method.losses(replace(nets, apply=apply), batch)
        posterior = Posterior(*encoded[0].float().chunk(2, -1))
        penalty = self.penalty(nets, batch, posterior, decoded[0])
        loss = losses.groups[MODEL] + getattr(self, self.strengths()[0]) * penalty
        return Losses({**losses.groups, MODEL: loss}, {**losses.terms, self.term: penalty})


def _parse(host: str, add_on: str) -> Method:
    """Return the method that `"NAME"`, `"NAME=STRENGTH"` or `"NAME FIELD=VALUE …"` describes.

    Args:
        host: Description of the host.
        add_on: Name of the add-on, for error messages.

    Example:
        >>> _parse("beta_tc_vae=4", "hfs").beta
        4
        >>> _parse("beta_tc_vae beta=2.5 estimator=weighted", "hfs").estimator
        'weighted'
    """
    from unweave.methods import find_method  # imports this module

    first, *others = host.split() or [""]
    name, given, strength = first.partition("=")
    kind = find_method(name)
    if issubclass(kind, (AddOn, *UNSUPPORTED)) or kind.networks is not Method.networks:
        raise UnweaveError(
            f"{name} cannot be the host of {add_on}; use a method that encodes and decodes single "
            "images and has a standard prior, such as beta_vae",
            subject="host",
            value=name,
        )
    fields, settings = settings_of(kind), {}
    for setting in [f"{next(iter(kind.strengths()), '')}={strength}"] * bool(given) + others:
        field, _, value = setting.partition("=")
        if field not in fields:
            raise UnknownNameError(f"setting of {name}", field, fields)
        if not value or field in settings:
            raise UnweaveError(
                f"host must be like 'beta_tc_vae beta=4 alpha=2', got {shown(host)}",
                subject="host",
                value=host,
            )
        settings[field] = _value(value)
    return kind(**settings)


def _value(text: str) -> Any:
    """Convert a setting to a boolean or a number, if it is one; its method checks the type."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
