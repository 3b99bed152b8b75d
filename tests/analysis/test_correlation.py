"""Rank correlations: comparison with SciPy, label-free scores and downstream tasks."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from tests.raising import about
from unweave.analysis import downstream_agreement, metric_agreement, unsupervised_selection
from unweave.analysis.correlation import spearman
from unweave.study import StudyTableError


def columns(seed, rows=200, width=4):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(rows, 1))
    return (shared + rng.normal(size=(rows, width))).round(1)  # rounded: ties


def test_spearman_equals_scipy():
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


@pytest.fixture
def label_free():
    rng = np.random.default_rng(0)
    mig = rng.random(40)
    return pd.DataFrame(
        {
            "data": np.repeat(["a", "b"], 20),
            "mig": mig,
            "sap": rng.random(40),
            "reconstruction": np.where(np.arange(40) < 20, -mig, mig),
            "elbo": rng.random(40),
        }
    )


def test_a_score_that_follows_a_metric_is_found(label_free):
    found = unsupervised_selection(label_free).set_index(["data", "score", "metric"])["spearman"]
    assert found["a", "reconstruction", "mig"] == pytest.approx(-1)
    assert found["b", "reconstruction", "mig"] == pytest.approx(1)
    expected = spearmanr(label_free["elbo"][:20], label_free["sap"][:20]).statistic
    assert found["a", "elbo", "sap"] == pytest.approx(expected)
    assert len(found) == 2 * 2 * 2


def test_scores_can_be_named(label_free):
    found = unsupervised_selection(label_free, scores=["sap"], metrics=["mig"])
    assert found[["score", "metric"]].drop_duplicates().to_numpy().tolist() == [["sap", "mig"]]


def test_no_such_score(label_free):
    with pytest.raises(StudyTableError, check=about("label-free score", None)):
        unsupervised_selection(label_free.drop(columns=["reconstruction", "elbo"]))


@pytest.fixture
def accuracies():
    """Accuracy follows MIG; efficiency, from the same accuracies, goes against it."""
    mig = np.linspace(0.1, 0.9, 9)
    many, few = 0.5 + mig / 2, 0.5 + mig / 10
    return pd.DataFrame(
        {
            "data": "dsprites",
            "mig": mig,
            "downstream": many,
            "downstream.trees_efficiency": few / many,
            "downstream.trees_accuracy_10000": many,
            "downstream.trees_accuracy_100": few,
            "downstream.trees_accuracy_100_factor_0": 0.0,
            "downstream.trees_worst_100": 0.0,
            "downstream.logistic_accuracy_100": few[::-1],
        }
    )


def test_accuracy_and_efficiency_are_separate(accuracies):
    found = downstream_agreement(accuracies)
    expected = [
        ["logistic", "accuracy", 100, -1],
        ["trees", "accuracy", 100, 1],
        ["trees", "accuracy", 10_000, 1],
        ["trees", "efficiency", 0, -1],
    ]
    got = found[["predictor", "measure", "rows", "spearman"]].to_numpy().tolist()
    assert got == [[*row[:3], pytest.approx(row[3])] for row in expected]


def test_models_without_accuracy_are_counted(accuracies):
    accuracies.loc[:2, "downstream.trees_accuracy_100"] = np.nan
    found = downstream_agreement(accuracies).set_index("task")
    assert found.loc["downstream.trees_accuracy_100", ["models", "left_out"]].tolist() == [6, 3]
    assert found.loc["downstream.trees_efficiency", "left_out"] == 0


def test_other_columns_can_be_tasks(accuracies):
    found = downstream_agreement(accuracies, tasks=["downstream"])
    assert found[["predictor", "measure", "rows"]].to_numpy().tolist() == [["", "accuracy", 0]]


def test_missing_accuracies_are_rejected(accuracies):
    with pytest.raises(StudyTableError, check=about("tasks", None)):
        downstream_agreement(accuracies[["data", "mig"]])
