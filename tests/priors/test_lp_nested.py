"""Lp-nested distributions: density, normaliser, gradients, samples, and fleets of them."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch.distributions import Laplace, Normal, kl_divergence

from tests.priors.textbook import NESTED, NESTED_EXPONENTS, NESTED_LISTS
from tests.priors.textbook import log_density as textbook_log_density
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.priors.layouts import tree_of
from unweave.priors.lp_nested import (
    LpNested,
    log_density,
    log_norm,
    log_surface,
    mixed_log_density,
    sample,
    unit_scale,
    variance,
)
from unweave.random import Stream

DRAWS = 100_000
FEWER = 20_000
FAR_APART = torch.tensor(NESTED_EXPONENTS, dtype=torch.float64)
ISA = torch.tensor([2.1, 3.5, 1.5], dtype=torch.float64)


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(
    ("layout", "nodes", "exponents"),
    [
        (NESTED, NESTED_LISTS, NESTED_EXPONENTS),
        ("2x2,1", [[0, 1], [2, 3], 4], [2.1, 1.9, 0.5]),
        ("3", [[0, 1, 2]], [0.5, 20.0]),
        ("4x1", [0, 1, 2, 3], [20.0]),
        ("(2x2)", [[[0, 1], [2, 3]]], [1.5, 2.5, 3.0, 0.8]),
    ],
)
def test_density_equals_the_equations(layout, nodes, exponents):
    codes = normal(5, tree_of(layout).num_latents)
    found = log_density(codes, torch.tensor(exponents, dtype=torch.float64), layout, scale=1.7)
    expected = [textbook_log_density(nodes, z, exponents, 1.7) for z in codes.tolist()]
    assert found.tolist() == pytest.approx(expected, rel=1e-9)


def test_density_of_subspaces_equals_the_paper():
    p0, s, sizes, p = 2.1, 1.3, (4, 3), (2.2, 1.9)
    z = normal(6, 7)
    expected = 0.0
    for n, own, part in zip(sizes, p, z.split(sizes, 1), strict=True):
        v = part.abs().pow(own).sum(1) ** (1 / own)
        expected = expected + math.log(p0) - n / p0 * math.log(s) - math.lgamma(n / p0)
        expected = expected - n * math.log(2) + (n - 1) * math.log(own) - n * math.lgamma(1 / own)
        expected = expected + math.lgamma(n / own) - v**p0 / s
    exponents = torch.tensor([p0, *p], dtype=torch.float64)
    torch.testing.assert_close(log_density(z, exponents, "4,3", s), expected, rtol=0, atol=1e-10)
    alone = [
        log_density(part, exponents[[0, k]], str(part.shape[1]), s)
        for k, part in enumerate(z.split(sizes, 1), start=1)
    ]
    torch.testing.assert_close(sum(alone), expected, rtol=0, atol=1e-10)


def quadrature(points):
    """Quadrature nodes and weights on (0, ∞), z = exp(π sinh t), for integrands singular at 0."""
    t = np.linspace(-2.2, 1.75, points)
    z = np.exp(np.pi * np.sinh(t))
    return torch.tensor(z), torch.tensor(z * np.pi * np.cosh(t) * (t[1] - t[0]))


@pytest.mark.parametrize(
    ("layout", "exponents"),
    [
        ("1", [0.5]),
        ("1", [20.0]),
        ("2", [0.5, 3.0]),
        ("2", [2.1, 0.7]),
        ("2x1", [1.3]),
        ("1,2", [1.0, 2.0]),
        ("1,2", [2.1, 3.5]),
        ("3", [4.0, 1.2]),
        ("(1,2)", [1.5, 2.5, 0.8]),
    ],
)
def test_density_integrates_to_1(layout, exponents):
    exponents = torch.tensor(exponents, dtype=torch.float64)
    dimensions = tree_of(layout).num_latents
    z, weights = quadrature(400 if dimensions < 3 else 90)
    grid = torch.cartesian_prod(*[z] * dimensions).reshape(-1, dimensions)
    volume = torch.cartesian_prod(*[weights] * dimensions).reshape(-1, dimensions).prod(1)
    whole = 2**dimensions * (log_density(grid, exponents, layout).exp() * volume).sum()
    assert whole.item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("layout", "exponents"),
    [(NESTED, [1.5, 2.5, 1.2, 2.0, 4.0, 3.0]), ("2x4,2x1", [2.1, 2.2, 1.9]), ("10", [3.0, 0.8])],
)
def test_density_integrates_to_1_in_ten_dimensions(layout, exponents):
    exponents = torch.tensor(exponents, dtype=torch.float64)
    scale = unit_scale(exponents, layout)
    proposal = Laplace(torch.zeros(10, dtype=torch.float64), 0.8)  # its tails are heavier
    z = proposal.sample((DRAWS,))
    weights = (log_density(z, exponents, layout, scale) - proposal.log_prob(z).sum(1)).exp()
    error = weights.std() / DRAWS**0.5
    assert error < 0.02
    assert abs(weights.mean() - 1) < 3 * error


@pytest.mark.parametrize("layout", ["5x4", "2x4,12x1", "20", "20x1", "2x(1,2),14"])
def test_exponents_of_2_are_the_standard_normal(layout):
    z = 2 * normal(50, 20)
    twos = torch.full((tree_of(layout).num_exponents,), 2.0, dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    expected = Normal(0, one).log_prob(z).sum(1)
    torch.testing.assert_close(log_density(z, twos, layout), expected, rtol=0, atol=1e-10)
    narrower = Normal(0, (one / 2).sqrt()).log_prob(z).sum(1)  # the scale of the authors' code
    torch.testing.assert_close(log_density(z, twos, layout, 1.0), narrower, rtol=0, atol=1e-10)
    assert unit_scale(twos, layout).item() == pytest.approx(2)


def test_monte_carlo_kl_equals_normal_kl_for_exponents_of_2():
    q = Normal(normal(4), torch.tensor([0.3, 0.5, 1.0, 1.2], dtype=torch.float64))
    z = q.sample((DRAWS,))
    twos = torch.full((3,), 2.0, dtype=torch.float64)
    draws = q.log_prob(z).sum(1) - log_density(z, twos, "2x2", 3.0)
    expected = kl_divergence(q, Normal(torch.zeros(4).double(), 1.5**0.5)).sum()
    assert abs(draws.mean() - expected) < 3 * draws.std() / DRAWS**0.5


def test_norms_and_surfaces_that_are_known():
    z = torch.tensor([[1.0, -3.0, 4.0], [0.0, 5.0, 0.0]])
    found = log_norm(z, torch.tensor([1.0, 2.0]), "1,2").exp()
    torch.testing.assert_close(found, torch.tensor([6.0, 5.0]))
    octahedron, double_cone = 4.0, 2 * math.pi  # three times their volumes
    assert log_surface(torch.tensor([1.0]), "3x1").exp().item() == pytest.approx(octahedron)
    assert log_surface(torch.tensor([1.0, 2.0]), "1,2").exp().item() == pytest.approx(double_cone)


def test_latents_may_be_swapped_inside_a_subspace_only():
    z = normal(8, 4)
    before = log_density(z, ISA, "2x2")
    inside = log_density(z[:, [1, 0, 3, 2]], ISA, "2x2")
    across = log_density(z[:, [2, 1, 0, 3]], ISA, "2x2")
    subspaces = log_density(z[:, [2, 3, 0, 1]], ISA, "2x2")
    torch.testing.assert_close(before, inside, rtol=0, atol=1e-12)
    assert (before - across).abs().min() > 1e-3
    assert (before - subspaces).abs().min() > 1e-3
    same = ISA[[0, 1, 1]]
    torch.testing.assert_close(
        log_density(z, same, "2x2"), log_density(z[:, [2, 3, 0, 1]], same, "2x2")
    )
    assert (
        log_density(z, same, "2x2") - log_density(z[:, [2, 1, 0, 3]], same, "2x2")
    ).abs().min() > 1e-3
    assert torch.equal(before, log_density(-z, ISA, "2x2"))


@pytest.mark.parametrize("pair", [(0, 1), (0, 2)], ids=["inside", "across"])
def test_density_is_rotation_invariant_only_for_exponents_of_2(pair):
    z = normal(8, 4)
    turned = z.clone()
    c, s = math.cos(0.5), math.sin(0.5)
    turned[:, pair[0]] = c * z[:, pair[0]] - s * z[:, pair[1]]
    turned[:, pair[1]] = s * z[:, pair[0]] + c * z[:, pair[1]]
    changes = log_density(turned, ISA, "2x2") - log_density(z, ISA, "2x2")
    assert changes.abs().min() > 1e-3
    twos = torch.full_like(ISA, 2.0)
    torch.testing.assert_close(log_density(turned, twos, "2x2"), log_density(z, twos, "2x2"))


@pytest.mark.parametrize("layout", [NESTED, "2x3,4x1", "2x5"])
def test_gradients_equal_finite_differences(layout):
    nodes = tree_of(layout).num_exponents
    z = normal(2, 3, 10).requires_grad_()
    exponents = (1.1 + 2 * torch.rand(2, nodes, dtype=torch.float64)).requires_grad_()
    scale = torch.tensor([1.0, 2.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *x: log_density(x[0], x[1], layout, x[2]), (z, exponents, scale)
    )


def test_gradients_in_exponents_equal_the_equations():
    p0, p, n, s = (
        torch.tensor(x, dtype=torch.float64) for x in (2.1, [3.5, 1.5], [2.0, 2.0], 1.3)
    )
    exponents = torch.cat([p0[None], p]).requires_grad_()
    z = normal(1, 4)
    log_density(z, exponents, "2x2", s).sum().backward()
    logs = z.abs().log().reshape(2, 2)
    L = (p[:, None] * logs).logsumexp(1)
    T = (p0 / p * L).exp()
    means = ((p[:, None] * logs).softmax(1) * logs).sum(1)
    of_subspaces = (n - 1) / p + n / p**2 * (torch.digamma(1 / p) - torch.digamma(n / p))
    of_subspaces -= T * p0 / s * (means / p - L / p**2)
    of_root = 1 / p0 + n / p0**2 * (s.log() + torch.digamma(n / p0)) - T * L / (s * p)
    expected = torch.cat([of_root.sum()[None], of_subspaces])
    torch.testing.assert_close(exponents.grad, expected, rtol=1e-8, atol=0)


@pytest.mark.parametrize("p0", [0.5, 1.0, 2.1, 20.0])
@pytest.mark.parametrize("p", [0.5, 1.0, 2.2, 20.0])
def test_float32_is_stable_near_zero_and_for_all_exponents(p0, p):
    patterns = torch.tensor(
        list(itertools.product([0.0, 1e-30, -1e-8, 1e-3, 0.7, -5.0], repeat=2))
    )
    codes = torch.cat([patterns, patterns.flip(0)], 1)
    found, expected = (
        gradients(codes.to(dtype), torch.tensor([p0, p, p], dtype=dtype))
        for dtype in (torch.float32, torch.float64)
    )
    # Differences of powers f^p₀ are only as accurate as the rounding of the powers.
    rounding = 1 + (p0 * log_norm(codes.double(), torch.tensor([p0, p, p]), "2x2")).exp()
    for single, double in zip(found, expected, strict=True):
        assert single.isfinite().all()
        error = (single - double).abs() / (double.abs() + rounding[:, None])
        assert error.max() < 2e-5
    assert (found[1][codes == 0] == 0).all()


def gradients(codes, exponents):
    """Log-density and its gradients in z and in the exponents, one row per code."""
    z = codes.clone().requires_grad_()
    each = exponents.expand(len(codes), -1).clone().requires_grad_()
    values = log_density(z[:, None], each, "2x2")
    return values.detach(), *torch.autograd.grad(values.sum(), (z, each))


def test_density_at_zero_is_its_largest():
    for p in (0.5, 2.0, 20.0):
        exponents = torch.tensor([p, p, p], dtype=torch.float64)
        zero = log_density(torch.zeros(1, 4, dtype=torch.float64), exponents, "2x2")
        exact = 4 * (math.log(p / 2) - math.lgamma(1 / p) - math.log(2) / p)
        assert zero.item() == pytest.approx(exact, abs=1e-12 + 4 * 1e-6**p)
        assert (log_density(0.01 * normal(20, 4), exponents, "2x2") <= zero).all()


def test_fleet_equals_single_models():
    exponents = torch.stack([FAR_APART, torch.full_like(FAR_APART, 2), FAR_APART.flip(0)])
    scales = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    z = normal(3, 7, 10)
    fleet = log_density(z, exponents, NESTED, scales)
    alone = [log_density(z[m], exponents[m], NESTED, scales[m]) for m in range(3)]
    torch.testing.assert_close(fleet, torch.stack(alone))
    stream = Stream(torch.tensor([5, 6, 7]), "samples")
    drawn = sample(stream, 9, exponents, NESTED, scales)
    assert drawn.shape == (3, 9, 10)
    for m in range(3):
        own = sample(Stream(5 + m, "samples"), 4, exponents[m], NESTED, scales[m])
        torch.testing.assert_close(own, drawn[m, :4])


def test_models_of_one_fleet_may_differ_in_layout():
    layouts = ["5x2", "10x1", NESTED, "5x2", "2,2,6x1"]
    exponents = 1 + torch.rand(5, 6, dtype=torch.float64)
    scales = torch.linspace(1, 3, 5, dtype=torch.float64)
    z = normal(5, 4, 10).requires_grad_()
    with torch.inference_mode():  # what is kept of a first call is good for the next
        mixed_log_density(z, exponents, layouts, scales)
    found = mixed_log_density(z, exponents, layouts, scales)
    alone = [
        log_density(z[m], exponents[m, : tree_of(layouts[m]).num_exponents], layouts[m], scales[m])
        for m in range(5)
    ]
    torch.testing.assert_close(found, torch.stack(alone))
    (gradient,) = torch.autograd.grad(found[1].sum(), z)
    assert gradient.abs().sum((1, 2)).gt(0).tolist() == [False, True, False, False, False]
    same = mixed_log_density(z, exponents, ["5x2"] * 5)
    torch.testing.assert_close(same, log_density(z, exponents, "5x2"))


def test_no_synchronisation_with_the_device():
    """Tensors without values cannot be read."""
    z, exponents, scale = (
        torch.empty(*shape, device="meta", requires_grad=True)
        for shape in ((3, 8, 10), (3, 6), (3,))
    )
    values = log_density(z, exponents, NESTED, scale)
    assert values.shape == (3, 8)
    values.sum().backward()
    assert z.grad.shape == z.shape
    assert exponents.grad.shape == exponents.shape


def by_stream(exponents, layout, draws=DRAWS):
    return sample(Stream(3, "samples"), draws, exponents, layout, 1.7)


def by_torch(exponents, layout):
    return LpNested(layout, exponents, 1.7).sample((DRAWS,))


@pytest.mark.parametrize("draw", [by_stream, by_torch])
def test_samples_have_the_distribution(draw):
    """Radius, shares of children at every kind of node, and signs, all transformed to uniform."""
    z = draw(FAR_APART, NESTED).numpy()
    p0, pa, paa, pb, pbb, pc = NESTED_EXPONENTS
    v = np.abs(z)
    aa, bb, c = (
        powers(v[:, part], p)
        for part, p in ((slice(1, 3), paa), (slice(4, 6), pbb), (slice(6, 10), pc))
    )
    a = powers(np.column_stack([v[:, 0], root(aa, paa)]), pa)
    b = powers(np.column_stack([v[:, 3], root(bb, pbb)]), pb)
    top = powers(np.column_stack([root(a, pa), root(b, pb), root(c, pc)]), p0)
    uniform = {
        "radius": special.gammainc(10 / p0, top.sum(1) / 1.7),
        "root": share(top, 0, 3 / p0, 7 / p0),
        "last of the root": share(top, 2, 4 / p0, 6 / p0),
        "subspace": share(a, 0, 1 / pa, 2 / pa),
        "its equal": share(b, 0, 1 / pb, 2 / pb),
        "subspace of it": share(aa, 1, 1 / paa, 1 / paa),
        "that of its equal": share(bb, 0, 1 / pbb, 1 / pbb),
        "latents": share(c, 3, 1 / pc, 3 / pc),
    }
    p_values = {what: stats.kstest(u, "uniform").pvalue for what, u in uniform.items()}
    assert min(p_values.values()) > 0.01, p_values
    signs = (z > 0).mean(0)
    assert abs(signs - 0.5).max() < 4 * 0.5 / DRAWS**0.5


def powers(v, p):
    return v**p


def root(powers, p):
    return powers.sum(1) ** (1 / p)


def share(powers, k, a, b):
    """Distribution function of a child's share, or of the rest if that is smaller."""
    others = np.delete(powers, k, 1).sum(1)
    own, rest = powers[:, k] / (powers[:, k] + others), others / (powers[:, k] + others)
    return np.where(own < rest, special.betainc(a, b, own), 1 - special.betainc(b, a, rest))


