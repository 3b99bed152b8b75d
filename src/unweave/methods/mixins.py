"""Mixins for optional features of methods, as in `class SlowVAE(Pairs, VAE)`.

The engine, models and reports check `isinstance(method, Pairs)`, never the name of a method.

Shapes: n members per model, B images, d latents.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.data.pairs import PairRule
from unweave.errors import UnknownNameError, UnweaveError
from unweave.methods.base import Method, Nets, Stage
from unweave.methods.batch import Batch, Posterior
from unweave.random import Stream
from unweave.text import shown

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "REPRESENTATIONS",
    "Auxiliary",
    "CustomPrior",
    "Diagnostics",
    "Ensemble",
    "KnownFactors",
    "Pairs",
    "Quantised",
    "QuantisedCodes",
    "SecondStage",
    "check_representation",
    "encoded",
    "share_in_use",
    "straight_through",
]

REPRESENTATIONS = ("value", "index", "continuous")
"""Representations of quantised codes; `"value"` is the one that decoders take."""
VALUES = "values_"
"""Prefix of the diagnostics that count the values of each latent."""


class Pairs(ABC):
    """A method that trains on pairs of images; the second images are in `batch.partners`."""

    @abstractmethod
    def pair_rule(self) -> PairRule:
        """Return the rule by which the second image of a pair is sampled, given the first."""


class SecondStage(ABC):  # noqa: B024 (no abstract methods)
    """A method that builds on trained models of another method, its first stage.

    The networks of the first stage form the group `FIRST`, frozen unless `extra_optimisers` has
    an optimiser for it. Codes of a trained model may begin with those of the first stage.
    """

    @staticmethod
    def first_stage(nets: Nets) -> Stage:
        """Return the first stage."""
        assert nets.first is not None, "a second stage needs a first stage"
        return nets.first

    @staticmethod
    def noise_of_images(batch: Batch, like: Tensor, draws: int = 1) -> Tensor:
        """Return the noise of first-stage codes, which is fixed for each image.

        Args:
            batch: Batch with image indices.
            like: Tensor `[M, B, d]` of the same shape.
            draws: Number of codes per image, of which one is chosen at random (default 1).
        """
        assert batch.indices is not None, "a second stage needs image indices"
        places = batch.indices
        if draws > 1:
            chosen = batch.stream("draws").integers(draws, places.shape[1], 1)
            places = places * draws + chosen[..., 0]
        return Stream(batch.seeds, "first stage").normal(places, like.shape[-1]).to(like.dtype)


class Ensemble(ABC):
    """A method whose models have n members each, trained together with one loss.

    The parameters of the group `MODEL` have n adjacent rows per model, `[M · n, P]`, so that
    layers, kernels and Adam treat members as a larger fleet. `batch.of_members()` gives all
    members of a model the same images but different noise; `losses` reduces `[M · n]` to `[M]`.
    """

    @property
    @abstractmethod
    def num_members(self) -> int:
        """Number of members per model, n."""

    @abstractmethod
    def member_method(self) -> Method:
        """Return the method of a single member as a separate model."""

    @abstractmethod
    def maps(self, latents: int, parameters: Mapping[str, Tensor]) -> np.ndarray:
        """Return linear maps from codes of member i to member j, float32 `[n, n, d, d]`.

        Args:
            latents: Number of latents, d.
            parameters: Parameters of one trained model, by network and name, such as
                `"maps/0.weight"`, `[n, *shape]` each.
        """


class KnownFactors(ABC):
    """A method whose codes are known factors of the data, passed as `batch.factors`."""

    @property
    @abstractmethod
    def factor_names(self) -> tuple[str, ...]:
        """Names of these factors."""


class Auxiliary(ABC):
    """A method whose posterior q(z|x, u) also depends on a known factor u of the images.

    In training, `batch.factors` has the classes of u, `[M, B, 1]`.
    """

    @property
    @abstractmethod
    def auxiliary(self) -> tuple[str, int]:
        """Name of the factor and its number of values."""

    @abstractmethod
    def encode_given(self, nets: Nets, images: Tensor, classes: Tensor) -> Posterior:
        """Return the codes that trained models assign to images of known classes.

        Args:
            nets: Networks of the models.
            images: Images `[M, B, H, W, C]`.
            classes: Classes of the factor, `[B]` or `[M, B]`.
        """

    def classes_in(self, data: Dataset, indices: Any = None) -> Tensor:
        """Return the classes of the factor in a data set, `[N]`.

        Args:
            data: Data set with known factors.
            indices: Indices `[N]` of the images (default: all).
        """
        (name, count), known = self.auxiliary, data.known_factors()
        column = known.column(name)
        if len(known.axes[column]) != count:
            raise UnweaveError(
                f"classes must be {len(known.axes[column])}, the number of values of {name} in "
                f"{data.name}, got {count}",
                subject="classes",
                value=count,
            )
        chosen = np.arange(len(data)) if indices is None else indices
        return torch.as_tensor(data.factors(chosen))[..., column]

    def missing_factor(self) -> UnweaveError:
        """Return an error for images without the factor."""
        name = self.auxiliary[0]
        return UnweaveError(
            f"this model encodes images together with their factor {name}; pass a data set with "
            f"known factors, or the classes of all images as factors={{{name!r}: …}}",
            subject="factors",
            value=name,
        )

    def classes_given(self, factors: Mapping[str, Any] | None, images: int) -> Tensor:
        """Return the classes of the factor among those passed with an array of images, `[N]`.

        Args:
            factors: Classes `[N]` of factors by name, or None.
            images: Number of images N.
        """
        name, count = self.auxiliary
        if factors is None or name not in factors:
            raise self.missing_factor()
        classes = torch.as_tensor(factors[name])
        valid = classes.shape == (images,) and not classes.is_floating_point()
        if not valid or (images and not 0 <= int(classes.min()) <= int(classes.max()) < count):
            raise UnweaveError(
                f"factors[{name!r}] must be {images} integers from 0 to {count - 1}, got "
                f"{shown(factors[name])}",
                subject="factors",
                value=name,
            )
        return classes


class CustomPrior(ABC):
    """A method whose prior is not N(0, I)."""

    @abstractmethod
    def prior_samples(
        self, stream: Stream, count: int, latents: int, parameters: Mapping[str, Tensor]
    ) -> Tensor:
        """Sample codes from the prior of one trained model, `[count, d]`.

        Args:
            stream: Source of random numbers.
            count: Number of codes.
            latents: Number of latents, d.
            parameters: Parameters of the model, by network and name.
        """

    def prior_exponents(
        self,
        latents: int,  # noqa: ARG002
        parameters: Mapping[str, Tensor],  # noqa: ARG002
    ) -> Tensor | None:
        """Return the exponents of an Lp-nested prior, root first; None for any other prior."""
        return None


class Diagnostics(ABC):
    """A method with extra columns in the training curve that are too costly for every step."""

    @abstractmethod
    def diagnostic_names(self, latents: int) -> tuple[str, ...]:
        """Return the names of the columns."""

    @abstractmethod
    def diagnostics(
        self, means: np.ndarray, logvars: np.ndarray, parameters: Mapping[str, Tensor]
    ) -> Sequence[float]:
        """Compute the values of these columns for one model during training.

        Args:
            means: Code means of a fixed set of images, `[n, B, d]`.
            logvars: Log-variances of these codes, `[n, B, d]`.
            parameters: Parameters of the extra networks, by network and name, `[n, *shape]` each.
        """


@dataclass(frozen=True, eq=False)
class QuantisedCodes:
    """Codes of images, `[M, B, d]` each, in all representations.

    Args:
        value: Values in use, which the decoder takes.
        index: Their indices, int64.
        continuous: Codes before quantisation.
    """

    value: Tensor
    index: Tensor
    continuous: Tensor


class Quantised(Diagnostics):
    """A method whose latents take a finite number of values, without noise.

    The number of values in use by each latent is a diagnostic, so that a collapse is noticed.
    """

    squash: ClassVar[str] = "none"
    """Activation function that the output of the encoder passes before quantisation."""

    @abstractmethod
    def codebook(self, latents: int, parameters: Mapping[str, Tensor]) -> Tensor | None:
        """Return the values of each latent of one trained model, `[d, V]`; None if continuous.

        Args:
            latents: Number of latents, d.
            parameters: Parameters of the model, by network and name.
        """

    @abstractmethod
    def quantised(self, nets: Nets, images: Tensor) -> QuantisedCodes:
        """Return the codes of images `[M, B, H, W, C]` in all representations."""

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        """Return the values of the codes of images, as posteriors without noise."""
        return Posterior.of_points(self.quantised(nets, images).value)

    def diagnostic_names(self, latents: int) -> tuple[str, ...]:
        return tuple(f"{VALUES}{latent}" for latent in range(latents))

    def diagnostics(
        self,
        means: np.ndarray,
        logvars: np.ndarray,  # noqa: ARG002
        parameters: Mapping[str, Tensor],  # noqa: ARG002
    ) -> Sequence[float]:
        """Return the number of values that each latent takes on a fixed set of images."""
        return [float(len(np.unique(column))) for column in means[0].T]

    @staticmethod
    def values_in_use(curve: "pd.DataFrame") -> "pd.DataFrame":
        """Return the columns of a curve with the number of values of each latent."""
        return curve[[name for name in curve if str(name).startswith(VALUES)]]

    @staticmethod
    def latents_in_use(curve: "pd.DataFrame") -> tuple[int, int] | None:
        """Return how many latents of a model take several values, and the number of latents.

        Args:
            curve: Curve of the model; None is returned if it has no diagnostics.
        """
        counts = Quantised.values_in_use(curve).dropna()
        if counts.empty:
            return None
        last = counts.iloc[-1]
        return int((last > 1).sum()), len(last)


def check_representation(method: Method, representation: str) -> None:
    """Raise an `UnweaveError` if codes of a method do not have a representation."""
    if representation not in REPRESENTATIONS:
        raise UnknownNameError("representation", representation, REPRESENTATIONS)
    if representation != REPRESENTATIONS[0] and not isinstance(method, Quantised):
        raise UnweaveError(
            f"codes of {method.name} are not quantised, so they have no representation "
            f"{representation!r}; omit it, or use a method such as qlae",
            subject="representation",
            value=representation,
        )


def encoded(method: Method, nets: Nets, images: Tensor, representation: str) -> Posterior:
    """Return the codes of images `[M, B, H, W, C]` in one of `REPRESENTATIONS`."""
    if representation == REPRESENTATIONS[0]:
        return method.encode(nets, images)
    assert isinstance(method, Quantised)
    codes = getattr(method.quantised(nets, images), representation)
    return Posterior(codes, Posterior.of_points(codes.float()).logvar)


def straight_through(continuous: Tensor, values: Tensor) -> Tensor:
    """Return exactly `values`, with the gradient of `continuous`.

    The usual c + sg(q - c) differs from q by rounding.
    """
    return values.detach() + (continuous - continuous.detach())


def share_in_use(index: Tensor, count: int) -> Tensor:
    """Return the share of `count` values that a batch of indices `[M, B, d]` uses, `[M]`."""
    values = torch.arange(count, device=index.device)
    return (index[..., None] == values).any(1).float().mean((1, 2))
