"""Transfer: chance level for shuffled scores, enumerated probabilities for small tables."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.analysis import data_agreement, transfer
from unweave.analysis.transfer import OTHER, SAME, SAME_METRIC
from unweave.study import StudyTableError

CLASSIC = ["beta_vae", "factor_vae", "mig", "modularity", "dci", "sap"]


def small(seed, missing=0.0):
    """Two data sets, three configurations, three seeds, two metrics; few values, so ties."""
    rng = np.random.default_rng(seed)
    rows = list(product("ab", [("m", 1.0), ("m", 2.0), ("n", 1.0)], range(3)))
    table = pd.DataFrame([(data, *kind, run) for data, kind, run in rows])
    table.columns = ["data", "method", "strength", "seed"]
    for metric in ("mig", "dci"):
        scores = rng.integers(0, 4, len(table)).astype(float)
        table[metric] = np.where(rng.random(len(table)) < missing, np.nan, scores)
    return table


def targets(kind, metric, data, metrics, places):
    if kind == SAME:
        return [(metric, data)]
    others = [place for place in places if place != data]
    if kind == SAME_METRIC:
        return [(metric, place) for place in others]
    return [(m, place) for m in metrics if m != metric for place in others]


def enumerate_rate(table, kind, metrics=("mig", "dci")):
    """The probability and the share of draws that count, from every possible draw."""
    scores = table.set_index(["data", "method", "strength", "seed"])
    places, seeds = table["data"].unique(), table["seed"].unique()
    kinds = table[["method", "strength"]].drop_duplicates().itertuples(index=False, name=None)
    kinds = list(kinds)
    won = counted = 0.0
    for metric, data, seed in product(metrics, places, seeds):
        there = {kind: scores.loc[(data, *kind, seed), metric] for kind in kinds}
        top = np.nanmax(list(there.values())) if not all(map(np.isnan, there.values())) else None
        best = [kind for kind, score in there.items() if score == top]
        aims = targets(kind, metric, data, metrics, places)
        others = [other for other in seeds if other != seed]
        for chosen, aim, rival, s, t in product(best, aims, kinds, others, others):
            weight = 1 / (len(best) * len(aims) * len(kinds) * len(others) ** 2)
            mine = scores.loc[(aim[1], *chosen, s), aim[0]]
            yours = scores.loc[(aim[1], *rival, t), aim[0]]
            if not np.isnan(mine) and not np.isnan(yours):
                counted += weight
                won += weight * ((mine > yours) + 0.5 * (mine == yours))
    return won / counted, counted / (len(metrics) * len(places) * len(seeds))


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_rate_is_the_enumerated_probability(seed, missing):
    table = small(seed, missing)
    draws = 100_000
    found = transfer(table, draws=draws, seed=5).set_index("kind")
    for kind in (SAME, SAME_METRIC, OTHER):
        rate, share = enumerate_rate(table, kind)
        row = found.loc[kind]
        assert abs(row["rate"] - rate) < 4 * row["standard_error"]
        assert row["draws"] / draws == pytest.approx(share, abs=0.01)
        assert row["draws"] + row["left_out"] == draws


def test_enumeration_distinguishes_the_kinds():
    """Otherwise agreement with the enumeration would prove little."""
    rates = [enumerate_rate(small(0), kind)[0] for kind in (SAME, SAME_METRIC, OTHER)]
    assert np.ptp(rates) > 0.05


def test_shuffled_scores_give_chance(full):
    found = transfer(full, metrics=CLASSIC)
    assert (found["chance"] == 0.5).all()
    assert ((found["rate"] - 0.5).abs() < 3 * found["standard_error"]).all()
    assert found["standard_error"].tolist() == pytest.approx([0.005] * 3, rel=0.02)


def test_a_configuration_that_is_always_best_wins_unless_it_meets_itself(design):
    """36 configurations of fixed order: the best wins 35 of 36 and ties with itself: 71/72."""
    table = design(data=("a", "b"), seeds=3)
    order = table.groupby(["method", "strength"]).ngroup().astype(float)
    found = transfer(table.assign(mig=order, dci=2 * order))
    for row in found.itertuples():
        assert abs(row.rate - 71 / 72) < 3 * row.standard_error
        assert row.standard_error == pytest.approx(0.5 * np.sqrt(35 / 36 / 36 / 10_000), rel=0.1)


def test_configuration_that_is_best_on_one_data_set_only(design):
    """The order is reversed on the other data set, as enumerated."""
    table = design(data=("a", "b"), strengths={"m": (1, 2, 3, 4)}, seeds=2)
    sign = table["data"].map({"a": 1, "b": -1})
    table = table.assign(mig=sign * table["strength"], dci=-sign * table["strength"])
    rates = transfer(table).set_index("kind")["rate"]
    assert rates[SAME] == pytest.approx(7 / 8, abs=0.01)
    assert rates[SAME_METRIC] == pytest.approx(1 / 8, abs=0.01)
    assert rates[OTHER] == pytest.approx(7 / 8, abs=0.01)


def test_the_source_seed_is_never_scored_again():
    """The best at one seed is worst at the other: it ties with itself or loses, so ¼, not ¾."""
    table = pd.DataFrame(
        list(product(["a"], ["m"], [0.0, 1.0], [0, 1])),
        columns=["data", "method", "strength", "seed"],
    )
    table["mig"] = [1.0, 0.0, 0.0, 1.0]
    row = transfer(table).iloc[0]
    assert row["rate"] == pytest.approx(0.25, abs=0.01)


def test_draws_follow_the_seed():
    table = small(0)
    pd.testing.assert_frame_equal(transfer(table, seed=3), transfer(table, seed=3))
    assert (transfer(table, seed=3)["rate"] != transfer(table, seed=4)["rate"]).any()


def test_order_of_rows_does_not_matter_beyond_the_draws():
    table = small(1)
    shuffled = transfer(table.sample(frac=1, random_state=0), draws=100_000)
    found = transfer(table, draws=100_000)
    assert ((found["rate"] - shuffled["rate"]).abs() < 5 * found["standard_error"]).all()


def test_published_rates_are_included():
    found = transfer(small(0))
    assert (found["published"] > found["chance"]).all()
    assert "50 %" in found.attrs["note"]


def test_too_few_data_sets_or_metrics_leave_a_kind_out():
    one = transfer(small(0).query("data == 'a'")).set_index("kind")
    assert one["draws"].tolist() == [10_000, 0, 0]
    assert one["rate"].isna().tolist() == [False, True, True]
    single = transfer(small(0), metrics=["mig"]).set_index("kind")
    assert single["rate"].isna().tolist() == [False, False, True]


def test_nothing_scored_at_all():
    found = transfer(small(0).assign(mig=np.nan, dci=np.nan))
    assert found["rate"].isna().all()
    assert (found["left_out"] == 10_000).all()


TWIN = {"data": "a", "method": "m", "strength": 1.0, "seed": 0}


def test_duplicates_are_rejected():
    with pytest.raises(StudyTableError, check=about("table", TWIN)):
        transfer(pd.concat([small(0), small(1)]))


def test_single_seed_is_rejected():
    with pytest.raises(StudyTableError, check=about("seed", 1)):
        transfer(small(0).query("seed == 1"))


def test_zero_draws_are_rejected():
    with pytest.raises(StudyTableError, check=about("draws", 0)):
        transfer(small(0), draws=0)


def test_data_sets_agree_by_the_means_of_configurations(design):
    table = design(data=("a", "b", "c"), strengths={"m": (1, 2, 3)}, seeds=2)
    noise = 10.0 * (2 * table["seed"] - 1)
    sign = table["data"].map({"a": 1, "b": 1, "c": -1})
    table["mig"] = sign * table["strength"] + noise
    table.loc[(table["data"] == "b") & (table["strength"] == 3), "mig"] = np.nan
    found = data_agreement(table).set_index(["metric", "data", "other"])
    assert found.loc[("mig", "a", "c"), "spearman"] == pytest.approx(-1)
    assert found.loc[("mig", "a", "b"), "spearman"] == pytest.approx(1)
    assert found.loc[("mig", "a", "b"), ["configurations", "left_out"]].tolist() == [2, 1]
