"""Metrics fall where a perfect code is entangled."""

import numpy as np
import pytest

from unweave.papers.common_assumptions.theory import impossibility as imp
from unweave.papers.common_assumptions.theory.collapse import collapse, perfect_code
from unweave.papers.theory import TheoryError

MIXED = [imp.PRIORS[name] for name in ("normal", "uniform", "beta", "exponential", "laplace")]


def same(name, dimensions):
    return [imp.PRIORS[name]] * dimensions


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
    table = collapse(imp.entangle(same("uniform", dimensions), alpha), "mig", classes=20)
    assert table["code"].item() == pytest.approx(0.997, abs=0.03)
    assert table["entangled"].item() == pytest.approx(published, abs=0.01)


def test_a_perfect_code_is_cut_into_equal_classes():
    codes, factors = perfect_code(MIXED, count=50_000, classes=4)
    for code, factor in zip(codes.T, factors.T, strict=True):
        assert np.bincount(factor) == pytest.approx(np.full(4, 12_500), abs=500)
        assert code[factor == 0].max() <= code[factor == 1].min()


@pytest.mark.parametrize("name", ["normal", "uniform", "laplace"])
def test_a_perfect_code_collapses(name):
    metrics = ["beta_vae", "factor_vae", "mig", "modularity", "sap", "mcc"]
    f = imp.entangle([imp.PRIORS[name]] * 2)
    table = collapse(f, metrics, count=4000).set_index("metric")
    best = {"beta_vae": 0.95, "factor_vae": 0.95, "mig": 0.6, "modularity": 0.95, "mcc": 0.95}
    for metric, least in best.items():
        assert table.loc[metric, "code"] > least, metric
    worst = {"beta_vae": 0.7, "factor_vae": 0.7, "mig": 0.05, "modularity": 0.3, "mcc": 0.75}
    for metric, most in worst.items():
        assert table.loc[metric, "entangled"] < most, metric
    assert table.loc["sap", "entangled"] < 0.1 * table.loc["sap", "code"]


def test_of_ten_coordinates_the_cosine_matrix_is_seen_by_all_metrics_and_the_proofs_by_few():
    priors = [imp.PRIORS["uniform"]] * 10
    metrics = ["beta_vae", "factor_vae", "mig"]
    proofs, stronger = (
        collapse(f, metrics, count=6000).set_index("metric").loc[metrics, "entangled"]
        for f in (imp.entangle(priors), imp.entangle_with(priors, imp.cosine(10)))
    )
    assert proofs.tolist() == pytest.approx([1, 1, 0.25], abs=0.03)
    assert (stronger < [0.6, 0.35, 0.02]).all()


def test_metrics_of_models_are_refused_for_codes():
    with pytest.raises(TheoryError, match="elbo needs a model"):
        collapse(imp.entangle(same("normal", 2)), "elbo")
