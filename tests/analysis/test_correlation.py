"""Rank correlations are scipy's, pair by pair, and count who is left out."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from unweave.analysis import metric_agreement
from unweave.analysis.correlation import spearman


def columns(seed, rows=200, width=4):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(rows, 1))
    return (shared + rng.normal(size=(rows, width))).round(1)  # rounded: ties


def test_spearman_is_scipys():
    left, right = columns(0), columns(1)
    rho, count = spearman(left, right)
    expected = spearmanr(left, right).statistic[:4, 4:]
    np.testing.assert_allclose(rho, expected, atol=1e-12)
    assert (count == 200).all()


def test_missing_numbers_are_left_out_pair_by_pair():
    left, right = columns(0), columns(1)
    rng = np.random.default_rng(2)
    left[rng.random(left.shape) < 0.2] = np.nan
    right[:7] = np.nan
    rho, count = spearman(left, right)
    for a in range(4):
        for b in range(4):
            both = ~np.isnan(left[:, a]) & ~np.isnan(right[:, b])
            assert count[a, b] == both.sum()
            expected = spearmanr(left[both, a], right[both, b]).statistic
            assert rho[a, b] == pytest.approx(expected, abs=1e-12)


def test_constant_and_lone_numbers_have_no_correlation():
    values = np.array([[1.0, 1, np.nan], [2, 1, np.nan], [3, 1, 5]])
    rho, count = spearman(values, values)
    assert rho[0, 0] == pytest.approx(1)
    assert np.isnan(rho[1]).all()
    assert np.isnan(rho[2]).all()
    assert count.tolist() == [[3, 3, 1], [3, 3, 1], [1, 1, 1]]


def test_metrics_are_compared_within_each_data_set():
    table = pd.DataFrame(
        {
            "data": list("aaabbb"),
            "mig": [1.0, 2, 3, 1, 2, 3],
            "dci": [10.0, 20, 30, 3, 2, 1],
            "sap": [1.0, 2, np.nan, 1, 2, 3],
        }
    )
    found = metric_agreement(table).set_index(["data", "metric", "other"])
    assert found.loc[("a", "mig", "dci"), "spearman"] == pytest.approx(1)
    assert found.loc[("b", "mig", "dci"), "spearman"] == pytest.approx(-1)
    assert found.loc[("b", "dci", "sap"), "spearman"] == pytest.approx(-1)
    assert found.loc[("a", "mig", "sap"), ["models", "left_out"]].tolist() == [2, 1]
    assert found.loc[("b", "mig", "sap"), ["models", "left_out"]].tolist() == [3, 0]
    assert len(found) == 2 * 9


def test_models_of_one_method_can_be_compared():
    """Two methods in opposite corners: alike over all models, opposed within each."""
    table = pd.DataFrame(
        {
            "data": "a",
            "method": list("vvff"),
            "mig": [1.0, 2, 11, 12],
            "dci": [2.0, 1, 12, 11],
        }
    )
    over_all = metric_agreement(table).set_index(["metric", "other"])["spearman"]
    within = metric_agreement(table, by=("data", "method"))
    assert over_all["mig", "dci"] == pytest.approx(0.6)
    opposed = within[within["metric"] != within["other"]]
    assert opposed["spearman"].tolist() == pytest.approx([-1] * 4)
    assert opposed["method"].tolist() == ["v", "v", "f", "f"]
