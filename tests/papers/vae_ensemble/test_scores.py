"""Scores of ensembles, on tables with known answers and on a study."""

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.papers.vae_ensemble.tables import ablated, held, whole
from tests.raising import about
from unweave.papers import RecipeError, find
from unweave.papers.vae_ensemble.scores import METRICS, WITHIN_FILE, extend_within, kinds, scored
from unweave.study.sources import Source
from unweave.study.study import Study

TABLE_1, TABLE_2 = find("vae-ensemble/table-1"), find("vae-ensemble/table-2")
SINGLE = {
    "vae": {},
    "beta_vae": {"beta": 4.0},
    "factor_vae": {"gamma": 40.0},
    "dip_vae_i": {"lambda_od": 5.0},
    "dip_vae_ii": {"lambda_od": 5.0},
    "beta_tc_vae": {"beta": 4.0},
}


def test_kinds_of_ensembles(study):
    rows = scored(study[1])
    found = rows.groupby(["method", "members", "gamma"], dropna=False)["kind"].agg(set)
    assert found["vae_ensemble", 2, 10] == {"original", "w.o. CR"}
    assert found["vae_ensemble", 2, 0] == {"w.o. LT"}
    assert found["vae_ensemble", 3, 0] == {"trained apart"}
    assert rows[rows["method"] == "vae"]["kind"].isna().all()
    settings = {"method": "vae_ensemble", "neighbours": [-1, 2], "stop_grad_target": [True, False]}
    assert kinds(pd.DataFrame(settings)).tolist() == ["stop_grad_target", "neighbours"]


@pytest.fixture
def as_published():
    """Two seeds of each setting, one spread above and below the published mean."""
    rows = []
    for row in TABLE_1.published().itertuples():
        settings = (
            SINGLE[row.method.split(" ")[0]]
            if row.members == 1
            else {"members": float(row.members), "gamma": float(row.gamma)}
        )
        for seed, sign in ((0, -1), (1, 1)):
            keys = {"method": row.method.split(" ")[0], "seed": seed, **settings}
            rows.append({**keys, row.metric: row.published + sign * row.spread})
    frame = pd.DataFrame(rows)
    keys = ["method", "seed", "members", "gamma", "beta", "lambda_od"]
    return frame.groupby(keys, dropna=False, sort=False).first().reset_index()


def outcomes(recipe, frame):
    """Counts: the metric if given, held and total."""
    return [(c.text.rpartition(", ")[2], c.held, c.total) for c in recipe.counts(frame)]


def test_published_scores_are_reproduced(as_published):
    frame = TABLE_1.obtain(as_published)
    assert len(frame) == 36
    np.testing.assert_allclose(frame["obtained"], frame["published"])
    np.testing.assert_allclose(frame["obtained_spread"], frame["spread"])
    assert frame["models"].eq(2).all()
    assert outcomes(TABLE_1, frame) == [
        ("factor_vae", 12, 12),
        ("dci", 12, 12),
        ("factor_vae", 153, 153),
        ("dci", 153, 153),
    ]


def test_a_study_of_one_method_is_enough(as_published):
    only = as_published[as_published["method"] == "vae"][["method", "seed", "factor_vae", "dci"]]
    found = TABLE_1.obtain(only).dropna(subset="obtained")
    assert found["method"].tolist() == ["vae", "vae"]
    np.testing.assert_allclose(found["obtained"], found["published"])


def test_ensembles_below_the_vae_are_counted(as_published):
    ensembles = as_published["method"] == "vae_ensemble"
    worse = as_published.assign(dci=as_published["dci"].mask(ensembles, 0.1))
    assert outcomes(TABLE_1, TABLE_1.obtain(worse))[1] == ("dci", 0, 12)


def test_members_that_differ_are_counted():
    published = TABLE_2.published()
    wide = published.pivot_table("published", ["gamma", "members"], "metric").reset_index()
    table = wide.rename(columns={metric: f"within_{metric}" for metric in METRICS})
    frame = TABLE_2.obtain(table)
    np.testing.assert_allclose(frame["obtained"], frame["published"])
    (count,) = TABLE_2.counts(frame)
    assert (count.held, count.total) == (24, 24)
    assert count.numbers["max obtained"] == 0.0163
    more = table.assign(within_dci=20 * table["within_dci"])
    (count,) = TABLE_2.counts(TABLE_2.obtain(more))
    assert (count.held, count.total) == (12, 24)


def test_member_scores_are_cached(tmp_path):
    few_places = {"posX": [0, 15, 30], "posY": [0, 15, 30]}
    few = {"load": "dsprites", "slice": {"scale": 5, "orientation": [0, 10], **few_places}}
    study = Study(
        name="tiny",
        data=[few],
        methods={"vae_ensemble": {"members": 2, "gamma": [1, 10]}},
        steps=5,
        metrics=list(METRICS),
        settings={"batch": 4, "latents": 3},
    )
    table = uw.study.run(study, tmp_path, progress=False).table
    extended = extend_within(table, tmp_path)
    data = Source.of(few).open()
    for row in extended.itertuples():
        members = uw.load(tmp_path / "runs" / row.run).members
        scores = uw.evaluate(members, data, metrics=list(METRICS), progress=False)
        assert row.within_dci == pytest.approx(scores["dci"].std(ddof=0))
        assert row.within_factor_vae == pytest.approx(scores["factor_vae"].std(ddof=0))
        assert row.dci == pytest.approx(scores["dci"][0])  # the study scores the first member
    written = (tmp_path / WITHIN_FILE).stat().st_mtime_ns
    assert extend_within(table, tmp_path).equals(extended)
    assert (tmp_path / WITHIN_FILE).stat().st_mtime_ns == written


