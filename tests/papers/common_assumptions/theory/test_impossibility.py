"""Theorem 1: f preserves the distribution and mixes all coordinates."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.distributions import Exponential, Laplace, Normal, Uniform

from tests.raising import about
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
    """Reference implementation of f for one row, in torch."""
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
def test_f_preserves_distribution_and_independence(name, dimensions):
    found = imp.check(imp.entangle(same(name, dimensions)), count=100_000)
    assert found["ks"].min() > 1e-3
    assert found["largest_rank_correlation"].max() < 0.015  # 4.7 standard errors
    assert found["smallest_slope"].min() > 0
    assert found["undone"].max() < 1e-11
    assert found["volume"].max() < 1e-10


def test_priors_may_differ():
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
def test_the_jacobian_matches_automatic_differentiation(name, dimensions):
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


def test_the_jacobian_matches_finite_differences():
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
def test_tails_are_preserved(name):
    law = imp.PRIORS[name]
    f = imp.entangle([law] * 3, 0.2)
    far = np.array([law.ppf(1e-6), law.ppf(0.4), law.isf(1e-6)])[None]
    assert f(f(far)) == pytest.approx(far, rel=1e-8)
    assert not f.clipped(far).any()
    assert np.isfinite(f.jacobian(far)).all()
    assert np.isfinite(f.log_det(far)).all()


def test_values_beyond_the_clip_map_to_its_edge():
    f = imp.entangle(same("laplace", 2), 0.15)
    rows = np.array([[-1000.0, 0.0], [-50.0, 0.0], [0.0, 1000.0], [1.0, 2.0]])
    assert f.clipped(rows).tolist() == [True, True, True, False]
    mixed = f(rows)
    assert np.isfinite(mixed).all()
    assert mixed[0] == pytest.approx(mixed[1])
    assert f(mixed)[0, 0] == pytest.approx(stats.laplace.ppf(imp.EDGE), rel=1e-6)
    outside = imp.entangle(same("uniform", 2), 0.15)([[-3.0, 0.5]])
    assert outside == pytest.approx(imp.entangle(same("uniform", 2), 0.15)([[0.0, 0.5]]))


def test_small_tails_are_accurate():
    """As a float, 1 - 1e-11 keeps only five digits of its tail."""
    far = stats.expon.isf(1e-11)
    f = imp.entangle([stats.expon(), stats.norm()], 0.15)
    y = stats.norm.isf(1e-11)
    assert f([[far, 0.0]])[0, 1] == pytest.approx(f.matrix[0, 1] * y, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 0.5, 0.7, float("nan")])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_alpha_must_be_between_0_and_a_half(alpha, dimensions):
    with pytest.raises(TheoryError, check=about("alpha", alpha)):
        imp.entangle(same("normal", dimensions), alpha)


@pytest.mark.parametrize("dimensions", [0, 1])
def test_one_coordinate_cannot_be_entangled(dimensions):
    with pytest.raises(TheoryError, check=about("dimensions", dimensions)):
        imp.entangle(same("normal", dimensions), 0.2)


@pytest.mark.parametrize(
    ("matrix", "value"),
    [
        (np.eye(2), 0.0),  # its smallest entry
        (np.ones((2, 2)), 2.0),  # how far its square is from the identity
        (np.array([[0.6, -0.8], [0.8, 0.6]]), pytest.approx(1.28)),
        (imp.cosine(3), (3, 3)),  # its shape
    ],
)
def test_invalid_matrices_are_rejected(matrix, value):
    with pytest.raises(TheoryError, check=about("matrix", value)):
        imp.entangle_with(same("normal", 2), matrix)


def test_invalid_priors_and_codes_are_rejected():
    with pytest.raises(TheoryError, check=about("priors")):
        imp.entangle([Normal(0, 1), Normal(0, 1)])
    with pytest.raises(TheoryError, check=about("codes", (4, 3))):
        imp.entangle(same("normal", 2))(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("dimensions", "alpha", "published"),
    [
        (2, 0.05, 0.228),
        (2, 0.15, 0.007),
        (2, 0.25, 0.174),
        (2, 0.45, 0.656),
        (3, 1 / 3, 0.002),
        (5, 0.2, 0.042),
    ],
)
def test_mig_of_an_entangled_code(dimensions, alpha, published):
    table = imp.collapse(imp.entangle(same("uniform", dimensions), alpha), "mig", classes=20)
    assert table["code"].item() == pytest.approx(0.997, abs=0.03)
    assert table["entangled"].item() == pytest.approx(published, abs=0.01)


def test_a_perfect_code_is_cut_into_equal_classes():
    codes, factors = imp.perfect_code(MIXED, count=50_000, classes=4)
    for code, factor in zip(codes.T, factors.T, strict=True):
        assert np.bincount(factor) == pytest.approx(np.full(4, 12_500), abs=500)
        assert code[factor == 0].max() <= code[factor == 1].min()


@pytest.mark.parametrize("name", ["normal", "uniform", "laplace"])
def test_a_perfect_code_collapses(name):
    metrics = ["beta_vae", "factor_vae", "mig", "modularity", "sap", "mcc"]
    f = imp.entangle([imp.PRIORS[name]] * 2)
    table = imp.collapse(f, metrics, count=4000).set_index("metric")
    best = {"beta_vae": 0.95, "factor_vae": 0.95, "mig": 0.6, "modularity": 0.95, "mcc": 0.95}
    for metric, least in best.items():
        assert table.loc[metric, "code"] > least, metric
    worst = {"beta_vae": 0.7, "factor_vae": 0.7, "mig": 0.05, "modularity": 0.3, "mcc": 0.75}
    for metric, most in worst.items():
        assert table.loc[metric, "entangled"] < most, metric
    assert table.loc["sap", "entangled"] < 0.1 * table.loc["sap", "code"]


def test_with_ten_coordinates_all_metrics_detect_cosine_but_few_the_reflection():
    priors = [imp.PRIORS["uniform"]] * 10
    metrics = ["beta_vae", "factor_vae", "mig"]
    proofs, stronger = (
        imp.collapse(f, metrics, count=6000).set_index("metric").loc[metrics, "entangled"]
        for f in (imp.entangle(priors), imp.entangle_with(priors, imp.cosine(10)))
    )
    assert proofs.tolist() == pytest.approx([1, 1, 0.25], abs=0.03)
    assert (stronger < [0.6, 0.35, 0.02]).all()


def test_metrics_that_need_models_are_rejected():
    with pytest.raises(TheoryError, check=about("metrics", "elbo")):
        imp.collapse(imp.entangle(same("normal", 2)), "elbo")
