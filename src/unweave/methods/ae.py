"""The plain autoencoder, a baseline without a prior."""

from dataclasses import dataclass

from unweave.methods.base import MODEL, Losses, Method, Nets
from unweave.methods.batch import Batch

__all__ = ["AE"]


@dataclass(frozen=True, kw_only=True)
class AE(Method):
    """The autoencoder: reconstruct from the mean code, without noise or prior.

    L = -log p(x | μ(x))
    """

    name = "ae"
    label = "AE"
    deterministic = True
    arbitrary_axes = True

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        posterior = nets.encode(batch.images)
        reconstruction = nets.reconstruction(posterior.mu, batch.images)
        return Losses({MODEL: reconstruction}, {"reconstruction": reconstruction})
