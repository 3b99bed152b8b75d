"""The published tables, and whether an ordering agrees with them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

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


def explained(r2):
    """What `variance_explained` returns of the published cells, with other numbers."""
    return published_variance().assign(r2=r2, adjusted_r2=r2, null_r2=0.0)


def test_the_tables_are_whole_and_named_as_the_library_names_things():
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
def test_no_number_slipped(grouping, rows, columns):
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
    assert str(one_wrong) == "the published ordering mostly holds (5 of 6 pairs)"
    assert "does not hold (0 of 3" in str(order([1, 2, 3], [3, 2, 1]))


def test_agreeing_pairs_are_kendalls():
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
    assert "nothing to compare" in str(order([], []))


def test_lists_of_different_length_are_refused():
    with pytest.raises(StudyTableError, match="two lists of one length"):
        order([1, 2], [1, 2, 3])


def test_the_published_numbers_agree_with_themselves():
    found = variance_orderings(explained(published_variance()["r2"]))
    assert found["holds"].all()
    assert found["pairs"].tolist()[2] == 42


def test_reversed_numbers_do_not():
    found = variance_orderings(explained(1 - published_variance()["r2"]))
    assert not found["holds"].any()
    assert (found["agreeing"] == 0).all()


def test_a_study_is_put_beside_what_was_published(full):
    found = compare_variance(variance_explained(full))
    assert len(found) == 84
    row = found[(found["data"] == "smallnorb") & (found["metric"] == "sap")]
    assert row["published"].tolist() == [0.62, 0.82]
    assert (found["r2"] < 0.1).all()


def test_data_sets_that_were_not_published_are_not_compared():
    table = pd.DataFrame({"data": "mine", "method": list("vvff"), "strength": 1.0})
    found = variance_orderings(variance_explained(table.assign(mig=[1.0, 2, 3, 5])))
    assert found["pairs"].tolist() == [0, 0, 1]
    assert not found["holds"].any()
