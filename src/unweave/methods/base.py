"""What a method is: hyperparameters, networks, and losses over a leading model axis.

Shapes: M models of a fleet, B images per model and step, d latents. A loss is one number per
model, `[M]`, so objectives reduce over the last axes only (`.sum(-1)`, `.mean(-1)`) and read like
the paper's equation.
"""

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from unweave.data.pairs import PairRule
from unweave.errors import UnweaveError
from unweave.methods.batch import Batch
from unweave.methods.posterior import Posterior
from unweave.methods.settings import OfModel, Strength, check_kinds, each_value
from unweave.nets.architectures import ARCHITECTURES, build
from unweave.nets.likelihoods import LIKELIHOODS
from unweave.nets.network import Network
from unweave.random import Stream

__all__ = [
    "FIRST",
    "MODEL",
    "Losses",
    "Method",
    "Nets",
    "Stage",
    "Strength",
]


GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "eta": "η",
    "kappa": "κ",
    "mu": "μ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
}
MODEL = "model"
"""The player that every method has: the networks that are trained by the optimiser of the run."""
FIRST = "first"
"""The player that is the stage before; it is frozen unless a method has an optimiser for it."""


@dataclass(frozen=True, eq=False)
class Nets:
    """The networks of a fleet with their current parameters, as an objective sees them.

    Args:
        apply: By name, a function from a network's input to its output, model axis first; of a
            network that adapts to codes, from its input and the codes.
        likelihood: Of decoder output and images, `[M, B, ...]` each; negative log-likelihood `[M,
            B]`.
        first: The stage that came before, where a method builds on one.
        latents: The size of codes, without those of the stage before.
    """

    apply: Mapping[str, Callable[..., Tensor]]
    likelihood: Callable[[Tensor, Tensor], Tensor]
    first: "Stage | None" = None
    latents: int = 0

    def encode(self, images: Tensor) -> Posterior:
        """q(z|x) for images `[M, B, H, W, C]`."""
        mu, logvar = self.apply["encoder"](images).float().chunk(2, -1)
        return Posterior(mu, logvar)

    def decode(self, z: Tensor) -> Tensor:
        """Logits or means of images, `[M, B, H, W, C]`."""
        return self.apply["decoder"](z)

    def reconstruction(self, z: Tensor, images: Tensor) -> Tensor:
        """-log p(x|z) summed over pixels, averaged over the batch, `[M]`."""
        return self.likelihood(self.decode(z), images).mean(-1)


@dataclass(frozen=True, eq=False)
class Stage:
    """What a method has of the stage before it.

    Args:
        method: Of its models.
        nets: With their parameters.
        latents: The size of its codes.
        mean: Takes what it decodes to the image that is meant, in [0, 1].
    """

    method: "Method"
    nets: Nets
    latents: int
    mean: Callable[[Tensor], Tensor]

    def encode(self, images: Tensor) -> Posterior:
        """q(c|x) for images `[M, B, H, W, C]`."""
        return self.method.encode(self.nets, images)

    def decode(self, codes: Tensor) -> Tensor:
        """Logits or means of images, `[M, B, H, W, C]`, of codes `[M, B, d]`."""
        return self.method.decode(self.nets, codes)


