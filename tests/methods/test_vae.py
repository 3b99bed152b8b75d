"""The VAE against the textbook."""

from dataclasses import replace

import pytest

from tests.methods.small_fleet import MODELS, mean, same
from unweave.methods import VAE


def textbook(fleet, m, method):
    del method
    reconstruction, kl, *_ = fleet.textbook_elbo(m)
    return {"model": reconstruction + kl, "reconstruction": reconstruction, "kl": kl}


def test_squared_errors_are_summed_without_a_half(fleet):
    expected = []
    for m in range(MODELS):
        _, kl, codes, _ = fleet.textbook_elbo(m)
        errors = []
        for z, image in zip(codes, fleet.images[m], strict=True):
            decoded = fleet.network("decoder", m, z)
            pixels = zip(decoded, image.flatten().tolist(), strict=True)
            errors.append(sum((p - x) ** 2 for p, x in pixels))
        expected.append({"model": mean(errors) + kl, "reconstruction": mean(errors), "kl": kl})
    same(replace(fleet, likelihood="gaussian").losses(*[VAE()] * MODELS), expected)


def test_the_noise_of_another_step_gives_another_reconstruction_but_the_same_kl(fleet):
    now = fleet.losses(*[VAE()] * MODELS).terms
    later = replace(fleet, step=fleet.step + 1).losses(*[VAE()] * MODELS).terms
    assert (now["reconstruction"] != later["reconstruction"]).all()
    assert now["kl"].tolist() == pytest.approx(later["kl"].tolist())
