"""A method: hyperparameters as fields, an objective over a leading model axis.

Shapes: M models of a fleet, B images per model and step, d latents. A loss is one number per
model, `[M]`, so objectives reduce over the last axes only (`.sum(-1)`, `.mean(-1)`) and read like
the paper's equation.

What only some methods have (pairs, a first stage, members, diagnostics …) is in
`unweave.methods.mixins`.
"""

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.batch import Batch
from unweave.methods.posterior import Posterior
from unweave.methods.settings import PerModel, Strength, check_kinds, each_value, settings_of
from unweave.nets.adam import Adam
from unweave.nets.architectures import ARCHITECTURES, build
from unweave.nets.likelihoods import LIKELIHOODS
from unweave.nets.network import Network

__all__ = [
    "FIRST",
    "MODEL",
    "Losses",
    "Method",
    "Nets",
    "NetworkGroups",
    "NetworkSpec",
    "PerModel",
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
"""The network group that every method has, trained by the optimiser of the run."""
FIRST = "first"
"""The network group of the first stage; frozen unless a method has an optimiser for it."""

NetworkGroups = Mapping[str, Mapping[str, Network]]
"""Networks by group and name. Those of one group are trained together, by one optimiser."""


class NetworkSpec(NamedTuple):
    """What the networks of a method are built for.

    Args:
        architecture: One of the method's `architectures`.
        shape: Height, width and channels of the images.
        latents: Size of the model's own code.
        base_latents: Size of the first stage's code; 0 unless the method is a second stage.
    """

    architecture: str
    shape: tuple[int, int, int]
    latents: int
    base_latents: int = 0


@dataclass(frozen=True, eq=False)
class Nets:
    """The networks of a fleet with their current parameters, as an objective sees them.

    Args:
        apply: By name, a function from a network's input to its output, model axis first; for a
            network that adapts to codes, from its input and the codes.
        likelihood: From decoder output and images, `[M, B, ...]` each, to the negative
            log-likelihood `[M, B]`.
        first: The first stage, for methods that build on one.
        latents: Size of the model's own code, without that of the first stage.
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
    """The first stage, as a method that builds on it sees it.

    Args:
        method: The method of its models.
        nets: Its networks with their parameters.
        latents: Size of its code.
        mean: From its decoder's output to mean images in [0, 1].
    """

    method: "Method"
    nets: Nets
    latents: int
    mean: Callable[[Tensor], Tensor]

    def encode(self, images: Tensor) -> Posterior:
        """q(c|x) for images `[M, B, H, W, C]`."""
        return self.method.encode(self.nets, images)

    def decode(self, codes: Tensor) -> Tensor:
        """Logits or means of images, `[M, B, H, W, C]`, for codes `[M, B, d]`."""
        return self.method.decode(self.nets, codes)


class Losses(NamedTuple):
    """The result of an objective.

    Args:
        groups: For each network group with an optimiser, the loss `[M]` that it minimises.
        terms: Further values to report, `[M]` each.
    """

    groups: Mapping[str, Tensor]
    terms: Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A published method: its hyperparameters are fields, its objective is `losses`.

    Fields marked `PerModel` may differ between the models of a fleet, all others are shared. A
    field may be given several values, `BetaVAE(beta=[1, 4, 16])`, for one method per value
    (`grid`).

    A method has a `name` and `losses`; everything else is optional.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    """Display name, as papers write it; `name` where a class does not say."""
    symbols: ClassVar[Mapping[str, str]] = {}
    """Display names of fields for which `symbol` finds none by itself."""
    architectures: ClassVar[Iterable[str]] = ARCHITECTURES
    """Supported architectures, the default first."""
    likelihoods: ClassVar[Iterable[str]] = LIKELIHOODS
    """Supported likelihoods."""
    decodes: ClassVar[bool] = True
    """Whether it has a decoder."""
    deterministic: ClassVar[bool] = False
    """Whether codes have neither noise nor a prior, so that log-variances mean nothing."""
    standard_noise: ClassVar[bool] = True
    """Whether unused latents are N(0, 1), so that their KL divergence is 0."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "label" not in vars(cls):
            cls.label = getattr(cls, "name", cls.__name__)

    @abstractmethod
    def losses(self, nets: Nets, batch: Batch) -> Losses:
        """The losses of M models on a batch."""

    def check(self) -> None:  # noqa: B027 (optional)
        """Refuse impossible settings, each of them a single value, with an `UnweaveError`."""

    def check_latents(self, latents: int) -> None:  # noqa: B027 (optional)
        """Refuse a number of latents that the settings do not allow."""

    def extra_networks(self, latents: int) -> NetworkGroups:  # noqa: ARG002
        """Networks besides encoder and decoder.

        Those of the group `MODEL` are trained together with encoder and decoder.
        """
        return {}

    def extra_optimisers(self) -> Mapping[str, Adam]:
        """The optimiser of each network group besides `MODEL`; groups without one are frozen."""
        return {}

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        """All networks, for methods with other networks than an encoder and a decoder."""
        encoder, decoder = build(spec.architecture, spec.shape, spec.latents)
        extra = dict(self.extra_networks(spec.latents))
        main = {"encoder": encoder, "decoder": decoder, **extra.pop(MODEL, {})}
        return {MODEL: main, **extra}

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        """The codes that trained models give images `[M, B, H, W, C]`."""
        return nets.encode(images)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        """Logits or means of images, `[M, B, H, W, C]`, for codes `[M, B, d]`."""
        self.require_decoder()
        return nets.decode(codes)

    def per_model(self, name: str) -> Tensor:
        """The values of a per-model number beside `[M]`: `[M]` in a fleet, else a scalar."""
        return torch.as_tensor(getattr(self, name), dtype=torch.float32)

    def per_latent(self, name: str) -> Tensor:
        """The values of a per-model number beside `[M, d]` or `[M, B]`: `[M, 1]`, or a scalar."""
        values = self.per_model(name)
        return values[:, None] if values.ndim else values

    def __post_init__(self) -> None:
        check_kinds(self)
        values = [getattr(self, name) for name in settings_of(type(self))]
        if any(isinstance(value, list | tuple) for value in values):
            self.grid()
        elif not any(isinstance(value, Tensor) for value in values):
            self.check()

    @property
    def num_members(self) -> int:
        """How many members a model has; more than 1 for an `Ensemble`."""
        return 1

    def require_decoder(self) -> None:
        """Refuse to decode without a decoder."""
        if not self.decodes:
            raise UnweaveError(
                f"{self.name} decodes nothing, it only encodes; for pictures and reconstructions "
                "train a method that has a decoder"
            )

    @classmethod
    def symbol(cls, field: str) -> str:
        """How pictures and tables write a field: `β` for `beta`, `λ_od` for `lambda_od`."""
        if field in cls.symbols:
            return cls.symbols[field]
        if field.startswith("lambda_"):  # alone it is a keyword of Python
            return field.replace("lambda", "λ", 1)
        return GREEK.get(field, field.replace("_", " "))

    @classmethod
    def strengths(cls) -> tuple[str, ...]:
        """The names of the numbers that may differ between the models of a fleet."""
        settings = settings_of(cls).items()
        return tuple(name for name, one in settings if one.per_model and one.kind is float)

    def grid(self) -> list[Self]:
        """One method for every combination of the values given."""
        names = list(settings_of(type(self)))
        values = [each_value(getattr(self, name)) for name in names]
        return [
            type(self)(**dict(zip(names, chosen, strict=True)))
            for chosen in itertools.product(*values)
        ]

    @classmethod
    def stack(cls, methods: Sequence[Self], device: torch.device | str = "cpu") -> Self:
        """One method whose per-model fields hold the values of M methods."""
        stacked = copy.copy(methods[0])
        for name, setting in settings_of(cls).items():
            values = [getattr(method, name) for method in methods]
            together: Any = values[0]
            if name in cls.strengths():
                together = torch.tensor(values, dtype=torch.float32, device=device)
            elif setting.per_model:
                together = tuple(values)
            elif any(value != values[0] for value in values):
                raise UnweaveError(f"models of one fleet must share {cls.name}'s {name}")
            # Not by `replace`, which would take a tuple for a grid.
            object.__setattr__(stacked, name, together)
        return stacked
