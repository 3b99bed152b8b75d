"""Scores by method and strength, and the overlap of their distributions."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from unweave.analysis import method_wins, score_distributions, seed_against_strength
from unweave.analysis.distributions import win_rate


def cell(method, strength, scores):
    return pd.DataFrame({"data": "a", "method": method, "strength": strength, "mig": scores})


def test_statistics_equal_numpy(design):
    table = design(data=("a", "b"), seeds=7)
    rng = np.random.default_rng(0)
    table = table.assign(mig=rng.normal(size=len(table)), sap=rng.normal(size=len(table)))
    found = score_distributions(table)
    assert len(found) == 2 * 36 * 2
    for row in found.itertuples():
        same = (table["data"] == row.data) & (table["method"] == row.method)
        scores = table.loc[same & (table["strength"] == row.strength), row.metric]
        expected = [
            scores.mean(),
            scores.std(ddof=0),
            *np.quantile(scores, [0, 0.25, 0.5, 0.75, 1]),
        ]
        got = [row.mean, row.std, row.min, row.low, row.median, row.high, row.max]
        assert got == pytest.approx(expected)
        assert (row.models, row.left_out) == (7, 0)


def test_diverged_models_are_counted():
    found = score_distributions(cell("vae", np.nan, [1.0, np.nan, 3.0]))
    assert found.loc[0, ["mean", "models", "left_out"]].tolist() == [2, 2, 1]


def test_win_rate_equals_all_pairs():
    rng = np.random.default_rng(0)
    scores, others = rng.integers(0, 5, 30), rng.integers(1, 6, 20)
    pairs = [(a > b) + 0.5 * (a == b) for a, b in product(scores, others)]
    assert win_rate(scores, others) == pytest.approx(np.mean(pairs))
    assert win_rate(scores, others) + win_rate(others, scores) == pytest.approx(1)


def test_a_method_that_dominates_wins_always():
    table = pd.concat([cell("low", 1.0, [1.0, 2.0]), cell("high", 1.0, [3.0, 4.0, np.nan])])
    found = method_wins(table).set_index(["method", "other"])
    assert found.loc[("high", "low"), "win_rate"] == 1
    assert found.loc[("low", "high"), "win_rate"] == 0
    assert found.loc[("low", "high"), ["models", "other_models", "left_out"]].tolist() == [2, 2, 1]
    assert len(found) == 2


def test_single_method_has_no_rows():
    assert len(method_wins(cell("vae", 1.0, [1.0, 2.0]))) == 0


def test_a_good_seed_at_a_bad_strength_beats_a_bad_seed_at_a_good_one():
    """At strength 2 the mean is best, and yet 3 of 9 pairs go to strength 1."""
    table = pd.concat(
        [cell("m", 1.0, [0.0, 1, 5]), cell("m", 2.0, [2.0, 3, 4]), cell("m", 3.0, [2.0, 2, 3])]
    )
    row = seed_against_strength(table).iloc[0]
    assert (row["best"], row["worst"]) == (2, 1)
    assert row["win_rate"] == pytest.approx(3 / 9)
    assert (row["best_seed_at_worst"], row["worst_seed_at_best"]) == (5, 2)
    assert (row["models"], row["left_out"]) == (6, 0)


def test_where_lower_is_better_the_best_strength_has_the_lowest_scores():
    table = pd.concat([cell("m", 1.0, [1.0, 2]), cell("m", 2.0, [3.0, 4])])
    table = table.rename(columns={"mig": "gaussian_total_correlation"})
    row = seed_against_strength(table, metrics=["gaussian_total_correlation"]).iloc[0]
    assert (row["best"], row["worst"]) == (1, 2)
    assert row["win_rate"] == 0
    assert (row["best_seed_at_worst"], row["worst_seed_at_best"]) == (3, 2)


def test_a_method_of_one_strength_has_no_row():
    assert len(seed_against_strength(cell("m", 1.0, [1.0, 2]))) == 0
