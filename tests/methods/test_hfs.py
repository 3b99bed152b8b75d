"""HFS against the textbook, its distance on known codes, and hosts."""

import math

import pytest
import torch

from tests.methods import test_beta_vae, test_factor_vae
from tests.methods.second_stages import blobs
from tests.methods.small_fleet import IMAGES, LATENTS, MODELS, random
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import AE, DIPVAEI, HFS, BetaTCVAE, BetaVAE, BioAE, FactorVAE
from unweave.methods.hfs import hausdorff, random_pairs
from unweave.models.config import Config
from unweave.random import Stream

HOSTS = {"beta_vae": test_beta_vae, "factor_vae": test_factor_vae}


def textbook(fleet, m, method):
    host = HOSTS[method.host_method.name].textbook(fleet, m, method.host_method)
    means = [mu for mu, _ in fleet.posteriors(m)]
    total = 0.0
    for a in range(LATENTS):
        for b in range(a):
            total += max(
                min(
                    (means[i][a] - means[k][a]) ** 2 + (means[j][b] - means[k][b]) ** 2
                    for k in range(IMAGES)
                )
                for i in range(IMAGES)
                for j in range(IMAGES)
            )
    return {**host, "model": host["model"] + method.gamma * total, "hausdorff": total}


def brute_force(a, b):
    """The published form: distances of all combinations, for all pairs at once."""
    of_a = (a[:, :, None, None] - a[:, None, None]) ** 2  # [M, i, 1, k, pairs]
    of_b = (b[:, None, :, None] - b[:, None, None]) ** 2
    return (of_a + of_b).amin(3).amax((1, 2))


def test_the_distance_is_0_on_a_grid_and_1_on_two_corners():
    side = torch.linspace(-1, 1, 8)
    grid = torch.cartesian_prod(side, side)[None, :, :, None]
    assert hausdorff(grid[:, :, 0], grid[:, :, 1]).item() == 0
    corners = torch.tensor([0.0, 1.0])[None, :, None]
    assert hausdorff(corners, corners).item() == 1
    assert hausdorff(3 * corners, 3 * corners).item() == 9


def test_it_grows_with_the_square_of_the_scale():
    a, b = random(2, 1, 30, 4, seed=0)
    torch.testing.assert_close(hausdorff(3 * a, 3 * b), 9 * hausdorff(a, b), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("draw", "expected", "deviation"),
    [("uniform", 0.18, 0.02), ("equal", 1.89, 0.05), ("normal", 3.11, 0.15)],
)
def test_values_of_known_distributions_at_a_batch_of_64(draw, expected, deviation):
    stream = Stream(torch.arange(1_000), "codes")
    if draw == "normal":
        one, two = stream.normal(64, 2).split(1, -1)
    else:
        one, two = (2 * stream.uniform(64, 2) - 1).split(1, -1)
    found = hausdorff(one, one if draw == "equal" else two).mean().item()
    assert found == pytest.approx(expected, abs=deviation)


def test_value_and_gradients_are_those_of_the_brute_force():
    a, b = random(2, MODELS, 12, 7, seed=1)
    both = [codes.clone().requires_grad_() for codes in (a, b)]
    weights = random(MODELS, 7, seed=2)
    found, expected = hausdorff(*both), brute_force(*both)
    assert torch.equal(found, expected)
    gradients = torch.autograd.grad((weights * found).sum(), both)
    for gradient, exact in zip(
        gradients, torch.autograd.grad((weights * expected).sum(), both), strict=True
    ):
        assert (gradient != 0).any()
        torch.testing.assert_close(gradient, exact, rtol=1e-12, atol=1e-12)


def test_the_order_of_the_batch_does_not_matter():
    a, b = random(2, MODELS, 12, 7, seed=3)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(hausdorff(a, b), hausdorff(a[:, order], b[:, order]))


def test_pairs_differ_by_step_and_seed_and_not_by_fleet():
    seeds = torch.tensor([3, 8])

    def chosen(step, seeds=seeds):
        pairs = torch.stack(random_pairs(10, 25, Stream(seeds, "pairs", torch.tensor(step))), -1)
        assert pairs.shape == (len(seeds), 25, 2)
        assert (pairs[..., 0] < pairs[..., 1]).all()
        return [{tuple(pair) for pair in own.tolist()} for own in pairs]

    now = chosen(0)
    assert all(len(own) == 25 for own in now)
    assert now[0] != now[1]
    assert all(one != other for one, other in zip(now, chosen(1), strict=True))
    assert now[1:] == chosen(0, seeds[1:])
    assert {len(own) for own in chosen(5)} == {25}
    every = torch.stack(random_pairs(4, 25, Stream(seeds, "pairs")), -1)
    assert every.shape == (2, 6, 2)


