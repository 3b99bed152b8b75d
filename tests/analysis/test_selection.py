"""Scores without labels against metrics."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from unweave.analysis import unsupervised_selection
from unweave.study import StudyTableError


@pytest.fixture
def table():
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


def test_a_score_that_follows_a_metric_is_found(table):
    found = unsupervised_selection(table).set_index(["data", "score", "metric"])["spearman"]
    assert found["a", "reconstruction", "mig"] == pytest.approx(-1)
    assert found["b", "reconstruction", "mig"] == pytest.approx(1)
    expected = spearmanr(table["elbo"][:20], table["sap"][:20]).statistic
    assert found["a", "elbo", "sap"] == pytest.approx(expected)
    assert len(found) == 2 * 2 * 2


def test_scores_can_be_named(table):
    found = unsupervised_selection(table, scores=["sap"], metrics=["mig"])
    assert found[["score", "metric"]].drop_duplicates().to_numpy().tolist() == [["sap", "mig"]]


def test_no_such_score(table):
    with pytest.raises(StudyTableError, match="no score that needs no labels"):
        unsupervised_selection(table.drop(columns=["reconstruction", "elbo"]))
