"""A method in a module whose annotations are postponed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from unweave.methods import PerModel
from unweave.methods.vae import VAE


@dataclass(frozen=True, kw_only=True)
class Postponed(VAE):
    """Free bits, L = E_q[-log p(x|z)] + Σ_l max(λ, E KL_l), with a word for each model."""

    name = "postponed"

    free: Annotated[float, PerModel] = 0.5
    word: Annotated[str, PerModel] = ""
    shared: float = 1.0

    def regularizer(self, elbo, batch):
        mu, logvar = elbo.posterior.mu, elbo.posterior.logvar
        kl = 0.5 * (mu**2 + logvar.expm1() - logvar).mean(1)
        return kl.maximum(self.per_latent("free")).sum(-1)