def test_samples_agree_with_the_density():
    exponents = torch.tensor([1.5, 2.5, 1.2, 2.0, 4.0, 3.0], dtype=torch.float64)
    scale = unit_scale(exponents, NESTED).item()
    z = sample(Stream(0, "samples"), FEWER, exponents, NESTED, scale)
    narrow = Normal(0, 0.6)
    ratios = (narrow.log_prob(z).sum(1) - log_density(z, exponents, NESTED, scale)).exp()
    error = ratios.std() / FEWER**0.5
    assert error < 0.02
    assert abs(ratios.mean() - 1) < 3 * error
    entropy = LpNested(NESTED, exponents, scale).entropy()
    found = -log_density(z, exponents, NESTED, scale)
    assert abs(found.mean() - entropy) < 3 * found.std() / FEWER**0.5


def test_variances_of_samples():
    squares = by_stream(FAR_APART, NESTED, FEWER).square()
    expected = variance(FAR_APART, NESTED, 1.7)
    error = squares.std(0) / FEWER**0.5
    assert ((squares.mean(0) - expected).abs() < 3 * error).all()
    assert (error / expected).max() < 0.02
    exponents = torch.tensor([2.1, 2.2, 1.9, 3.0], dtype=torch.float64)
    squares = by_torch(exponents, "4,3,3").square().mean(0).split([4, 3, 3])
    expected = variance(exponents, "4,3,3", 1.7)[[0, 4, 7]].tolist()
    assert [part.mean().item() for part in squares] == pytest.approx(expected, rel=0.01)


