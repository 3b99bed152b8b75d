"""ISA-VAE and ISA-TCVAE against loops over plain numbers, and as trained models."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import unweave as uw
from tests.methods.small_fleet import LATENTS, MODELS, NETWORKS, SmallFleet, mean, same
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.fleet.engine import Engine
from unweave.methods import ISATCVAE, ISAVAE, Batch, BetaVAE, Nets, Posterior
from unweave.models.config import Config
from unweave.models.networks import networks_of
from unweave.priors.layouts import tree_of
from unweave.priors.lp_nested import unit_scale, variance

BETAS, ROOTS, EXPONENTS = (0.5, 1.0, 4.0), (2.125, 1.5, 3.0), (2.25, 1.875, 4.0)
OFFSETS = torch.tensor([[0.1, -0.2, 9.0], [0.0, 0.3, 9.0], [-0.4, 0.2, 9.0]], dtype=torch.float64)
both = pytest.mark.parametrize("kind", [ISAVAE, ISATCVAE])


@pytest.fixture
def fleet(double):
    found = SmallFleet.make()
    width = NETWORKS["exponents"].width
    learned = torch.nn.functional.pad(OFFSETS, (0, width - LATENTS))
    return replace(found, parameters={**found.parameters, "exponents": learned})


def methods(kind, **settings):
    return [
        kind(beta=beta, p0=p0, p=p, **settings)
        for beta, p0, p in zip(BETAS, ROOTS, EXPONENTS, strict=True)
    ]


def log_prior(z, sizes, p0, exponents, s):
    """The sum over subspaces, written out; one of one latent has the root's exponent."""
    total, place = 0.0, 0
    exponents = iter(exponents)
    for n in sizes:
        p = next(exponents) if n > 1 else p0
        v = sum(abs(one) ** p for one in z[place : place + n]) ** (1 / p)
        place += n
        total += math.log(p0) - n / p0 * math.log(s) - math.lgamma(n / p0) - n * math.log(2)
        total += (n - 1) * math.log(p) - n * math.lgamma(1 / p) + math.lgamma(n / p)
        total -= v**p0 / s
    return total


def log_normal(z, mu, logvar):
    return sum(
        -0.5 * ((a - m) ** 2 / math.exp(v) + v + math.log(2 * math.pi))
        for a, m, v in zip(z, mu, logvar, strict=True)
    )


def total_correlation(codes, posteriors, data_size):
    """Minibatch-weighted sampling, by loops."""
    weight, total = math.log(data_size * len(codes)), 0.0
    for z in codes:
        joint = math.log(sum(math.exp(log_normal(z, *q)) for q in posteriors)) - weight
        single = sum(
            math.log(sum(math.exp(log_normal(z[i : i + 1], m[i : i + 1], v[i : i + 1]))
                         for m, v in posteriors)) - weight
            for i in range(LATENTS)
        )  # fmt: skip
        total += joint - single
    return total / len(codes)


def textbook(fleet, m, method, sizes=(LATENTS,), s=None):
    if s is None:
        known = {"reference": 1.0, "standard": 2.0}
        exponents = torch.tensor([method.p0, method.p], dtype=torch.float64)
        s = known.get(method.scale) or unit_scale(exponents, str(LATENTS)).item()
    reconstruction, _, codes, posteriors = fleet.textbook_elbo(m)
    inside = [method.p] * LATENTS
    if method.learned:
        inside = [method.p + offset for offset in OFFSETS[m].tolist()]
    prior = mean(log_prior(z, sizes, method.p0, inside, s) for z in codes)
    if method.exact_entropy:
        posterior = mean(
            sum(-0.5 * (math.log(2 * math.pi * math.e) + v) for v in logvar)
            for _, logvar in posteriors
        )
    else:
        posterior = mean(log_normal(z, *q) for z, q in zip(codes, posteriors, strict=True))
    kl = posterior - prior
    if isinstance(method, ISATCVAE):
        weight = 1.0
        loss = kl + (method.beta - 1) * total_correlation(codes, posteriors, 11)
    else:
        weight = method.beta
        loss = method.beta * kl
    expected = {"model": reconstruction + loss, "reconstruction": reconstruction, "kl": kl}
    return expected | ({"prior": -weight * prior} if method.learned else {})


