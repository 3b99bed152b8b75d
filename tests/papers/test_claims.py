"""Evaluation of claims: filters, statistics, criteria, counts."""

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.errors import DataError
from unweave.papers.claims import (
    STATISTICS,
    Comparison,
    Finding,
    claim_counts,
    compared,
    matching,
)

TABLE = pd.DataFrame(
    {
        "data": ["a"] * 6 + ["b"] * 2,
        "kind": ["whole", "part", "whole", "part", "whole", "other", "whole", "part"],
        "gamma": [1, 1, 5, 5, 10, 0, 1, 1],
        "score": [0.8, 0.6, 0.9, 0.95, 0.7, 0.5, 0.1, 0.2],
    }
)


def rows(table=TABLE, **keys):
    return list(Comparison(claim="c", value="score", **keys).rows(table, "text", STATISTICS))


def numbers(found):
    return [(row["measured"], row["against"], row["obtained"]) for row in found]


@pytest.mark.parametrize(
    ("criterion", "holds"),
    [
        ("measured < against", True),
        ("measured <= 0.5 * against", False),
        ("measured > against - 2", True),
        ("abs(measured - against) <= 0.2 * abs(against)", False),
        ("measured < against and measured > 0.7 * against", True),
    ],
)
def test_criteria_are_expressions(criterion, holds):
    (found,) = rows(measured={"kind": "other"}, against=0.7, where={"data": "a"}, holds=criterion)
    assert (found["obtained"] == "holds") == holds


def test_a_statistic_may_apply_to_means_by_a_column():
    (found,) = rows(
        measured={"statistic": ["min", "kind"]},
        against={"statistic": ["max", "kind"]},
        where={"data": "a"},
        holds="measured < against",
    )
    assert numbers([found]) == [(0.5, pytest.approx(0.8), "holds")]


def test_rows_match_values_lists_and_negations():
    assert matching(TABLE, {"kind": "part", "gamma": [1, 5]})["score"].tolist() == [0.6, 0.95, 0.2]
    assert matching(TABLE, {"data": "b", "not": {"kind": "whole"}})["score"].tolist() == [0.2]


def test_one_comparison_per_group_with_both_sides():
    sides = {"measured": {"kind": "part"}, "against": {"kind": "whole"}}
    found = rows(each=["data", "gamma"], holds="measured < against", **sides)
    assert numbers(found) == [
        (0.6, 0.8, "holds"),
        (0.95, 0.9, "does not hold"),
        (0.2, 0.1, "does not hold"),
    ]
    assert [(row["data"], row["of"]) for row in found] == [
        ("a", "γ = 1"),
        ("a", "γ = 5"),
        ("b", "γ = 1"),
    ]


def test_a_side_may_ignore_a_key_of_the_groups():
    found = rows(
        where={"data": "a"},
        each=["gamma"],
        measured={"kind": "other", "across": ["gamma"]},
        against={"kind": "whole"},
        holds="measured < against",
    )
    assert numbers(found) == [(0.5, 0.8, "holds"), (0.5, 0.9, "holds"), (0.5, 0.7, "holds")]


def test_neighbours_and_ends_along_a_column():
    whole = {"where": {"kind": "whole", "data": "a"}, "holds": "measured > against"}
    steps = rows(along="gamma", **whole)
    assert [row["of"] for row in steps] == ["γ = 5 against 1", "γ = 10 against 5"]
    assert [row["obtained"] for row in steps] == ["holds", "does not hold"]
    assert numbers(rows(ends="gamma", **whole)) == [(0.7, 0.8, "does not hold")]
    assert rows(TABLE[:1], ends="gamma", **whole) == []
    assert rows(TABLE.assign(score=np.nan), ends="gamma", **whole) == []


def test_comparisons_that_the_paper_lacks_are_controls():
    found = rows(
        each=["data"],
        measured={"kind": "whole", "statistic": "max"},
        against=0.5,
        holds="measured > against",
        published_for={"data": ["a"]},
    )
    assert [row["published"] for row in found] == ["holds", None]
    published = pd.DataFrame({"claim": ["first", "text"], "published": "holds"})
    frame = compared(published, found)
    assert [(c.text, c.held, c.total, c.controls) for c in claim_counts(frame)] == [
        ("first", 0, 0, (0, 0)),
        ("text", 1, 1, (0, 1)),
    ]


def test_missing_columns_are_not_compared():
    one = Comparison(value="fid", holds="measured > against", against={"value": "score"})
    assert list(one.rows(TABLE, "text", STATISTICS)) == []


def test_unknown_keys_of_a_comparison_are_rejected():
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Comparison(claim="c", hold="measured > against")


FRAME = pd.DataFrame(
    {
        "metric": ["mig", "mig", "mig", "dci"],
        "published": ["strong", "mild", "less", "mild"],
        "obtained": [0.9, 0.2, 0.4, np.nan],
        "chance": [0.5, 0.5, np.nan, 0.5],
    }
)


@pytest.mark.parametrize(
    ("keys", "variants"),
    [
        (
            {"measured": {"kind": "whole"}, "against": {"kind": "part"}},
            ["mpi3d_real", "mpi3d_toy"],
        ),
        (
            {"measured": {"data": "mpi3d_toy"}, "against": {"data": "mpi3d_real"}},
            ["mpi3d_real", "mpi3d_toy"],
        ),
        ({"measured": {"kind": "whole"}, "against": 0.5}, ["mpi3d_real", "mpi3d_toy"]),
        ({"measured": {"kind": "whole"}, "against": {"kind": "part"}, "each": ["data"]}, []),
        ({"measured": {"data": "mpi3d_toy"}, "against": 0.5}, []),
        ({"measured": {"data": "mpi3d_toy"}, "against": {"data": "dsprites"}}, []),
    ],
)
def test_variants_of_mpi3d_are_not_compared(keys, variants):
    names = {"a": "mpi3d_toy", "b": "mpi3d_real"}
    table = TABLE.assign(data=TABLE["data"].replace(names))
    table.loc[0, "data"] = "dsprites"
    if variants:
        with pytest.raises(DataError, check=about("data", variants)):
            rows(table, **keys, holds="measured < against")
    else:
        assert rows(table, **keys, holds="measured < against")


def test_findings_count_rows_pairs_and_comparisons():
    levels = {"strong": 2, "mild": 1, "less": 0}
    found = [
        *Finding(text="Above", test="obtained > chance", unit="cells").counts(FRAME),
        *Finding(text="Above", test="obtained > chance", known=["chance"]).counts(FRAME),
        *Finding(text="Order", each=["metric"], order="obtained", levels=levels).counts(FRAME),
        *Finding(text="Mean", numbers=["mean obtained"]).counts(FRAME),
        *Finding(text="None", where={"metric": "dci"}, test="obtained > 0").counts(FRAME),
    ]
    assert [(one.text, one.held, one.total, one.unit, one.numbers) for one in found] == [
        ("Above", 1, 3, "cells", {}),
        ("Above", 1, 2, "rows", {}),
        ("Order, mig", 2, 3, "rows", {}),
        ("Mean", 0, 0, "rows", {"mean obtained": pytest.approx(0.5)}),
        ("None", 0, 0, "rows", {}),
    ]
