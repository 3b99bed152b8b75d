"""Variance explained: constructed cells, noise, and published tables."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau
from sklearn.linear_model import LinearRegression

from tests.raising import about
from unweave.analysis import (
    compare_variance,
    order,
    published_variance,
    variance_explained,
    variance_orderings,
)
from unweave.analysis.variance import OBJECTIVE, OBJECTIVE_STRENGTH
from unweave.data import DATASETS
from unweave.metrics import CLASSIC
from unweave.study import StudyTableError


def both(table):
    found = variance_explained(table, metrics=["mig"])
    return found.set_index(["data", "grouping"])


def test_r2_of_constructed_cells_is_exact(design):
    """Methods at 0 … 5, strengths at 0 … 5 within each, seeds at ±1: variances 35/12, 35/12, 1."""
    table = design(data=("a",), seeds=2)
    method = pd.factorize(table["method"])[0]
    strength = table.groupby("method")["strength"].rank("dense") - 1
    table["mig"] = method + strength + (2 * table["seed"] - 1)
    found = both(table)
    part, total = 35 / 12, 35 / 12 + 35 / 12 + 1
    assert found.loc[("a", OBJECTIVE), "r2"] == pytest.approx(part / total, abs=1e-12)
    assert found.loc[("a", OBJECTIVE_STRENGTH), "r2"] == pytest.approx(2 * part / total, abs=1e-12)
    assert found["cells"].tolist() == [6, 36]
    adjusted = 1 - (1 - 2 * part / total) * 71 / 36
    assert found.loc[("a", OBJECTIVE_STRENGTH), "adjusted_r2"] == pytest.approx(adjusted)


def test_all_or_nothing_is_explained(design):
    table = design(data=("a",), seeds=2)
    level = pd.factorize(table["method"])[0].astype(float)
    assert both(table.assign(mig=level))["r2"].tolist() == pytest.approx([1, 1])
    seeds = both(table.assign(mig=table["seed"].astype(float)))
    assert seeds["r2"].tolist() == pytest.approx([0, 0], abs=1e-12)


def test_r2_equals_regression_on_one_hot_cells(design):
    table = design(data=("a",), seeds=3)
    rng = np.random.default_rng(0)
    table["mig"] = rng.random(len(table)) + 0.1 * pd.factorize(table["method"])[0]
    table = table.drop(index=[0, 5, 17])  # unbalanced
    found = both(table)["r2"]
    for grouping, keys in (
        (OBJECTIVE, table["method"]),
        (OBJECTIVE_STRENGTH, table["method"] + table["strength"].astype(str)),
    ):
        one_hot = pd.get_dummies(keys).to_numpy(float)
        expected = LinearRegression(fit_intercept=False).fit(one_hot, table["mig"])
        score = expected.score(one_hot, table["mig"])
        assert found["a", grouping] == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_strength_never_explains_less(design, seed):
    table = design(seeds=2)
    table["mig"] = np.random.default_rng(seed).random(len(table))
    wide = variance_explained(table).pivot(index="data", columns="grouping", values="r2")
    assert (wide[OBJECTIVE_STRENGTH] >= wide[OBJECTIVE]).all()


def test_the_null_level_is_that_of_the_full_design(full):
    found = variance_explained(full[full["data"] == "dsprites"], metrics=["mig"])
    assert found["null_r2"].tolist() == pytest.approx([5 / 1799, 35 / 1799])


def test_noise_reaches_the_null_level_and_adjusts_to_zero(design):
    """Means over 300 data sets; an R² of noise is Beta-distributed with the null level as mean."""
    names = [str(number) for number in range(300)]
    table = design(data=names, seeds=2)
    table["mig"] = np.random.default_rng(0).normal(size=len(table))
    found = variance_explained(table)
    means = found.groupby("grouping")[["r2", "adjusted_r2"]].mean()
    assert means.loc[OBJECTIVE_STRENGTH, "r2"] == pytest.approx(35 / 71, abs=0.02)
    assert means.loc[OBJECTIVE, "r2"] == pytest.approx(5 / 71, abs=0.02)
    assert means["adjusted_r2"].tolist() == pytest.approx([0, 0], abs=0.03)


def test_diverged_models_are_left_out_and_counted(design):
    table = design(data=("a",), seeds=2)
    table["mig"] = np.random.default_rng(0).random(len(table))
    broken = table.assign(mig=table["mig"].where(table["method"] != "dip_vae_i"))
    found = both(broken)
    expected = both(table[table["method"] != "dip_vae_i"])
    assert found["left_out"].tolist() == [12, 12]
    assert found["cells"].tolist() == [5, 30]
    for column in ("r2", "adjusted_r2", "null_r2"):
        assert found[column].tolist() == pytest.approx(expected[column].tolist())


def test_strengths_of_two_methods_are_different_cells():
    table = pd.DataFrame({"data": "a", "method": list("vvff"), "strength": [1.0, 2, 1, 2]})
    assert both(table.assign(mig=[1.0, 2, 3, 4]))["cells"].tolist() == [2, 4]


def test_undefined_r2_is_nan():
    table = pd.DataFrame({"data": "a", "method": list("vf"), "strength": 1.0})
    assert both(table.assign(mig=0.1 + 0.2))["r2"].isna().all()
    assert both(table.assign(mig=[1.0, 2]))["adjusted_r2"].isna().all()
    nothing = both(table.assign(mig=np.nan))
    assert nothing["r2"].isna().all()
    assert nothing["left_out"].tolist() == [2, 2]


def explained(r2):
    """Result of `variance_explained` for the published cells, with other numbers."""
    return published_variance().assign(r2=r2, adjusted_r2=r2, null_r2=0.0)


def test_published_tables_are_complete_and_use_library_names():
    tables = published_variance()
    assert len(tables) == 2 * 7 * 6
    assert set(tables["metric"]) == set(CLASSIC)
    assert set(tables["data"]) <= set(DATASETS)
    assert tables["r2"].between(0.01, 0.93).all()


def test_in_every_cell_strength_explains_more():
    wide = published_variance().pivot(index=["data", "metric"], columns="grouping", values="r2")
    assert (wide[OBJECTIVE_STRENGTH] > wide[OBJECTIVE]).all()


@pytest.mark.parametrize(
    ("grouping", "rows", "columns"),
    [
        (OBJECTIVE, [147, 199, 113, 376, 122, 392, 203], [265, 279, 290, 233, 278, 207]),
        (OBJECTIVE_STRENGTH, [242, 382, 192, 459, 335, 499, 357], [399, 509, 399, 449, 369, 341]),
    ],
)
def test_published_row_and_column_sums(grouping, rows, columns):
    """Sums over the published rows and columns."""
    tables = published_variance()
    percent = tables[tables["grouping"] == grouping].assign(r2=lambda table: 100 * table["r2"])
    by_data = percent.groupby("data", sort=False)["r2"].sum()
    by_metric = percent.groupby("metric", sort=False)["r2"].sum()
    assert by_data.tolist() == pytest.approx(rows)
    assert by_metric.tolist() == pytest.approx(columns)


def test_an_ordering_holds_only_where_every_pair_agrees():
    assert order([3, 2, 1], [30, 20, 10]).holds
    one_wrong = order([4, 3, 2, 1], [40, 30, 10, 20])
    assert (one_wrong.pairs, one_wrong.agreeing, one_wrong.holds) == (6, 5, False)
    assert "5 of 6" in str(one_wrong)
    assert "0 of 3" in str(order([1, 2, 3], [3, 2, 1]))


def test_agreeing_pairs_equal_kendall():
    rng = np.random.default_rng(0)
    first, second = rng.random(30), rng.random(30)
    found = order(first, second)
    tau = (2 * found.agreeing - found.pairs) / found.pairs
    assert tau == pytest.approx(kendalltau(first, second).statistic)


def test_ties_and_slack_and_missing_numbers():
    assert order([1, 1, 2], [5, 6, 7]).pairs == 2
    assert order([1, 1, 2], [7, 7, 7]).agreeing == 0
    assert order([1.0, 1.4, 2], [1, 2, 3], slack=0.5).pairs == 2
    assert order([1, 2, 3], [1, np.nan, 2]).pairs == 1
    assert not order([1], [1]).holds
    assert order([], []).pairs == 0


def test_lists_of_different_length_are_rejected():
    with pytest.raises(StudyTableError, check=about("obtained", (3,))):
        order([1, 2], [1, 2, 3])


def test_the_published_numbers_agree_with_themselves():
    found = variance_orderings(explained(published_variance()["r2"]))
    assert found["holds"].all()
    assert found["pairs"].tolist()[2] == 42


def test_reversed_numbers_do_not():
    found = variance_orderings(explained(1 - published_variance()["r2"]))
    assert not found["holds"].any()
    assert (found["agreeing"] == 0).all()


def test_study_is_compared_with_published_tables(full):
    found = compare_variance(variance_explained(full))
    assert len(found) == 84
    row = found[(found["data"] == "smallnorb") & (found["metric"] == "sap")]
    assert row["published"].tolist() == [0.62, 0.82]
    assert (found["r2"] < 0.1).all()


def test_unpublished_data_sets_are_not_compared():
    table = pd.DataFrame({"data": "mine", "method": list("vvff"), "strength": 1.0})
    found = variance_orderings(variance_explained(table.assign(mig=[1.0, 2, 3, 5])))
    assert found["pairs"].tolist() == [0, 0, 1]
    assert not found["holds"].any()
