"""The theorem: the same law, every coordinate mixed into every other."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.distributions import Exponential, Laplace, Normal, Uniform

from unweave.papers.common_assumptions.theory import impossibility as imp
from unweave.papers.theory import TheoryError

MIXED = [imp.PRIORS[name] for name in ("normal", "uniform", "beta", "exponential", "laplace")]
ZERO, ONE = torch.tensor([0.0, 1.0], dtype=torch.float64)
TORCH = {
    "normal": Normal(ZERO, ONE),
    "uniform": Uniform(ZERO, ONE),
    "laplace": Laplace(ZERO, ONE),
    "exponential": Exponential(ONE),
}


def same(name, dimensions):
    return [imp.PRIORS[name]] * dimensions


def by_torch(name, dimensions, alpha):
    """f of one row once more, in torch alone and with its distributions."""
    law = TORCH[name]
    others = [(1 - alpha) / (dimensions - 1)] * (dimensions - 1)
    v = torch.tensor([alpha, *others], dtype=torch.float64).sqrt()
    entries = [
        [float(i == j) - 2 * v[i] * v[j] for j in range(dimensions)] for i in range(dimensions)
    ]
    matrix = torch.stack([torch.stack(row) for row in entries])

    def f(u):
        return law.icdf(torch.special.ndtr(matrix @ torch.special.ndtri(law.cdf(u))))

    return f


@pytest.mark.parametrize("dimensions", [2, 10])
@pytest.mark.parametrize("name", ["normal", "uniform", "laplace"])
def test_the_law_stays_and_coordinates_stay_independent(name, dimensions):
    found = imp.check(imp.entangle(same(name, dimensions)), count=100_000)
    assert found["ks"].min() > 1e-3
    assert found["largest_rank_correlation"].max() < 0.015  # 4.7 standard errors
    assert found["smallest_slope"].min() > 0
    assert found["undone"].max() < 1e-11
    assert found["volume"].max() < 1e-10


def test_laws_may_differ():
    found = imp.check(imp.entangle(MIXED, 0.3), count=100_000, seed=1)
    assert found["ks"].min() > 1e-3
    assert found["largest_rank_correlation"].max() < 0.015
    assert found["undone"].max() < 1e-11


def test_independence_is_more_than_no_correlation():
    mixed = imp.entangle(same("uniform", 2))(imp.draw(same("uniform", 2), 100_000))
    cells = np.histogram2d(*mixed.T, bins=8, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("dimensions", range(2, 11))
@pytest.mark.parametrize("name", list(TORCH))
def test_the_jacobian_is_that_of_automatic_differentiation(name, dimensions):
    alpha = 0.05 + 0.04 * dimensions
    f = imp.entangle(same(name, dimensions), alpha)
    rows = imp.draw(same(name, dimensions), 5, seed=dimensions)
    own = by_torch(name, dimensions, alpha)
    jacobians = f.jacobian(rows)
    assert np.abs(jacobians).min() > 0
    for row, value, jacobian, log_det in zip(
        rows, f(rows), jacobians, f.log_det(rows), strict=True
    ):
        u = torch.as_tensor(row)
        assert value == pytest.approx(own(u).numpy(), rel=1e-9)
        auto = torch.autograd.functional.jacobian(own, u)
        assert jacobian == pytest.approx(auto.numpy(), rel=1e-6, abs=1e-12)
        assert log_det == pytest.approx(torch.linalg.slogdet(auto)[1].item(), abs=1e-8)
        densities = TORCH[name].log_prob(u).sum() - TORCH[name].log_prob(own(u)).sum()
        assert log_det == pytest.approx(densities.item(), abs=1e-8)


def test_the_jacobian_is_that_of_finite_differences():
    f = imp.entangle(MIXED, 0.3)
    rows = imp.draw(MIXED, 50, seed=2)
    steps = 1e-6 * np.eye(5)
    numeric = np.stack([(f(rows + step) - f(rows - step)) / 2e-6 for step in steps], 2)
    assert f.jacobian(rows) == pytest.approx(numeric, rel=1e-5, abs=1e-8)
    assert f.log_det(rows) == pytest.approx(np.linalg.slogdet(numeric)[1], abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(list(imp.PRIORS)), min_size=2, max_size=8),
    st.floats(0.01, 0.49),
    st.integers(0, 1000),
)
def test_f_is_its_own_inverse(names, alpha, seed):
    priors = [imp.PRIORS[name] for name in names]
    f = imp.entangle(priors, alpha)
    rows = imp.draw(priors, 20, seed)
    assert f(f(rows)) == pytest.approx(rows, rel=1e-7, abs=1e-9)
    assert np.abs(f(rows) - rows).max() > 1e-6


def test_normal_coordinates_are_reflected():
    f = imp.entangle(same("normal", 4), 0.3)
    rows = imp.draw(same("normal", 4), 100)
    assert f(rows) == pytest.approx(rows @ f.matrix, abs=1e-12)
    assert np.linalg.norm(f(rows), axis=1) == pytest.approx(np.linalg.norm(rows, axis=1))


def test_the_reflection_has_the_entries_of_the_corrected_proof():
    matrix = imp.householder(3, 0.36)
    assert matrix[0, 0] == pytest.approx(1 - 2 * 0.36)
    assert matrix[0, 1] == pytest.approx(-2 * 0.6 * 0.32**0.5)
    assert matrix[1, 2] == pytest.approx(-2 * 0.32)
    assert matrix[2, 2] == pytest.approx(1 - 2 * 0.32)


@pytest.mark.parametrize("dimensions", [2, 3, 7, 10, 64])
def test_the_cosine_matrix_entangles_as_well(dimensions):
    matrix = imp.cosine(dimensions)
    assert matrix @ matrix == pytest.approx(np.eye(dimensions), abs=1e-12)
    assert matrix == pytest.approx(matrix.T)
    assert np.abs(matrix).min() > 1e-3
    f = imp.entangle_with(same("laplace", dimensions), matrix)
    rows = imp.draw(same("laplace", dimensions), 20)
    assert f(f(rows)) == pytest.approx(rows, rel=1e-7)


@pytest.mark.parametrize("name", list(imp.PRIORS))
def test_tails_are_kept(name):
    law = imp.PRIORS[name]
    f = imp.entangle([law] * 3, 0.2)
    far = np.array([law.ppf(1e-6), law.ppf(0.4), law.isf(1e-6)])[None]
    assert f(f(far)) == pytest.approx(far, rel=1e-8)
    assert not f.clipped(far).any()
    assert np.isfinite(f.jacobian(far)).all()
    assert np.isfinite(f.log_det(far)).all()


def test_beyond_the_clip_values_count_as_its_edge():
    f = imp.entangle(same("laplace", 2), 0.15)
    rows = np.array([[-1000.0, 0.0], [-50.0, 0.0], [0.0, 1000.0], [1.0, 2.0]])
    assert f.clipped(rows).tolist() == [True, True, True, False]
    mixed = f(rows)
    assert np.isfinite(mixed).all()
    assert mixed[0] == pytest.approx(mixed[1])
    assert f(mixed)[0, 0] == pytest.approx(stats.laplace.ppf(imp.EDGE), rel=1e-6)
    outside = imp.entangle(same("uniform", 2), 0.15)([[-3.0, 0.5]])
    assert outside == pytest.approx(imp.entangle(same("uniform", 2), 0.15)([[0.0, 0.5]]))


def test_small_tails_have_all_their_digits():
    """1 - 1e-11 as a number has five digits left of its tail; the law has more."""
    far = stats.expon.isf(1e-11)
    f = imp.entangle([stats.expon(), stats.norm()], 0.15)
    y = stats.norm.isf(1e-11)
    assert f([[far, 0.0]])[0, 1] == pytest.approx(f.matrix[0, 1] * y, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 0.5, 0.7, float("nan")])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_alpha_is_inside_0_and_a_half(alpha, dimensions):
    with pytest.raises(TheoryError, match="α must be above 0 and below ½"):
        imp.entangle(same("normal", dimensions), alpha)


def test_at_a_half_the_diagonal_is_0():
    with pytest.raises(TheoryError, match="at ½ the diagonal of A is 0"):
        imp.householder(2, 0.5)


@pytest.mark.parametrize("dimensions", [0, 1])
def test_one_coordinate_cannot_be_entangled(dimensions):
    with pytest.raises(TheoryError, match="at least two coordinates"):
        imp.entangle(same("normal", dimensions), 0.2)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(2), "no zeros"),
        (np.ones((2, 2)), "its own inverse"),
        (np.array([[0.6, -0.8], [0.8, 0.6]]), "its own inverse"),
        (imp.cosine(3), r"\[2, 2\], but got \[3, 3\]"),
    ],
)
def test_a_matrix_that_does_not_entangle_is_refused(matrix, message):
    with pytest.raises(TheoryError, match=message):
        imp.entangle_with(same("normal", 2), matrix)


def test_what_is_no_density_is_refused():
    with pytest.raises(TheoryError, match=r"as scipy\.stats\.norm"):
        imp.entangle([Normal(0, 1), Normal(0, 1)])
    with pytest.raises(TheoryError, match=r"\[rows, 2\]"):
        imp.entangle(same("normal", 2))(np.zeros((4, 3)))
