"""Requirements of a study table, and errors."""

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave import analysis
from unweave.analysis.study_table import SUPERVISED, cells, higher_is_better, numbers
from unweave.study import StudyTableError

TABLE = pd.DataFrame({"data": "a", "method": "vae", "strength": [1.0, 2], "mig": [0.1, 0.2]})


@pytest.mark.parametrize("column", ["data", "method", "strength"])
def test_a_missing_column_is_named(column):
    with pytest.raises(StudyTableError, check=about(column, None)):
        analysis.score_distributions(TABLE.drop(columns=column))


def test_missing_requested_score_is_named():
    with pytest.raises(StudyTableError, check=about("sap", None)):
        analysis.variance_explained(TABLE, metrics=["mig", "sap"])


def test_no_score_at_all():
    with pytest.raises(StudyTableError, check=about("disentanglement score", None)):
        analysis.metric_agreement(TABLE.drop(columns="mig"))


def test_invalid_tables_are_rejected():
    with pytest.raises(StudyTableError, check=about("table", dict)):
        analysis.variance_explained({"mig": [1]})
    with pytest.raises(StudyTableError, check=about("table", 0)):
        analysis.variance_explained(TABLE.iloc[:0])


def test_non_numeric_scores_are_rejected():
    table = TABLE.assign(mig=["high", "low"])
    with pytest.raises(StudyTableError, check=about("mig", table["mig"].dtype)):
        analysis.variance_explained(table)


def test_non_finite_numbers_are_missing():
    table = pd.DataFrame({"mig": [1.0, np.inf, -np.inf, np.nan]})
    np.testing.assert_array_equal(numbers(table, ["mig"])[:, 0], [1, np.nan, np.nan, np.nan])


def test_nullable_columns_are_read():
    table = pd.DataFrame({"mig": pd.array([0.5, None], dtype="Float64")})
    np.testing.assert_array_equal(numbers(table, ["mig"])[:, 0], [0.5, np.nan])


def test_missing_strength_is_a_separate_cell():
    table = pd.DataFrame({"method": list("bvbv"), "strength": [1.0, np.nan, 1, np.nan]})
    index, combinations = cells(table, ("method", "strength"))
    assert index.tolist() == [0, 1, 0, 1]
    assert combinations["method"].tolist() == ["b", "v"]
    assert np.isnan(combinations["strength"][1])


def test_scores_where_lower_is_better_change_sign():
    columns = ["mig", "gaussian_total_correlation", "sampled.gaussian_total_correlation", "mine"]
    table = pd.DataFrame([[1.0, 2, 3, 4]], columns=columns)
    assert higher_is_better(table, columns).tolist() == [[1, -2, -3, 4]]


def test_scores_without_a_direction_are_rejected():
    with pytest.raises(StudyTableError, check=about("active_units", None)):
        higher_is_better(pd.DataFrame({"active_units": [1.0]}), ["active_units"])


def test_scores_of_disentanglement_are_those_of_factors():
    assert {"mig", "dci", "factor_vae", "beta_vae", "modularity", "sap"} <= set(SUPERVISED)
    assert not {"downstream", "elbo", "gaussian_total_correlation"} & set(SUPERVISED)