@pytest.mark.parametrize("exact_entropy", [False, True])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(("layout", "sizes"), [("1,2", (1, 2)), ("3", (3,)), ("3x1", (1, 1, 1))])
@both
def test_losses_are_those_of_the_textbook(fleet, kind, layout, sizes, learned, exact_entropy):
    chosen = methods(
        kind, layout=layout, learned=learned, exact_entropy=exact_entropy, scale="reference"
    )
    same(
        fleet.losses(*chosen),
        [textbook(fleet, m, one, sizes, 1.0) for m, one in enumerate(chosen)],
    )


@pytest.mark.parametrize(("scale", "value"), [("standard", 2.0), ("unit", 2.0931)])
def test_scales_follow_the_setting(fleet, scale, value):
    """At (2.1, 2.2) in subspaces of three; the specification's 2.0931 is that of four."""
    four = unit_scale(torch.tensor([2.1, 2.2], dtype=torch.float64), "4").item()
    assert scale == "standard" or four == pytest.approx(value, abs=5e-5)
    s = unit_scale(torch.tensor([2.1, 2.2], dtype=torch.float64), "3").item()
    s = s if scale == "unit" else value
    chosen = [ISAVAE(scale=scale)] * MODELS
    same(
        fleet.losses(*chosen),
        [textbook(fleet, m, one, (3,), s) for m, one in enumerate(chosen)],
        rtol=1e-6,  # strengths are float32
    )


def test_layouts_may_differ_within_a_fleet(fleet):
    layouts = ("1,2", "3", "2,1")
    chosen = [
        replace(one, layout=layout, learned=True)
        for one, layout in zip(methods(ISAVAE), layouts, strict=True)
    ]
    together = fleet.losses(*chosen)
    for m, one in enumerate(chosen):
        alone = fleet.alone(m).losses(one)
        for name, value in {**together.groups, **together.terms}.items():
            expected = {**alone.groups, **alone.terms}[name]
            torch.testing.assert_close(value[m : m + 1], expected, rtol=1e-12, atol=1e-12)
    other = fleet.losses(*[replace(one, layout="3") for one in chosen])
    changed = together.terms["kl"] != other.terms["kl"]
    assert changed.tolist() == [True, False, True]
    assert len({Config(method=one, latents=3).fleet for one in chosen}) == 1


def test_exponents_of_two_are_the_vae_to_monte_carlo_error(double):
    """20,000 codes of one posterior: the KL divergence and its closed form."""
    mu, logvar = torch.tensor([0.5, -1.0, 0.0]), torch.tensor([-2.0, -0.5, 0.3])
    count = 20_000
    nets = Nets(
        {
            "encoder": lambda x: torch.cat([mu, logvar]).expand(1, x.shape[1], 6),
            "decoder": lambda z: torch.zeros(1, z.shape[1], 1, 1, 1),
        },
        lambda decoded, images: torch.zeros(decoded.shape[:2]),
    )
    batch = Batch(torch.zeros(1, count, 1, 1, 1), torch.tensor([3]), torch.tensor(0), count)
    closed = Posterior(mu, logvar).kl().item()
    for entropy in (False, True):
        method = ISAVAE(p0=2.0, p=2.0, layout="1,2", exact_entropy=entropy)
        found = method.losses(nets, batch).terms["kl"].item()
        assert found == pytest.approx(closed, abs=0.02)
    assert BetaVAE(beta=1.0).losses(nets, batch).terms["kl"].item() == pytest.approx(closed)
    elsewhere = ISAVAE(p0=2.0, p=3.0, layout="1,2").losses(nets, batch).terms["kl"].item()
    assert abs(elsewhere - closed) > 0.02