def test_a_single_latent_has_no_pairs():
    one, two = random_pairs(1, 25, Stream(torch.tensor([3]), "pairs"))
    assert hausdorff(one[:, None].float(), two[:, None].float()).shape == (1, 0)


def weights_of(*methods):
    """All parameters of models of these methods after a few steps in one fleet."""
    shared = {"batch": 8, "latents": 4, "architecture": "small_mlp"}
    configs = [Config(method=method, seed=seed, **shared) for seed, method in enumerate(methods)]
    engine = Engine(configs, blobs(), "cpu")
    engine.advance(4)
    return [
        {name: buffer for name, _, buffer in engine.networks(part)} for part in engine.parts
    ], engine


@pytest.mark.parametrize(
    ("host", "method"),
    [
        ("beta_vae", BetaVAE()),
        ("beta_tc_vae=2.7", BetaTCVAE(beta=2.7)),
        ("beta_tc_vae beta=0.3 alpha=2", BetaTCVAE(beta=0.3, alpha=2)),
        ("beta_tc_vae estimator=weighted", BetaTCVAE(estimator="weighted")),
        ("factor_vae", FactorVAE()),
        ("dip_vae_i lambda_od=3", DIPVAEI(lambda_od=3)),
        ("ae", AE()),
        ("bio_ae lambda_w=0.1 sums=true", BioAE(lambda_w=0.1, sums=True)),
    ],
)
def test_gamma_0_is_the_host_to_the_bit(host, method):
    (alone,), _ = weights_of(method)
    (added,), _ = weights_of(HFS(gamma=0, host=host))
    assert alone.keys() == added.keys()
    for name, parameters in alone.items():
        assert torch.equal(parameters, added[name]), name


def test_mixed_fleets_may_contain_any_hosts():
    methods = [HFS(host="beta_vae=2"), BetaVAE(), HFS(host="factor_vae"), HFS(host="ae", gamma=3)]
    together, engine = weights_of(*methods)
    assert len(engine.parts) == 4
    for seed, (method, found) in enumerate(zip(methods, together, strict=True)):
        config = Config(method=method, seed=seed, batch=8, latents=4, architecture="small_mlp")
        alone = Engine([config], blobs(), "cpu")
        alone.advance(4)
        for name, _, buffer in alone.networks(alone.parts[0]):
            assert torch.equal(buffer, found[name])


def test_hosts_determine_what_models_are():
    assert HFS(host="ae").deterministic
    assert not HFS().deterministic
    assert HFS(host="factor_vae").training_only == ("discriminator",)
    assert [method.host for method in HFS(host=["vae", "ae"]).grid()] == ["vae", "ae"]
    stacked = HFS.stack([HFS(host="beta_vae=2"), HFS(host="beta_vae=2", gamma=1)])
    assert stacked.host_method.beta.tolist() == [2, 2]
    assert stacked.gamma.tolist() == [10, 1]
    run = Config(method=HFS(host="beta_vae=2"))
    assert Config.from_dict(run.to_dict()) == run
    assert run.kind != Config(method=HFS(host="beta_vae=3")).kind
    assert run.fleet == Config(method=HFS(host="beta_vae=3")).fleet


@pytest.mark.parametrize(
    ("host", "subject", "value"),
    [
        ("slow_vae", "host", "slow_vae"),
        ("isa_vae", "host", "isa_vae"),
        ("vae_ensemble", "host", "vae_ensemble"),
        ("from_factors", "host", "from_factors"),
        ("infogan", "host", "infogan"),
        ("hfs", "host", "hfs"),
        ("beta_vae=1 beta=2", "host", "beta_vae=1 beta=2"),
        ("beta_vae beta", "host", "beta_vae beta"),
        ("beta_vae=x", "beta", "x"),
        ("beta_vae=-1", "beta", -1),
        ("beta_vae=inf", "beta", math.inf),
        ("beta_vae=[1,4]", "beta", "[1,4]"),
        ("beta_vae gamma=1", "setting of beta_vae", "gamma"),
        ("vae=2", "setting of vae", ""),
        ("beta_vea", "method", "beta_vea"),
        ("", "method", ""),
        (3, "host", 3),
    ],
)
def test_invalid_hosts_are_refused(host, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        HFS(host=host)


def test_pairs_must_be_a_number():
    with pytest.raises(UnweaveError, check=about("pairs", 0)):
        HFS(pairs=0)
