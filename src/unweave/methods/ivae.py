"""iVAE: an identifiable VAE, whose prior depends on a known factor."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import Auxiliary, CustomPrior
from unweave.methods.settings import check_integer
from unweave.nets.layers import Linear
from unweave.nets.network import Network
from unweave.random import Stream

__all__ = ["IVAE", "kl_to_conditional_prior"]

PRIOR, GIVEN = "prior", "given"
HIDDEN = 64
MAX_CLASSES = 100_000


@dataclass(frozen=True, kw_only=True)
class IVAE(Auxiliary, CustomPrior, Method):
    """iVAE: a VAE whose prior depends on a known factor u, which makes its codes identifiable.

        L = E_q[-log p(x|z)] + KL(q(z|x, u) ‖ p(z|u)),    p(z|u) = N(0, λ(u))
        KL = ½ Σ_l [ln λ_l - ln v_l - 1 + μ_l²/λ_l + v_l/λ_l]

    with λ = exp(f(u)), for the mean μ and variance v of q. The factor is weak supervision: u is
    the one-hot vector of its value for each image. If λ differs enough between values of u, codes
    are determined up to permutation and scaling. One network corrects the encoder's outputs, given
    u, and another computes f; each has a hidden layer of 64 leaky ReLUs.

    Args:
        factor: Name of the known factor u.
        classes: Number of values of this factor.

    Notes:
        Encoding needs u: data sets with known factors provide it, and arrays of images need
        `encode(images, factors={NAME: classes})`. Samples from the prior have values of u with
        equal probabilities. This is the plain evidence lower bound; the published code weights its
        terms (100, 1, 0, 10).

    References:
        Khemakhem et al., Variational Autoencoders and Nonlinear ICA: A Unifying Framework,
        arXiv:1907.04809.
    """

    name = "ivae"
    label = "iVAE"
    standard_noise = False

    factor: str = ""
    classes: int = 0

    def check(self) -> None:
        check_integer(self, "classes", 0, MAX_CLASSES)

    def check_latents(self, latents: int) -> None:
        del latents
        if not self.factor or not self.classes:
            raise UnweaveError(
                f"{self.name} needs a known factor and its number of values, such as "
                f"factor='shape', classes=3, got factor={self.factor!r}, classes={self.classes}",
                subject="classes" if self.factor else "factor",
            )

    @property
    def auxiliary(self) -> tuple[str, int]:
        return self.factor, self.classes

    def extra_networks(self, latents: int) -> NetworkGroups:
        both = 2 * latents + self.classes
        given = Linear(both, HIDDEN, "leaky_relu"), Linear(HIDDEN, 2 * latents, "none")
        return {MODEL: {PRIOR: self._prior(latents), GIVEN: Network(given)}}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        assert batch.factors is not None, "the batch has no factors"
        classes = batch.factors[..., 0]
        posterior = self.encode_given(nets, batch.images, classes)
        log_lambda = nets.apply[PRIOR](self._one_hot(classes, posterior.mu)).float()
        z = posterior.sample(batch.noise("posterior", posterior.mu))
        reconstruction = nets.reconstruction(z, batch.images)
        kl = kl_to_conditional_prior(posterior, log_lambda).mean(-1)
        terms = {"reconstruction": reconstruction, "kl": kl}
        return Losses({MODEL: reconstruction + kl}, terms)

    def encode_given(self, nets: Nets, images: Tensor, classes: Tensor) -> Posterior:
        encoded = nets.apply["encoder"](images).float()
        u = self._one_hot(classes, encoded).expand(*encoded.shape[:2], -1)
        encoded = encoded + nets.apply[GIVEN](torch.cat([encoded, u], -1)).float()
        return Posterior(*encoded.chunk(2, -1))

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        del nets, images
        raise self.missing_factor()

    def prior_samples(
        self, stream: Stream, count: int, latents: int, parameters: Mapping[str, Tensor]
    ) -> Tensor:
        network = self._prior(latents)
        own = {name: parameters[f"{PRIOR}/{name}"][None] for name in network.shapes}
        every = torch.eye(self.classes, device=own["0.weight"].device)[None]
        deviations = (network(own, every)[0] / 2).exp()
        # With the same purpose, values of u and codes would be the same random numbers.
        classes = replace(stream, purpose=f"{stream.purpose} classes")
        chosen = classes.integers(self.classes, count, 1)[:, 0]
        return deviations[chosen] * stream.normal(count, latents)

    def _prior(self, latents: int) -> Network:
        """Return the network f, from u to ln λ."""
        return Network(
            (Linear(self.classes, HIDDEN, "leaky_relu"), Linear(HIDDEN, latents, "none"))
        )

    def _one_hot(self, classes: Tensor, like: Tensor) -> Tensor:
        every = torch.arange(self.classes, device=classes.device)
        return (classes[..., None] == every).to(like.dtype)


def kl_to_conditional_prior(posterior: Posterior, log_lambda: Tensor) -> Tensor:
    """KL(q(z|x, u) ‖ N(0, λ(u))) of each image in nats, `[M, B]`, for ln λ `[M, B, d]`."""
    ratio = posterior.logvar - log_lambda
    scaled = posterior.mu**2 * (-log_lambda).exp()
    return 0.5 * (scaled + ratio.expm1() - ratio).sum(-1)