def test_exponents_follow_finite_differences(fleet):
    chosen = methods(ISAVAE, layout="1,2", learned=True)
    parameters = fleet.parameters["exponents"].clone().requires_grad_()
    tracked = replace(fleet, parameters={**fleet.parameters, "exponents": parameters})
    (gradient,) = torch.autograd.grad(tracked.losses(*chosen).groups["prior"].sum(), [parameters])
    sides = []
    for step in (1e-6, -1e-6):
        moved = fleet.parameters["exponents"].clone()
        moved[:, 0] += step
        elsewhere = replace(fleet, parameters={**fleet.parameters, "exponents": moved})
        sides.append(elsewhere.losses(*chosen).groups["prior"])
    torch.testing.assert_close(gradient[:, 0], (sides[0] - sides[1]) / 2e-6, rtol=1e-6, atol=1e-7)
    assert (gradient[:, 1:] == 0).all()  # the layout has one subspace with an exponent


def test_learned_exponents_are_clamped_but_can_move_back(fleet):
    far = fleet.parameters["exponents"].clone()
    far[:, 0] = torch.tensor([-5.0, 50.0, 0.0])
    far.requires_grad_()
    moved = replace(fleet, parameters={**fleet.parameters, "exponents": far})
    loss = moved.losses(*methods(ISAVAE, layout="1,2", learned=True)).groups["prior"]
    bounded = [
        replace(one, p=p, layout="1,2", scale="reference")
        for one, p in zip(methods(ISAVAE), (1.05, 10.0, 4.0), strict=True)
    ]
    kl = moved.losses(*bounded).terms["kl"]
    unbounded = methods(ISAVAE, layout="1,2", learned=True, scale="reference")
    torch.testing.assert_close(moved.losses(*unbounded).terms["kl"], kl, rtol=1e-7, atol=1e-7)
    (gradient,) = torch.autograd.grad(loss.sum(), [far])
    assert (gradient[:2, 0] != 0).all()


# Whole training runs.

SMALL = {"batch": 16, "architecture": "small_mlp", "progress": False}


@pytest.fixture(scope="module")
def squares():
    """A white square of 3 × 3 at 10 × 10 places of 12 × 12 pixels."""
    images = np.zeros((100, 12, 12, 1), np.uint8)
    for place, (x, y) in enumerate(np.ndindex(10, 10)):
        images[place, x : x + 3, y : y + 3] = 255
    return uw.data.load(images)


@pytest.fixture(scope="module")
def trained(squares):
    method = ISAVAE(p=2.0, learned=True, beta=[1.0, 4.0])
    return uw.train(method, squares, steps=40, latents=8, optimiser=uw.Adam(lr=1e-3), **SMALL)


def test_learned_exponents_leave_their_start_and_are_followed(trained, tmp_path):
    for model in trained:
        p0, *inside = model.exponents
        assert p0 == pytest.approx(2.1)
        assert len(inside) == 2  # the layout of 8 latents is 2x4
        assert (np.abs(np.subtract(inside, 2.0)) > 0.005).all()
        curve = model.curve
        np.testing.assert_allclose(curve[["p_1", "p_2"]].iloc[-1], inside, rtol=1e-6)
        assert [name for name in curve if name.startswith("p_")] == [f"p_{i}" for i in range(1, 8)]
        assert curve[[f"p_{i}" for i in range(3, 8)]].isna().all(axis=None)
        assert np.isfinite(curve["prior loss"]).all()
        again = uw.load(model.save(tmp_path / model.config.hash))
        np.testing.assert_array_equal(again.exponents, model.exponents)
    assert (trained[0].exponents[1:] != trained[1].exponents[1:]).all()


def test_all_exponents_of_nested_layouts_are_followed(squares):
    method = ISAVAE(learned=True, layout=["1,(1,(1,2))", "(1,(1,(1,2)))", "5"])
    fleet = uw.train(method, squares, steps=2, latents=5, **SMALL)
    for model, count in zip(fleet, (3, 4, 1), strict=True):
        seen = model.curve[["p_1", "p_2", "p_3", "p_4"]].iloc[-1].to_numpy()
        np.testing.assert_array_equal(seen[:count], model.exponents[1:])
        assert (seen[:count] != np.float32(2.2)).all()
        assert np.isnan(seen[count:]).all()


