"""Metrics against downstream accuracy and statistical efficiency."""

import numpy as np
import pandas as pd
import pytest

from unweave.analysis import downstream_agreement
from unweave.study import StudyTableError


@pytest.fixture
def table():
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


def test_accuracy_and_efficiency_are_told_apart(table):
    found = downstream_agreement(table)
    expected = [
        ["logistic", "accuracy", 100, -1],
        ["trees", "accuracy", 100, 1],
        ["trees", "accuracy", 10_000, 1],
        ["trees", "efficiency", 0, -1],
    ]
    got = found[["predictor", "measure", "rows", "spearman"]].to_numpy().tolist()
    assert got == [[*row[:3], pytest.approx(row[3])] for row in expected]


def test_models_without_accuracy_are_counted(table):
    table.loc[:2, "downstream.trees_accuracy_100"] = np.nan
    found = downstream_agreement(table).set_index("task")
    assert found.loc["downstream.trees_accuracy_100", ["models", "left_out"]].tolist() == [6, 3]
    assert found.loc["downstream.trees_efficiency", "left_out"] == 0


def test_other_columns_can_be_tasks(table):
    found = downstream_agreement(table, tasks=["downstream"])
    assert found[["predictor", "measure", "rows"]].to_numpy().tolist() == [["", "accuracy", 0]]


def test_no_accuracies(table):
    with pytest.raises(StudyTableError, match="no downstream accuracies; score the models"):
        downstream_agreement(table[["data", "mig"]])
