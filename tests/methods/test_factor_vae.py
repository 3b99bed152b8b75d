"""FactorVAE against the textbook, its two groups, and its shuffled codes."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats

import unweave as uw
from tests.methods.small_fleet import DATA_SIZE, IMAGES, LATENTS, MODELS, mean, random
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import VAE, Batch, FactorVAE, Nets
from unweave.methods.factor_vae import log_probability, permute_dims
from unweave.models.config import Config
from unweave.nets.adam import Adam
from unweave.nets.likelihoods import bernoulli
from unweave.random import Stream


def softmax(logits):
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def textbook(fleet, m, method):
    reconstruction, kl, codes, _ = fleet.textbook_elbo(m)
    words = Stream(int(fleet.seeds[m]), "permute", int(fleet.step)).words(IMAGES, LATENTS)
    shuffled = [[0.0] * LATENTS for _ in range(IMAGES)]
    for latent in range(LATENTS):
        order = np.argsort(words[:, latent].numpy())
        for b in range(IMAGES):
            shuffled[b][latent] = codes[order[b]][latent]
    real = [fleet.network("discriminator", m, z) for z in codes]
    fake = [fleet.network("discriminator", m, z) for z in shuffled]
    correlation = mean(logits[0] - logits[1] for logits in real)
    judgement = 0.5 * mean(math.log(softmax(logits)[0]) for logits in real)
    judgement += 0.5 * mean(math.log(softmax(logits)[1]) for logits in fake)
    return {
        "model": reconstruction + kl + method.gamma * correlation,
        "discriminator": -judgement,
        "reconstruction": reconstruction,
        "kl": kl,
        "total_correlation": correlation,
    }


def test_gamma_0_is_the_vae(fleet):
    free, vae = fleet.losses(*[FactorVAE(gamma=0)] * MODELS), fleet.losses(*[VAE()] * MODELS)
    np.testing.assert_allclose(free.groups["model"], vae.groups["model"], rtol=1e-12)


def test_a_better_discriminator_finds_more_total_correlation():
    """Codes whose latents are equal, and the discriminator that asks how alike they are."""
    mu = random(1, 200, 1, seed=1).repeat(1, 1, 2).float()
    encoded = torch.cat([mu, torch.full_like(mu, -20)], -1)
    batch = Batch(torch.zeros(1, 200, 1), torch.tensor([3]), torch.tensor(5), DATA_SIZE)

    def discriminate(sharpness, z):
        alike = 1 - (z[..., 0] - z[..., 1]) ** 2
        return torch.stack([sharpness * alike, torch.zeros_like(alike)], -1)

    losses = []
    for sharpness in (-1.0, 0.0, 1.0):
        apply = {
            "encoder": lambda images: encoded,
            "decoder": lambda z: torch.zeros_like(batch.images),
            "discriminator": partial(discriminate, sharpness),
        }
        losses.append(FactorVAE().losses(Nets(apply, bernoulli), batch))
    wrong, blind, right = (loss.terms["total_correlation"].item() for loss in losses)
    assert wrong < blind == 0 < right
    wrong, blind, right = (loss.groups["discriminator"].item() for loss in losses)
    assert right < blind < wrong
    assert blind == pytest.approx(math.log(2))


def test_probabilities_are_clamped():
    logits = torch.tensor([[[100.0, 0.0]]]).double()
    assert log_probability(logits, 0).item() == pytest.approx(math.log(1 - 1e-6), rel=1e-9)
    assert log_probability(logits, 1).item() == pytest.approx(math.log(1e-6), rel=1e-9)


def test_the_discriminator_is_the_protocols():
    (networks,) = FactorVAE().extra_networks(10).values()
    assert len(networks["discriminator"]) == 5_018_002
    assert FactorVAE().extra_optimisers() == {"discriminator": Adam(lr=1e-4, beta1=0.5, beta2=0.9)}


def after_a_step(method):
    images = Stream(0, "test").integers(256, 12, 32 * 32).reshape(12, 32, 32, 1).byte().numpy()
    config = Config(method=method, batch=4, latents=3, seed=2)
    engine = Engine([config], uw.data.load(images), "cpu")
    before = {name: group.parameters.clone() for name, group in engine.groups.items()}
    engine.advance(1)
    return {name: group.parameters - before[name] for name, group in engine.groups.items()}


class NoMove(FactorVAE):
    """With a discriminator that never learns."""

    def extra_optimisers(self):
        return {"discriminator": Adam(lr=0.0)}


def test_each_network_group_minimises_only_its_own_loss():
    weak, strong = (after_a_step(FactorVAE(gamma=gamma, width=50)) for gamma in (0, 100))
    assert not torch.equal(weak["model"], strong["model"])
    assert torch.equal(weak["discriminator"], strong["discriminator"])
    assert weak["discriminator"].abs().max() > 0
    still = after_a_step(NoMove(gamma=100, width=50))
    assert torch.equal(still["model"], strong["model"])
    assert (still["discriminator"] == 0).all()


def test_shuffling_keeps_the_values_of_every_latent():
    z = random(3, 50, 4, seed=1)
    shuffled = permute_dims(z, Stream(torch.arange(3), "permute", 7))
    assert not torch.equal(shuffled, z)
    assert torch.equal(shuffled.sort(1).values, z.sort(1).values)


def test_shuffling_breaks_the_correlation_of_latents():
    z = random(1, 4000, 1, seed=1).repeat(1, 1, 3)
    shuffled = permute_dims(z, Stream(torch.tensor([1]), "permute", 7))[0]
    correlations = np.corrcoef(shuffled.numpy(), rowvar=False)
    np.testing.assert_allclose(correlations, np.eye(3), atol=0.06)


def test_shuffles_differ_between_models_and_steps():
    z = torch.arange(50.0)[None, :, None].expand(2, 50, 3)
    now = permute_dims(z, Stream(torch.tensor([1, 2]), "permute", 7))
    later = permute_dims(z, Stream(torch.tensor([1, 2]), "permute", 8))
    assert not torch.equal(now[0], now[1])
    assert not torch.equal(now, later)


def test_a_model_shuffles_alone_as_it_does_in_a_fleet():
    z = random(3, 50, 4, seed=1)
    seeds = torch.tensor([8, 1, 5])
    together = permute_dims(z, Stream(seeds, "permute", 7))
    for m in range(3):
        alone = permute_dims(z[m : m + 1], Stream(seeds[m : m + 1], "permute", 7))
        assert torch.equal(together[m], alone[0])


def test_all_orders_are_equally_likely():
    z = torch.arange(3)[None, :, None].expand(6000, 3, 1)
    shuffled = permute_dims(z, Stream(torch.arange(6000), "permute"))[..., 0]
    orders = shuffled @ torch.tensor([9, 3, 1])
    counts = torch.unique(orders, return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_the_width_is_that_of_all_hidden_layers():
    narrow = FactorVAE(width=7).extra_networks(LATENTS)["discriminator"]["discriminator"]
    shapes = [tuple(shape) for name, shape in narrow.shapes.items() if name.endswith("weight")]
    assert shapes == [(LATENTS, 7), *[(7, 7)] * 5, (7, 2)]


@pytest.mark.parametrize("width", [0, 4097, 2.5, True])
def test_invalid_widths_are_errors(width):
    with pytest.raises(UnweaveError, check=about("width", width)):
        Config(method=FactorVAE(width=width))


def test_the_published_width_is_not_saved_so_that_earlier_runs_keep_their_hash():
    published = Config(method=FactorVAE(gamma=10))
    assert published.to_dict()["method"] == {"name": "factor_vae", "gamma": 10.0}
    assert Config.from_dict(published.to_dict()).method == FactorVAE(gamma=10)
    narrow = Config(method=FactorVAE(gamma=10, width=200))
    assert narrow.hash != published.hash
    assert Config.from_dict(narrow.to_dict()) == narrow
