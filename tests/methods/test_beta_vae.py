"""β-VAE against the textbook, and as the VAE."""

from tests.methods.small_fleet import MODELS, equal, same
from unweave.methods import VAE, BetaVAE

BETAS = (0.5, 4.0, 16.0)


def test_losses_are_those_of_the_textbook(fleet):
    expected = []
    for m, beta in enumerate(BETAS):
        reconstruction, kl, *_ = fleet.textbook_elbo(m)
        loss = reconstruction + beta * kl
        expected.append({"model": loss, "reconstruction": reconstruction, "kl": kl})
    same(fleet.losses(*[BetaVAE(beta=beta) for beta in BETAS]), expected)


def test_beta_1_is_the_vae(fleet):
    equal(fleet.losses(*[BetaVAE(beta=1)] * MODELS), fleet.losses(*[VAE()] * MODELS))


def test_beta_0_leaves_the_reconstruction(fleet):
    losses = fleet.losses(*[BetaVAE(beta=0)] * MODELS)
    assert losses.groups["model"].tolist() == losses.terms["reconstruction"].tolist()
