"""β-VAE against the textbook, and as the VAE."""

from tests.methods.small_fleet import MODELS, equal
from unweave.methods import VAE, BetaVAE


def textbook(fleet, m, method):
    reconstruction, kl, *_ = fleet.textbook_elbo(m)
    loss = reconstruction + method.beta * kl
    return {"model": loss, "reconstruction": reconstruction, "kl": kl}


def test_beta_1_is_the_vae(fleet):
    equal(fleet.losses(*[BetaVAE(beta=1)] * MODELS), fleet.losses(*[VAE()] * MODELS))


def test_beta_0_leaves_the_reconstruction(fleet):
    losses = fleet.losses(*[BetaVAE(beta=0)] * MODELS)
    assert losses.groups["model"].tolist() == losses.terms["reconstruction"].tolist()