class Losses(NamedTuple):
    """What an objective returns.

    Args:
        players: For each set of networks with an optimiser of its own, the loss `[M]` it
            minimises.
        terms: What to report besides, `[M]` each.
    """

    players: Mapping[str, Tensor]
    terms: Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A published method: its hyperparameters are fields, its objective is `losses`.

    Fields annotated `Strength` may differ between the models of a fleet: in a fleet they are `[M]`
    tensors; fields annotated `OfModel` likewise, as tuples. All other fields are shared. A field
    may be given several values, `BetaVAE(beta=[1, 4, 16])`, which stands for one method per value
    (`grid`).
    """

    name: ClassVar[str]
    label: ClassVar[str]
    """Display name, as papers write it; `name` where a class does not say."""
    symbols: ClassVar[Mapping[str, str]] = {}
    """Display names of fields for which `symbol` finds none by itself."""
    pairs: ClassVar[bool] = False
    needs_first: ClassVar[bool] = False
    """Whether it is a second stage, which builds on trained models of another method."""
    points: ClassVar[bool] = False
    """Whether codes are points, drawn towards no prior and without noise: log-variances say
    nothing."""
    decodes: ClassVar[bool] = True
    """Whether there is a way from codes back to images."""
    architectures: ClassVar[Iterable[str]] = ARCHITECTURES
    """What its networks may be, the usual ones first."""
    likelihoods: ClassVar[Iterable[str]] = LIKELIHOODS
    """How what it decodes may be meant."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "label" not in vars(cls):
            cls.label = getattr(cls, "name", cls.__name__)

    def __post_init__(self) -> None:
        check_kinds(self)

    @abstractmethod
    def losses(self, nets: Nets, batch: Batch) -> Losses:
        """The losses of M models on a batch."""

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        """The codes of images `[M, B, H, W, C]`, as a trained model gives them."""
        return nets.encode(images)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        """What codes `[M, B, d]` say of images: logits or means, `[M, B, H, W, C]`."""
        self.demand_decoder()
        return nets.decode(codes)

    def demand_decoder(self) -> None:
        """An error where there is no way from codes back to images."""
        if not self.decodes:
            raise UnweaveError(
                f"{self.name} decodes nothing, it only encodes; for pictures and reconstructions "
                "train a method that has a decoder"
            )

    def networks(
        self, architecture: str, shape: tuple[int, int, int], latents: int, before: int
    ) -> Mapping[str, Mapping[str, Network]]:
        """All networks by player and name; most methods have an encoder and a decoder.

        Args:
            architecture: Of `architectures`.
            shape: Of images.
            latents: Of codes.
            before: The size of the codes of the stage before; 0 if there is none.
        """
        encoder, decoder = self.main_networks(architecture, shape, latents, before)
        extra = dict(self.extra_networks(latents))
        main = {"encoder": encoder, "decoder": decoder, **extra.pop(MODEL, {})}
        return {MODEL: main, **extra}

    def main_networks(
        self, architecture: str, shape: tuple[int, int, int], latents: int, before: int
    ) -> tuple[Network, Network]:
        """Encoder and decoder; see `networks`."""
        del before
        return build(architecture, shape, latents)

    @property
    def given_factors(self) -> tuple[str, ...]:
        """The factors of the data, by name, that it is given as codes; for most methods none."""
        return ()

    def demand_latents(self, latents: int) -> None:  # noqa: B027 (most fit any number)
        """An error where the method's settings do not fit so many latents."""

    def extra_networks(self, latents: int) -> Mapping[str, Mapping[str, Network]]:  # noqa: ARG002
        """Networks besides encoder and decoder, by player and name.

        Those of the player `MODEL` are trained with encoder and decoder.
        """
        return {}

    def extra_optimisers(self) -> Mapping[str, Any]:
        """The optimisers of those players."""
        return {}

    @property
    def copies(self) -> int:
        """How many members a model has: rows of its networks that are trained together."""
        return 1

    def of_a_member(self) -> "Method":
        """What one member of a trained model says that it was trained by."""
        return self

    def glances(self, latents: int) -> tuple[str, ...]:  # noqa: ARG002
        """What `glance` reports, columns of a curve."""
        return ()

    def glance(
        self,
        means: np.ndarray,  # noqa: ARG002
        logvars: np.ndarray,  # noqa: ARG002
        parameters: Mapping[str, Tensor],  # noqa: ARG002
    ) -> Sequence[float]:
        """What is known of one model now and then, too costly for every step.

        Args:
            means: Of the codes of some images that are always the same, `[n, B, d]`.
            logvars: The same of log-variances.
            parameters: Of the extra networks, `[n, *shape]`: `"maps/0.weight"`.
        """
        return ()

    def prior_samples(
        self,
        stream: Stream,
        count: int,
        latents: int,
        parameters: Mapping[str, Tensor],  # noqa: ARG002
    ) -> Tensor:
        """Codes drawn from the prior, `[count, d]`; N(0, I) unless a method has another.

        Args:
            stream: Of random numbers.
            count: How many codes.
            latents: d.
            parameters: Of one trained model, by network and name.
        """
        return stream.normal(count, latents)

    def pair_rule(self) -> PairRule:
        """How the second image of a pair follows from the first, for methods on pairs."""
        raise TypeError(f"{type(self).__name__} takes single images")

    @classmethod
    def symbol(cls, field: str) -> str:
        """How pictures and tables write a field: `β` for `beta`, `λ_od` for `lambda_od`."""
        if field in cls.symbols:
            return cls.symbols[field]
        if field.startswith("lambda_"):  # alone it is a keyword of Python
            return field.replace("lambda", "λ", 1)
        return GREEK.get(field, field.replace("_", " "))

    @classmethod
    def stackable(cls) -> tuple[str, ...]:
        """The names of the numbers that may differ between the models of a fleet."""
        return tuple(
            field.name for field in dataclasses.fields(cls) if field.type in (Strength, "Strength")
        )

    @classmethod
    def listed(cls) -> tuple[str, ...]:
        """The names of those that are no numbers."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.type == OfModel)

    def grid(self) -> list[Self]:
        """One method for every combination of the values given."""
        names = [field.name for field in dataclasses.fields(self)]
        values = [each_value(getattr(self, name)) for name in names]
        return [
            type(self)(**dict(zip(names, chosen, strict=True)))
            for chosen in itertools.product(*values)
        ]

    @classmethod
    def stack(cls, methods: Sequence[Self], device: torch.device | str = "cpu") -> Self:
        """One method whose fields hold the values of several, `[M]`."""
        first = methods[0]
        stacked: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            values = [getattr(method, field.name) for method in methods]
            if field.name in cls.stackable():
                stacked[field.name] = torch.tensor(values, dtype=torch.float32, device=device)
            elif field.name in cls.listed():
                stacked[field.name] = tuple(values)
            elif any(value != values[0] for value in values):
                raise UnweaveError(f"models of one fleet must share {cls.name}'s {field.name}")
        return dataclasses.replace(first, **stacked)
