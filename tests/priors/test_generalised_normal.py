"""The p-generalised normal against SciPy's, and the Lp-nested distribution without subspaces."""

import math

import pytest
import torch
from scipy import stats
from torch.distributions import Normal

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.priors import lp_nested
from unweave.priors.generalised_normal import GeneralisedNormal, log_density, unit_scale

DRAWS = 100_000
EXPONENTS = torch.tensor([0.5, 1.0, 2.0, 3.3, 20.0], dtype=torch.float64)
SCALES = torch.tensor([0.3, 1.0, 2.0, 2.0, 5.0], dtype=torch.float64)


def of_scipy():
    pairs = zip(EXPONENTS.tolist(), SCALES.tolist(), strict=True)
    return [stats.gennorm(p, scale=s ** (1 / p)) for p, s in pairs]


def test_methods_equal_scipy():
    prior = GeneralisedNormal(EXPONENTS, SCALES)
    z = torch.linspace(-1.6, 1.7, 9, dtype=torch.float64)
    logs, below = prior.log_prob(z[:, None]), prior.cdf(z[:, None])
    for k, scipys in enumerate(of_scipy()):
        assert logs[:, k].tolist() == pytest.approx(scipys.logpdf(z).tolist(), rel=1e-9)
        assert below[:, k].tolist() == pytest.approx(scipys.cdf(z).tolist(), abs=1e-9)
        assert prior.variance[k].item() == pytest.approx(scipys.var())
        assert prior.entropy()[k].item() == pytest.approx(scipys.entropy(), abs=1e-9)
    assert (prior.cdf(torch.zeros(5, dtype=torch.float64)) == 0.5).all()
    assert prior.log_prob(prior.mode).ge(prior.log_prob(z[:, None])).all()


def test_samples_have_the_distribution():
    drawn = GeneralisedNormal(EXPONENTS, SCALES).sample((DRAWS,)).numpy()
    for z, scipys in zip(drawn.T, of_scipy(), strict=True):
        assert stats.kstest(z, scipys.cdf).pvalue > 0.01


def test_equal_exponents_are_a_tree_without_subspaces():
    z = torch.randn(3, 4, 5, dtype=torch.float64)
    p = torch.tensor([[0.7], [2.0], [9.0]], dtype=torch.float64)
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    expected = lp_nested.log_density(z, p, "5x1", scale)
    torch.testing.assert_close(log_density(z, p, scale[:, None]), expected)


def test_fleet_equals_single_models():
    z = torch.randn(3, 4, 5, dtype=torch.float64)
    p = 0.5 + 2 * torch.rand(3, 5, dtype=torch.float64)
    found = log_density(z, p, unit_scale(p))
    for m in range(3):
        each = GeneralisedNormal(p[m], unit_scale(p[m])).log_prob(z[m])
        torch.testing.assert_close(found[m], each.sum(1))


def test_scales():
    z = torch.linspace(-3, 3, 7, dtype=torch.float64)[:, None]
    two = torch.tensor([2.0], dtype=torch.float64)
    expected = Normal(0, two.new_ones(())).log_prob(z).sum(1)
    torch.testing.assert_close(log_density(z, two), expected, rtol=0, atol=1e-10)
    variances = GeneralisedNormal(EXPONENTS, unit_scale(EXPONENTS)).variance
    torch.testing.assert_close(variances, torch.ones_like(EXPONENTS))
    with pytest.raises(UnweaveError, check=about("scale", 0)):
        log_density(z, two, 0)


def test_gradients():
    z = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    p = EXPONENTS.clone().requires_grad_()
    assert torch.autograd.gradcheck(log_density, (z, p, SCALES.clone().requires_grad_()))
    zero = torch.zeros(1, 5, requires_grad=True)
    exponents = EXPONENTS.float().requires_grad_()
    log_density(zero, exponents).sum().backward()
    assert (zero.grad == 0).all()
    assert exponents.grad.isfinite().all()


def test_samples_are_differentiable():
    p = torch.tensor([1.2, 4.0], dtype=torch.float64, requires_grad=True)
    s = torch.tensor([0.8, 2.0], dtype=torch.float64, requires_grad=True)
    prior = GeneralisedNormal(p, s)
    drawn = prior.rsample((DRAWS,)).square().mean(0).sum()
    found, expected = (torch.autograd.grad(x, (p, s)) for x in (drawn, prior.variance.sum()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.01)


@pytest.mark.parametrize(("p", "straight", "turned"), [(1.0, 1.0, 0.943), (4.0, 0.4, 0.533)])
def test_which_orientation_of_a_square_a_prior_prefers(p, straight, turned):
    """Figure 3: leptokurtic priors prefer diagonals, platykurtic ones axes."""
    line = (torch.arange(400, dtype=torch.float64) + 0.5) / 200 - 1
    square = torch.cartesian_prod(line, line)
    diagonal = square @ torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64) / math.sqrt(2)
    exponent = torch.tensor([p], dtype=torch.float64)
    at_zero = log_density(torch.zeros(1, 2, dtype=torch.float64), exponent, 1.0)
    costs = [(at_zero - log_density(z, exponent, 1.0)).mean() for z in (square, diagonal)]
    assert [cost.item() for cost in costs] == pytest.approx([straight, turned], abs=6e-4)


def test_torch_distribution_interface():
    prior = GeneralisedNormal(torch.full((4, 1), 1.5), torch.tensor([1.0, 2.0]))
    assert (prior.batch_shape, prior.event_shape) == ((4, 2), ())
    assert prior.sample((3,)).shape == (3, 4, 2)
    assert GeneralisedNormal(1.5).sample().shape == ()
    wide = prior.expand((5, 4, 2))
    assert wide.rsample().shape == (5, 4, 2)
    assert torch.equal(wide.log_prob(torch.ones(2))[1], prior.log_prob(torch.ones(2)))
    with pytest.raises(ValueError, match="exponent"):
        GeneralisedNormal(-1.0)
    with pytest.raises(ValueError, match="scale"):
        GeneralisedNormal(1.0, 0.0)
    with pytest.raises(ValueError, match="support"):
        prior.log_prob(torch.tensor(math.nan))
