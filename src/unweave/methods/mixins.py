"""What only some methods have, one mixin each: `class SlowVAE(Pairs, VAE)`.

The engine, models and reports ask `isinstance(method, Pairs)` and never for a method by name.

Shapes: n members of a model, B images, d latents.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from unweave.data.pairs import PairRule
from unweave.methods.base import Method, Nets, Stage
from unweave.random import Stream

__all__ = ["CustomPrior", "Diagnostics", "Ensemble", "KnownFactors", "Pairs", "SecondStage"]


class Pairs(ABC):
    """A method that trains on pairs of images; the second ones arrive as `batch.partners`."""

    @abstractmethod
    def pair_rule(self) -> PairRule:
        """How the second image of a pair is drawn, given the first."""


class SecondStage(ABC):  # noqa: B024 (nothing needs to be added)
    """A method that builds on trained models of another, its first stage.

    The networks of the first stage are the group `FIRST`, frozen unless `extra_optimisers` has an
    optimiser for it. Codes of a trained model may begin with those of the first stage.
    """

    @staticmethod
    def first_stage(nets: Nets) -> Stage:
        """The models that it builds on."""
        assert nets.first is not None, "a second stage without a first"
        return nets.first


class Ensemble(ABC):
    """A method whose models each have n members, trained together with one loss.

    The parameters of the group `MODEL` are n adjacent rows per model, `[M · n, P]`, so that
    layers, kernels and Adam see a larger fleet. `batch.of_members()` gives every member the images
    of its model and noise of its own; `losses` reduces `[M · n]` to `[M]`.
    """

    @property
    @abstractmethod
    def num_members(self) -> int:
        """n."""

    @abstractmethod
    def member_method(self) -> Method:
        """The method that a single member, as a model of its own, was trained with."""

    @abstractmethod
    def maps(self, latents: int, parameters: Mapping[str, Tensor]) -> np.ndarray:
        """Linear maps from codes of member i to those of member j, float32 `[n, n, d, d]`.

        Args:
            latents: d.
            parameters: Those of one trained model, by network and name, `[n, *shape]`:
                `"maps/0.weight"`.
        """


class KnownFactors(ABC):
    """A method whose codes are known factors of the data, which arrive as `batch.factors`."""

    @property
    @abstractmethod
    def factor_names(self) -> tuple[str, ...]:
        """The names of these factors."""


class CustomPrior(ABC):
    """A method whose prior is not N(0, I)."""

    @abstractmethod
    def prior_samples(
        self, stream: Stream, count: int, latents: int, parameters: Mapping[str, Tensor]
    ) -> Tensor:
        """Codes drawn from the prior of one trained model, `[count, d]`.

        Args:
            stream: Source of random numbers.
            count: How many codes.
            latents: d.
            parameters: Those of the model, by network and name.
        """

    def prior_exponents(
        self,
        latents: int,  # noqa: ARG002
        parameters: Mapping[str, Tensor],  # noqa: ARG002
    ) -> Tensor | None:
        """The exponents of an Lp-nested prior, root first; None for any other prior."""
        return None


class Diagnostics(ABC):
    """A method with columns of its own in the curve, too costly to compute at every step."""

    @abstractmethod
    def diagnostic_names(self, latents: int) -> tuple[str, ...]:
        """The names of the columns."""

    @abstractmethod
    def diagnostics(
        self, means: np.ndarray, logvars: np.ndarray, parameters: Mapping[str, Tensor]
    ) -> Sequence[float]:
        """The values of these columns for one model in training.

        Args:
            means: Of the codes of images that are always the same, `[n, B, d]`.
            logvars: The log-variances of these codes, `[n, B, d]`.
            parameters: Those of the extra networks, by network and name, `[n, *shape]`.
        """
