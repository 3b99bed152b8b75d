"""β-VAE: a weighted KL divergence."""

from dataclasses import dataclass

from torch import Tensor

from unweave.methods.base import Strength
from unweave.methods.batch import Batch
from unweave.methods.vae import VAE, Elbo

__all__ = ["BetaVAE"]


@dataclass(frozen=True, kw_only=True)
class BetaVAE(VAE):
    """β-VAE: give the KL divergence more weight than the reconstruction.

        L = E_q[-log p(x|z)] + β KL(q(z|x) ‖ N(0, I))

    Args:
        beta: Weight of the KL divergence; 1 is the VAE, the 12,600-model study uses 1, 2, 4, 6,
            8, 16.

    References:
        Higgins et al., beta-VAE: Learning Basic Visual Concepts with a Constrained Variational
        Framework, ICLR 2017.
    """

    name = "beta_vae"
    label = "β-VAE"

    beta: Strength = 4.0

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:  # noqa: ARG002
        return self.beta * elbo.kl
