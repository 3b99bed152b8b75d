"""Base class of methods: hyperparameters as fields, an objective with a leading model axis.

Shapes: M models in a fleet, B images per model and step, d latents. A loss is one number per
model, `[M]`, so objectives reduce over the last axes only (`.sum(-1)`, `.mean(-1)`) and read like
the paper's equation.

Optional features (pairs, a first stage, members, diagnostics …) are in `unweave.methods.mixins`.
"""

import copy
import itertools
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.batch import Batch, Posterior
from unweave.methods.settings import PerModel, Strength, as_list, check_kinds, settings_of
from unweave.nets.adam import Adam
from unweave.nets.architectures import ARCHITECTURES, build
from unweave.nets.likelihoods import LIKELIHOODS
from unweave.nets.network import StackedNetwork

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

MODEL = "model"
"""Name of the network group that every method has, trained by the optimiser of the run."""
FIRST = "first"
"""Name of the first stage's network group; frozen unless a method has an optimiser for it."""

NetworkGroups = Mapping[str, Mapping[str, StackedNetwork]]
"""Networks by group and name. The networks of a group share one optimiser."""


class NetworkSpec(NamedTuple):
    """The sizes from which a method builds its networks.

    Args:
        architecture: One of the method's `architectures`.
        shape: Height, width and channels of the images.
        latents: Size of the model's own code.
        base_latents: Size of the first stage's code (0 unless the method is a second stage).
    """

    architecture: str
    shape: tuple[int, int, int]
    latents: int
    base_latents: int = 0


@dataclass(frozen=True, eq=False)
class Nets:
    """The networks of a fleet with their current parameters, as passed to an objective.

    Args:
        apply: Forward functions by network name, from inputs to outputs, model axis first.
            Networks with adaptive normalisation take codes as a second argument.
        likelihood: Function from decoder outputs and images, `[M, B, ...]` each, to the negative
            log-likelihood `[M, B]`.
        first: First stage, for methods that build on one.
        latents: Size of the model's own code, without that of the first stage.
        mean: Function from decoder outputs to the means of p(x|z), for penalties on images.
        weights: Function from the name of a network to its weights, `[M, ...]` each and without
            biases, for penalties on them; only in training.
    """

    apply: Mapping[str, Callable[..., Tensor]]
    likelihood: Callable[[Tensor, Tensor], Tensor]
    first: "Stage | None" = None
    latents: int = 0
    mean: Callable[[Tensor], Tensor] = torch.sigmoid
    weights: Callable[[str], Sequence[Tensor]] | None = None

    def encode(self, images: Tensor) -> Posterior:
        """Return q(z|x) for images `[M, B, H, W, C]`."""
        mu, logvar = self.apply["encoder"](images).float().chunk(2, -1)
        return Posterior(mu, logvar)

    def decode(self, z: Tensor) -> Tensor:
        """Return logits or means of images, `[M, B, H, W, C]`."""
        return self.apply["decoder"](z)

    def hidden(self, z: Tensor) -> list[Tensor]:
        """Return the outputs of the decoder's first hidden layers, `[M, B, …]`, in float32."""
        found: list[Tensor] = []
        self.apply["decoder"](z, hidden=found)
        return found

    def reconstruction(self, z: Tensor, images: Tensor) -> Tensor:
        """Return -log p(x|z), summed over pixels and averaged over the batch, `[M]`."""
        return self.likelihood(self.decode(z), images).mean(-1)


@dataclass(frozen=True, eq=False)
class Stage:
    """The first stage, as passed to a method that builds on it.

    Args:
        method: Method of the first stage.
        nets: Networks of the first stage with their parameters.
        latents: Size of the first stage's code.
        mean: Function from decoder outputs to mean images in [0, 1].
    """

    method: "Method"
    nets: Nets
    latents: int
    mean: Callable[[Tensor], Tensor]

    def encode(self, images: Tensor) -> Posterior:
        """Return q(c|x) for images `[M, B, H, W, C]`."""
        return self.method.encode(self.nets, images)

    def decode(self, codes: Tensor) -> Tensor:
        """Return logits or means of images, `[M, B, H, W, C]`, for codes `[M, B, d]`."""
        return self.method.decode(self.nets, codes)


