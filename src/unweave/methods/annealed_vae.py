"""AnnealedVAE: a capacity that grows during training."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.base import Strength
from unweave.methods.batch import Batch
from unweave.methods.vae import VAE, Elbo

__all__ = ["AnnealedVAE"]


@dataclass(frozen=True, kw_only=True)
class AnnealedVAE(VAE):
    """AnnealedVAE: keep the KL divergence at a capacity that grows linearly.

        L = E_q[-log p(x|z)] + γ |KL(q(z|x) ‖ N(0, I)) - C(t)|,     C(t) = C_max min(1, t / T)

    Args:
        c_max: Final capacity in nats; the 12,600-model study uses 5, 10, 25, 50, 75, 100.
        gamma: Weight of the deviation from the capacity.
        threshold: Number of steps T over which the capacity grows.

    References:
        Burgess et al., Understanding Disentangling in β-VAE, arXiv:1804.03599.
    """

    name = "annealed_vae"
    label = "AnnealedVAE"
    symbols: ClassVar = {"c_max": "C"}

    c_max: Strength = 25.0
    gamma: Strength = 1000.0
    threshold: Strength = 100_000.0

    def check(self) -> None:
        if self.threshold == 0:
            raise UnweaveError("threshold of annealed_vae must be above 0, got 0")

    def capacity(self, step: Tensor) -> Tensor:
        """Return the capacity C(t), `[M]`."""
        return self.c_max * (step / self.threshold).clamp(max=1)

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:
        return self.gamma * (elbo.kl - self.capacity(batch.step)).abs()