def test_scales_of_variance_1():
    exponents = torch.tensor([[2.1, 2.2], [2.1, 1.9]], dtype=torch.float64)
    assert unit_scale(exponents[0], "4").item() == pytest.approx(2.0931, abs=5e-5)
    assert unit_scale(exponents[1], "3").item() == pytest.approx(2.3368, abs=5e-5)
    scales = unit_scale(exponents, "4")
    torch.testing.assert_close(variance(exponents, "4", scales), torch.ones(2, 4).double())
    mixed = unit_scale(ISA, "4,3")
    assert variance(ISA, "4,3", mixed).mean().item() == pytest.approx(1)


def test_squares_correlate_inside_subspaces_only():
    exponents = torch.tensor([2.1, 3.5, 3.5], dtype=torch.float64)
    z = sample(Stream(0, "samples"), DRAWS, exponents, "2x2")
    correlation = np.corrcoef(z.square().numpy().T)
    assert correlation[0, 1] == pytest.approx(0.116, abs=0.015)
    assert correlation[2, 3] == pytest.approx(0.116, abs=0.015)
    assert abs(correlation[:2, 2:]).max() < 4 / DRAWS**0.5


class TestDistribution:
    """`LpNested` follows the conventions of torch distributions."""

    def test_shapes(self):
        prior = LpNested("1,2", torch.full((4, 1, 2), 2.2), torch.tensor([1.0, 2.0]))
        assert (prior.batch_shape, prior.event_shape) == ((4, 2), (3,))
        assert prior.sample((5,)).shape == prior.rsample((5,)).shape == (5, 4, 2, 3)
        assert prior.sample().shape == prior.variance.shape == prior.mean.shape == (4, 2, 3)
        assert prior.entropy().shape == (4, 2)
        assert prior.log_prob(torch.zeros(3)).shape == (4, 2)
        assert prior.log_prob(torch.zeros(6, 4, 2, 3)).shape == (6, 4, 2)
        wide = prior.expand((7, 4, 2))
        assert (wide.batch_shape, wide.sample().shape) == ((7, 4, 2), (7, 4, 2, 3))
        assert (wide.exponents.shape, wide.variance.shape) == ((7, 4, 2, 2), (7, 4, 2, 3))
        z = torch.randn(3)
        assert torch.equal(wide.log_prob(z)[3], prior.log_prob(z))

    def test_methods_equal_the_functions(self):
        prior = LpNested(NESTED, FAR_APART.expand(3, -1), torch.tensor([1.0, 2.0, 3.0]))
        z = normal(3, 5, 10)
        expected = log_density(z, prior.exponents, NESTED, prior.scale)
        torch.testing.assert_close(prior.log_prob(z.transpose(0, 1)), expected.T)
        torch.testing.assert_close(prior.variance, variance(prior.exponents, NESTED, prior.scale))
        assert (prior.log_prob(prior.mode) > prior.log_prob(0.1 * normal(3, 10))).all()

    def test_standard_normal(self):
        prior = LpNested("2x2", torch.full((3,), 2.0, dtype=torch.float64))
        assert prior.entropy().item() == pytest.approx(Normal(0, 1).entropy().item() * 4)
        torch.testing.assert_close(prior.stddev, torch.ones(4, dtype=torch.float64))

    def test_samples_are_differentiable_in_exponents_and_scale(self):
        """Means of gradients are gradients of means: here of the variance."""
        exponents = torch.tensor([2.1, 1.2, 4.0], dtype=torch.float64, requires_grad=True)
        scale = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
        prior = LpNested("1,(1,2)", exponents, scale)
        weights = torch.tensor([1.0, -2.0, 3.0, 1.0], dtype=torch.float64)
        drawn = (prior.rsample((DRAWS,)).square().mean(0) * weights).sum()
        exact = (prior.variance * weights).sum()
        found, expected = (
            torch.cat([g.reshape(-1) for g in torch.autograd.grad(x, (exponents, scale))])
            for x in (drawn, exact)
        )
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.02)
        assert not prior.sample().requires_grad

    def test_bad_arguments(self):
        with pytest.raises(ValueError, match="exponents"):
            LpNested("2", torch.tensor([2.0, -1.0]))
        with pytest.raises(ValueError, match="scale"):
            LpNested("2", torch.tensor([2.0, 1.0]), 0.0)
        prior = LpNested("2", torch.tensor([2.0, 1.0]))
        with pytest.raises(ValueError, match="support"):
            prior.log_prob(torch.tensor([0.0, math.nan]))
        with pytest.raises(ValueError, match="event_shape"):
            prior.log_prob(torch.zeros(3))
        with pytest.raises(UnweaveError, check=about("exponents", [3])):
            LpNested("2", torch.ones(3))


def test_invalid_shapes_are_rejected():
    z, exponents = torch.zeros(2, 5, 4), torch.full((2, 3), 2.0)
    with pytest.raises(UnweaveError, check=about("z", [2, 5, 3])):
        log_density(z[..., :3], exponents, "2x2")
    with pytest.raises(UnweaveError, check=about("exponents", [2, 2])):
        log_density(z, exponents[:, :2], "2x2")
    with pytest.raises(UnweaveError, check=about("scale", -1)):
        log_density(z, exponents, "2x2", -1.0)
    with pytest.raises(UnweaveError, check=about("layouts", 3)):
        mixed_log_density(z, exponents, ["2x2"] * 3)
