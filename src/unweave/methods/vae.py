"""The variational autoencoder (VAE); most other methods differ from it by one term."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from unweave.methods.base import MODEL, Losses, Method, Nets
from unweave.methods.batch import Batch, Posterior

__all__ = ["VAE", "Elbo"]


class Elbo(NamedTuple):
    """Terms of the evidence lower bound on a batch."""

    posterior: Posterior
    z: Tensor
    reconstruction: Tensor
    kl: Tensor


@dataclass(frozen=True, kw_only=True)
class VAE(Method):
    """The variational autoencoder.

        L = E_q[-log p(x|z)] + KL(q(z|x) ‖ N(0, I))

    summed over pixels and latents, averaged over the batch, in nats. Methods that change the
    second term override `regularizer`.

    References:
        Kingma & Welling, Auto-Encoding Variational Bayes, arXiv:1312.6114.
    """

    name = "vae"
    label = "VAE"

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        elbo = self.elbo(nets, batch)
        loss = elbo.reconstruction + self.regularizer(elbo, batch)
        return Losses({MODEL: loss}, {"reconstruction": elbo.reconstruction, "kl": elbo.kl})

    def elbo(self, nets: Nets, batch: Batch) -> Elbo:
        """Encode, sample and decode a batch."""
        posterior = nets.encode(batch.images)
        z, kl = posterior.sample_and_kl(batch.noise("posterior", posterior.mu))
        return Elbo(posterior, z, nets.reconstruction(z, batch.images), kl.mean(-1))

    def regularizer(self, elbo: Elbo, batch: Batch) -> Tensor:  # noqa: ARG002 (for subclasses)
        """Return the loss without the reconstruction term, `[M]`."""
        return elbo.kl
