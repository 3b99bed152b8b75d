"""What all methods are made of: posteriors, networks with parameters, batches, stacks, grids."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence

from tests.methods.small_fleet import IMAGES, LATENTS, MODELS, random
from tests.raising import about
from unweave.data.pairs import LaplaceTransitions, WeakPairs
from unweave.errors import UnweaveError
from unweave.methods import (
    AE,
    DIPVAEI,
    DIPVAEII,
    METHODS,
    PARTS,
    PCL,
    VAE,
    AdaGVAE,
    AnnealedVAE,
    Batch,
    BetaTCVAE,
    BetaVAE,
    FactorVAE,
    Method,
    Nets,
    Pairs,
    Posterior,
    SlowVAE,
    VAEEnsemble,
)
from unweave.methods.batch import for_members, member_seeds
from unweave.nets.likelihoods import bernoulli, gaussian


@pytest.fixture
def posterior():
    return Posterior(
        random(MODELS, IMAGES, LATENTS, seed=1), random(MODELS, IMAGES, LATENTS, seed=2)
    )


def as_normal(posterior):
    return Normal(posterior.mu, (posterior.logvar / 2).exp())


def batch(seeds=(4, 9), step=7):
    return Batch(torch.zeros(len(seeds), 1), torch.tensor(seeds), torch.tensor(step), 100)


def test_kl_is_that_of_normal_distributions_summed_over_latents(posterior):
    expected = kl_divergence(as_normal(posterior), Normal(0.0, 1.0)).sum(-1)
    torch.testing.assert_close(posterior.kl(), expected)
    assert posterior.kl().shape == (MODELS, IMAGES)


def test_codes_and_divergences_also_come_together(posterior):
    noise = random(MODELS, IMAGES, LATENTS, seed=3)
    z, kl = posterior.sample_and_kl(noise)
    assert torch.equal(z, posterior.sample(noise))
    assert torch.equal(kl, posterior.kl())


def test_log_density_is_that_of_normal_distributions(posterior):
    z = random(MODELS, IMAGES, LATENTS, seed=3)
    torch.testing.assert_close(posterior.log_density(z), as_normal(posterior).log_prob(z))


def test_samples_have_the_mean_and_the_variance_of_the_posterior():
    mu, logvar = torch.tensor([[[1.0, -2.0]]]), torch.tensor([[[math.log(0.25), math.log(9.0)]]])
    noise = batch().stream("posterior").normal(40_000, 2)[:1]
    z = Posterior(mu, logvar).sample(noise)[0].numpy()
    np.testing.assert_allclose(z.mean(0), [1, -2], atol=0.05)
    np.testing.assert_allclose(z.var(0), [0.25, 9], rtol=0.03)


def test_the_encoder_gives_means_first_and_log_variances_second():
    nets = Nets({"encoder": lambda images: images}, bernoulli)
    posterior = nets.encode(torch.arange(6.0)[None, None])
    assert posterior.mu.tolist() == [[[0, 1, 2]]]
    assert posterior.logvar.tolist() == [[[3, 4, 5]]]


def test_posteriors_are_float32_whatever_the_networks_compute_in():
    nets = Nets({"encoder": lambda images: images.bfloat16()}, bernoulli)
    posterior = nets.encode(torch.ones(1, 2, 6))
    assert posterior.mu.dtype == posterior.logvar.dtype == torch.float32


@pytest.mark.parametrize(
    ("likelihood", "of_a_pixel"), [(bernoulli, math.log(2)), (gaussian, 0.25)]
)
def test_reconstruction_is_summed_over_pixels_and_averaged_over_the_batch(likelihood, of_a_pixel):
    value = 0.0 if likelihood is bernoulli else 0.5  # half black, half white
    nets = Nets({"decoder": lambda z: torch.full((2, 5, 4, 3, 2), value)}, likelihood)
    images = torch.ones(2, 5, 4, 3, 2)
    found = nets.reconstruction(torch.zeros(2, 5, 1), images)
    np.testing.assert_allclose(found, [4 * 3 * 2 * of_a_pixel] * 2, rtol=1e-6)


def test_noise_differs_between_models():
    like = torch.zeros(2, 6, 3)
    both = batch(seeds=(4, 9)).noise("posterior", like)
    alone = batch(seeds=(9,)).noise("posterior", like[:1])
    assert both.shape == like.shape
    assert torch.equal(both[1:], alone)
    assert not torch.isclose(both[0], both[1]).any()


def test_noise_differs_between_steps_and_purposes():
    like = torch.zeros(2, 6, 3)
    now = batch(step=7).noise("posterior", like)
    assert torch.equal(now, batch(step=7).noise("posterior", like))
    assert not torch.isclose(now, batch(step=8).noise("posterior", like)).any()
    assert not torch.isclose(now, batch(step=7).noise("another", like)).any()


def test_noise_has_the_precision_of_the_codes():
    assert batch().noise("posterior", torch.zeros(2, 1, 3).double()).dtype == torch.float64


def test_member_seeds_depend_only_on_the_model_seed():
    seeds = member_seeds(torch.tensor([4, 9, 2**62 + 5]), 16).view(3, 16)
    assert seeds[:, 0].tolist() == [4, 9, 2**62 + 5]
    assert len(seeds.unique()) == 3 * 16
    assert (seeds >= 0).all()
    assert torch.equal(member_seeds(torch.tensor([9]), 3), seeds[1, :3])


def test_members_share_images_but_not_noise():
    seeds = torch.tensor([4, 9])
    images = torch.arange(2)[:, None].expand(2, 6)
    whole = Batch(images, seeds, torch.tensor(7), 100, member_seeds=member_seeds(seeds, 2))
    own = whole.of_members()
    assert own.images[:, 0].tolist() == [0, 0, 1, 1]
    noise = own.noise("posterior", torch.zeros(4, 6, 3))
    assert torch.equal(noise[::2], whole.noise("posterior", torch.zeros(2, 6, 3)))
    assert len(noise[:, 0, 0].unique()) == 4
    assert batch().of_members().seeds.tolist() == [4, 9]


def test_per_model_values_are_repeated_for_members():
    assert for_members(torch.tensor([1, 2]), 3).tolist() == [1, 1, 1, 2, 2, 2]
    assert for_members(torch.zeros(2, 5, 4), 3).shape == (6, 5, 4)


def test_a_grid_is_the_product_of_all_values_the_last_field_fastest():
    grid = AnnealedVAE(c_max=[5, 10], gamma=(1, 2, 3)).grid()
    assert [(one.c_max, one.gamma) for one in grid] == [
        (5, 1),
        (5, 2),
        (5, 3),
        (10, 1),
        (10, 2),
        (10, 3),
    ]
    assert {one.threshold for one in grid} == {100_000}
    assert all(type(one) is AnnealedVAE for one in grid)


def test_a_grid_may_run_over_settings_that_are_no_numbers():
    grid = BetaTCVAE(beta=[1, 6], estimator=["minibatch", "stratified"]).grid()
    assert [(one.beta, one.estimator) for one in grid] == [
        (1, "minibatch"),
        (1, "stratified"),
        (6, "minibatch"),
        (6, "stratified"),
    ]


@pytest.mark.parametrize("method", [VAE(), AE(), BetaVAE(beta=2), FactorVAE(gamma=10)])
def test_the_grid_of_single_values_is_the_method_itself(method):
    assert method.grid() == [method]


def test_a_grid_checks_every_value():
    with pytest.raises(UnweaveError, check=about("estimator", "best")):
        BetaTCVAE(estimator=["minibatch", "best"]).grid()


def test_strengths_may_differ_within_a_fleet():
    assert VAE.strengths() == AE.strengths() == ()
    assert BetaVAE.strengths() == ("beta",)
    assert AnnealedVAE.strengths() == ("c_max", "gamma", "threshold")
    assert DIPVAEI.strengths() == DIPVAEII.strengths() == ("lambda_od", "d_factor")
    assert FactorVAE.strengths() == ("gamma",)
    assert BetaTCVAE.strengths() == ("beta", "alpha", "gamma")
    assert AdaGVAE.strengths() == ("beta",)
    assert VAEEnsemble.strengths() == ("gamma", "strength")
    assert SlowVAE.strengths() == ("beta", "gamma", "rate")
    assert PCL.strengths() == ()


def test_a_stack_holds_the_values_of_all_models_in_order():
    stacked = AnnealedVAE.stack([AnnealedVAE(c_max=5), AnnealedVAE(c_max=50, gamma=10)])
    assert stacked.c_max.tolist() == [5, 50]
    assert stacked.gamma.tolist() == [1000, 10]
    assert stacked.threshold.tolist() == [100_000, 100_000]


@pytest.mark.parametrize(
    ("methods", "field"),
    [
        ((BetaTCVAE(), BetaTCVAE(estimator="weighted")), "estimator"),
        ((AdaGVAE(), AdaGVAE(), AdaGVAE(changed=2)), "changed"),
    ],
)
def test_shared_fields_must_be_equal_in_a_stack(methods, field):
    with pytest.raises(UnweaveError, check=about(field)):
        type(methods[0]).stack(methods)


def test_a_stack_keeps_shared_fields():
    methods = [BetaTCVAE(beta=b, estimator="stratified") for b in (1, 2)]
    assert BetaTCVAE.stack(methods).estimator == "stratified"
    assert AdaGVAE.stack([AdaGVAE(changed=2)]).pair_rule() == WeakPairs(changed=2)


def test_methods_are_found_by_their_names():
    assert list(METHODS) == [method.name for method in METHODS.values()]
    assert len(METHODS) == 21
    assert all(issubclass(method, Method) for method in METHODS.values())
    assert not set(METHODS) & set(PARTS)


@pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
def test_only_methods_on_pairs_have_a_rule_for_pairs(kind):
    if issubclass(kind, Pairs):
        weak = kind.name.startswith("ada_")
        assert kind().pair_rule() == (WeakPairs() if weak else LaplaceTransitions())
    else:
        assert not hasattr(kind, "pair_rule")