def test_studies_without_ensembles_are_rejected(tmp_path):
    table = pd.DataFrame({"run": ["a"], "method": ["vae"], "state": ["scored"]})
    with pytest.raises(RecipeError, check=about("state", ("vae_ensemble",))):
        extend_within(table, tmp_path)


def controls(scores):
    """Two seeds of single models with β = 1 / n, and of an ensemble with fixed targets."""
    rows = [
        {"method": "beta_vae", "beta": 1 / n, "factor_vae": score, "dci": score / 2}
        for n, score in scores.items()
    ]
    fixed = {"members": 2.0, "gamma": 10.0, "stop_grad_target": True}
    rows += [{"method": "vae_ensemble", **fixed, "factor_vae": 0.9, "dci": 0.1}]
    return pd.DataFrame([{**row, "seed": seed} for row in rows for seed in (0, 1)])


def test_controls_of_table_1_have_rows_without_a_published_number(as_published):
    ablated = as_published[as_published["method"] == "vae_ensemble"].head(2).assign(dci=0.9)
    others = [ablated.assign(cross_reconstruction=False), ablated.assign(neighbours=1)]
    table = pd.concat([as_published, controls({2: 0.72, 3: 0.5}), *others])
    frame = TABLE_1.obtain(table)
    np.testing.assert_allclose(frame["obtained"][:36], frame["published"][:36])
    rows = frame[36:].set_index(["metric", "method"])
    assert rows["published"].isna().all()
    assert rows["obtained"].to_dict() == pytest.approx(
        {
            ("factor_vae", "beta_vae (β=1/2)"): 0.72,
            ("factor_vae", "beta_vae (β=1/3)"): 0.5,
            ("factor_vae", "vae_ensemble (stop_grad_target)"): 0.9,
            ("dci", "beta_vae (β=1/2)"): 0.36,
            ("dci", "beta_vae (β=1/3)"): 0.25,
            ("dci", "vae_ensemble (stop_grad_target)"): 0.1,
        }
    )
    assert rows["models"].eq(2).all()
    assert outcomes(TABLE_1, frame)[4:] == [
        ("factor_vae", 5, 6),
        ("factor_vae", 0, 1),
        ("dci", 1, 6),
        ("dci", 1, 1),
    ]


def test_figure_4_compares_ablated_with_complete_ensembles():
    recipe = find("vae-ensemble/figure-4")
    frame = recipe.obtain(ablated({1: 0.8, 10: 0.7}, {1: 0.6, 10: 0.72}, 0.75))
    lower, lower_too, much, narrows = recipe.published()["claim"]
    assert whole(frame, lower)["measured"].tolist() == pytest.approx([0.6, 0.72])
    assert whole(frame, lower)["obtained"].tolist() == ["holds", "does not hold"]
    assert whole(frame, lower_too)["against"].tolist() == pytest.approx([0.8, 0.7])
    assert whole(frame, lower_too)["obtained"].tolist() == ["holds", "does not hold"]
    spread = np.std([0.79, 0.81, 0.69, 0.71])
    assert whole(frame, much)["against"].tolist() == pytest.approx([0.75 - spread])
    assert whole(frame, much)["obtained"].tolist() == ["does not hold"]
    assert whole(frame, narrows)["measured"].tolist() == pytest.approx([-0.02])
    assert whole(frame, narrows)["against"].tolist() == pytest.approx([0.2])
    assert held(recipe, frame)[lower] == ((1, 2), (0, 0))
    worse = recipe.obtain(ablated({1: 0.8, 10: 0.7}, {1: 0.6, 10: 0.4}, 0.2))
    published = [counts[0] for counts in held(recipe, worse).values()]
    assert published == [(2, 2), (2, 2), (1, 1), (0, 1)]


def test_beyond_the_paper_scores_are_compared_by_size_and_by_neighbours():
    recipe = find("vae-ensemble/beyond")
    scores = {2: 0.5, 3: 0.7, 5: 0.8, 8: 0.7, 16: 0.9}
    rows = [
        {"members": n, "neighbours": k, "factor_vae": score, "dci": score / 2}
        for n, k, score in (
            *((n, -1, s + e) for n, s in scores.items() for e in (-0.1, 0.1)),
            (8, 1, 0.65),
            (8, 2, 0.2),
        )
    ]
    table = pd.DataFrame(rows).assign(method="vae_ensemble", gamma=1.0)
    frame = recipe.obtain(table)
    rises, slower = recipe.published()["claim"]
    assert whole(frame, rises)["of"].tolist() == ["n = 3 against 2", "n = 5 against 3"] * 2
    assert whole(frame, rises)["obtained"].eq("holds").all()
    beyond = whole(frame, rises, control=True)
    assert beyond["obtained"].tolist() == ["does not hold", "holds"] * 2
    gains = whole(frame, slower)
    assert gains[["measured", "against"]].values.tolist() == [
        pytest.approx([0.05, 0.2]),
        pytest.approx([0.025, 0.1]),
    ]
    few = frame[frame["claim"] == recipe.controls["fewer"]]
    assert few["against"].tolist() == pytest.approx([0.6, 0.6, 0.3, 0.3])
    assert few["obtained"].tolist() == ["holds", "does not hold"] * 2
    assert held(recipe, frame)[rises] == ((4, 4), (2, 4))