class Losses(NamedTuple):
    """The result of an objective.

    Args:
        groups: Loss `[M]` of each network group that has an optimiser.
        terms: Additional values to report, `[M]` each.
    """

    groups: Mapping[str, Tensor]
    terms: Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A training method: its hyperparameters are fields, its objective is `losses`.

    Fields marked `PerModel` may differ between the models of a fleet; all others are shared. A
    list of values, as in `BetaVAE(beta=[1, 4, 16])`, stands for one method per value (`grid`).

    Only `name` and `losses` are required; everything else is optional.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    """Display name, as written in papers (default: `name`)."""
    symbols: ClassVar[Mapping[str, str]] = {}
    """Display names of fields whose symbol does not follow from their name."""
    saved_as: ClassVar[Mapping[str, str]] = {}
    """Keys in saved files of fields that have been renamed since."""
    saved_if_set: ClassVar[Collection[str]] = ()
    """Fields added in later versions: saved only if set, so that older configs keep their hash."""
    architectures: ClassVar[Iterable[str]] = ARCHITECTURES
    """Supported architectures, the default first."""
    likelihoods: ClassVar[Iterable[str]] = LIKELIHOODS
    """Supported likelihoods."""
    decodes: ClassVar[bool] = True
    """Whether the method has a decoder."""
    deterministic: ClassVar[bool] = False
    """Whether codes have neither noise nor a prior, so that log-variances are meaningless."""
    arbitrary_axes: ClassVar[bool] = False
    """Whether rotating the codes changes neither the loss nor the norm of the weights, so that
    axes can be chosen after training (`uw.rotate`)."""
    standard_noise: ClassVar[bool] = True
    """Whether unused latents are N(0, 1), so that their KL divergence is 0."""
    training_only: ClassVar[Collection[str]] = ()
    """Networks that only the losses need, such as a discriminator; compact files omit them."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "label" not in vars(cls):
            cls.label = getattr(cls, "name", cls.__name__)

    @abstractmethod
    def losses(self, nets: Nets, batch: Batch) -> Losses:
        """Return the losses of M models on a batch."""

    def check(self) -> None:  # noqa: B027 (optional)
        """Raise an `UnweaveError` for invalid settings; each setting has a single value here."""

    def check_latents(self, latents: int) -> None:  # noqa: B027 (optional)
        """Raise an `UnweaveError` if the settings do not allow this number of latents."""

    def extra_networks(self, latents: int) -> NetworkGroups:  # noqa: ARG002
        """Return networks in addition to the encoder and decoder.

        Networks in the group `MODEL` are trained together with the encoder and decoder.
        """
        return {}

    def extra_networks_of(self, spec: NetworkSpec) -> NetworkGroups:
        """Return the extra networks, for methods in which they depend on the images as well."""
        return self.extra_networks(spec.latents)

    def extra_optimisers(self) -> Mapping[str, Adam]:
        """Return the optimisers of groups other than `MODEL`; groups without one are frozen."""
        return {}

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        """Build all networks: an encoder, a decoder and the extra networks."""
        encoder, decoder = build(spec.architecture, spec.shape, spec.latents)
        extra = dict(self.extra_networks_of(spec))
        main = {"encoder": encoder, "decoder": decoder, **extra.pop(MODEL, {})}
        return {MODEL: main, **extra}

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        """Return the codes that trained models assign to images `[M, B, H, W, C]`."""
        return nets.encode(images)

    def decode(self, nets: Nets, codes: Tensor) -> Tensor:
        """Return logits or means of images, `[M, B, H, W, C]`, for codes `[M, B, d]`."""
        self.require_decoder()
        return nets.decode(codes)

    def per_model(self, name: str) -> Tensor:
        """Return a per-model number to broadcast with `[M]`: `[M]` in a fleet, or a scalar."""
        return torch.as_tensor(getattr(self, name), dtype=torch.float32)

    def per_latent(self, name: str) -> Tensor:
        """Return a per-model number to broadcast with `[M, d]`: `[M, 1]`, or a scalar."""
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
        """Number of members per model; more than 1 for an `Ensemble`."""
        return 1

    def require_decoder(self) -> None:
        """Raise an `UnweaveError` if the method has no decoder."""
        if not self.decodes:
            raise UnweaveError(
                f"{self.name} has no decoder; for pictures and reconstructions, train a method "
                "with a decoder, such as beta_vae",
                subject="decoder",
            )

    @classmethod
    def symbol(cls, field: str) -> str:
        """Return the display name of a field: `β` for `beta`, `λ_od` for `lambda_od`."""
        if field in cls.symbols:
            return cls.symbols[field]
        if field.startswith("lambda_"):  # `lambda` alone is a Python keyword
            return field.replace("lambda", "λ", 1)
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {field}")
        except KeyError:
            return field.replace("_", " ")

    @classmethod
    def with_new_names(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings from a file by the names of the fields; see `saved_as`."""
        renamed = {old: new for new, old in cls.saved_as.items() if new not in settings}
        return {renamed.get(name, name): value for name, value in settings.items()}

    @classmethod
    def strengths(cls) -> tuple[str, ...]:
        """Return the names of numeric fields that may differ between the models of a fleet."""
        settings = settings_of(cls).items()
        return tuple(name for name, one in settings if one.per_model and one.kind is float)

    def grid(self) -> list[Self]:
        """Return one method for each combination of the given values."""
        names = list(settings_of(type(self)))
        values = [as_list(getattr(self, name)) for name in names]
        return [
            type(self)(**dict(zip(names, chosen, strict=True)))
            for chosen in itertools.product(*values)
        ]

    @classmethod
    def stack(cls, methods: Sequence[Self], device: torch.device | str = "cpu") -> Self:
        """Combine M methods into one whose per-model fields hold the values of all of them."""
        stacked = copy.copy(methods[0])
        for name, setting in settings_of(cls).items():
            values = [getattr(method, name) for method in methods]
            combined: Any = values[0]
            if name in cls.strengths():
                combined = torch.tensor(values, dtype=torch.float32, device=device)
            elif setting.per_model:
                combined = tuple(values)
            elif any(value != values[0] for value in values):
                raise UnweaveError(
                    f"{name} of {cls.name} must be the same for all models of a fleet; "
                    "train one fleet per value",
                    subject=name,
                )
            # `replace` would interpret a tuple as a grid.
            object.__setattr__(stacked, name, combined)
        return stacked