def test_a_fleet_learns_the_exponents_that_each_model_learns_alone(squares):
    configs = [
        Config(
            method=ISAVAE(beta=beta, layout=layout, learned=True),
            seed=seed,
            latents=8,
            batch=16,
            architecture="small_mlp",
        )
        for beta, layout, seed in ((1.0, "2x4", 3), (4.0, "4,2,2", 5), (2.0, "2x4", 5))
    ]
    fleet = Engine(configs, squares, "cpu")
    fleet.advance(8)
    offsets = fleet.groups["prior"].parameters
    assert (offsets[:, :2] != 0).all()
    assert (offsets[:, 2] != 0).tolist() == [False, True, False]
    for place, config in enumerate(configs):
        alone = Engine([config], squares, "cpu")
        alone.advance(8)
        for name, group in alone.groups.items():
            torch.testing.assert_close(
                fleet.groups[name].parameters[place], group.parameters[0], rtol=0, atol=1e-6
            )


def test_exponents_stay_float32_in_bf16_runs(squares):
    config = Config(method=ISAVAE(learned=True), latents=4, precision="bf16")
    engine = Engine([config], squares, "cpu")
    assert engine.groups["model"].working.dtype == torch.bfloat16
    assert engine.groups["prior"].working is engine.groups["prior"].parameters


def test_samples_come_from_the_prior_of_the_model(trained):
    from unweave.plots.traversals import draw_prior

    codes = draw_prior(trained[0], 20_000, seed=1)
    start = torch.tensor([2.1, 2.0, 2.0])
    expected = variance(
        torch.tensor(trained[0].exponents), "2x4", float(unit_scale(start, "2x4"))
    ).numpy()
    np.testing.assert_allclose((codes**2).mean(0), expected, rtol=0.05)
    platykurtic = ISAVAE(p0=10.0, p=10.0)
    drawn = platykurtic.prior_samples(uw.random.Stream(0, "samples"), 20_000, 4, {}).numpy()
    kurtosis = (drawn**4).mean(0) / (drawn**2).mean(0) ** 2
    assert (kurtosis < 2.2).all()  # a normal distribution has 3, a uniform one 1.8


@both
def test_only_learned_exponents_have_a_network(kind):
    fixed = networks_of(Config(method=kind(), latents=20), (64, 64, 1))
    assert set(fixed) == {"model"}
    learned = networks_of(Config(method=kind(learned=True), latents=20), (64, 64, 1))
    assert len(learned["prior"]["exponents"]) == 20
    assert kind(learned=True).extra_optimisers()["prior"].lr == 5e-4


def test_layouts_that_are_not_given_are_the_published_ones():
    from unweave.methods.isa_vae import tree_for

    assert [tree_for("", d).sizes for d in (20, 10, 3)] == [(4,) * 5, (4, 3, 3), (3,)]
    assert tree_for("2x4,2x1", 10) == tree_of("4,4,1,1")


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"p0": 0.1}, "p0", 0.1),
        ({"p": [2.0, 30.0]}, "p", 30.0),
        ({"beta": -1}, "beta", -1),
        ({"learned": True, "p": 1.0}, "p", 1.0),
        ({"layout": tree_of("5x4")}, "layout", tree_of("5x4")),
        ({"layout": ["4,3,3", 10]}, "layout", 10),
        ({"scale": "big"}, "scale", "big"),
        ({"learned": 1}, "learned", 1),
    ],
)
def test_nonsense_is_refused(settings, field, value):
    with pytest.raises(UnweaveError, check=about(field, value)):
        ISAVAE(**settings)


def test_a_layout_that_cannot_be_read_is_shown():
    with pytest.raises(UnweaveError) as caught:
        ISAVAE(layout="5y4")
    assert "5y4" in str(caught.value)


def test_a_layout_of_another_size_is_refused(squares):
    with pytest.raises(UnweaveError, check=about("layout")):
        uw.train(ISAVAE(layout="5x4"), squares, steps=1, **SMALL)


def test_other_models_have_no_exponents(squares):
    (model,) = uw.train(BetaVAE(), squares, steps=1, **SMALL)
    with pytest.raises(UnweaveError, check=about("exponents")):
        model.exponents  # noqa: B018 (it raises)


def test_a_layout_of_another_size_is_refused_before_anything_is_planned():
    with pytest.raises(UnweaveError, check=about("layout")):
        Config(method=ISAVAE(layout="2x2"))
