"""Tables 1 and 2 of the VAE ensemble: read off tables whose answers are known, and off a study."""

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from unweave.recipes import RecipeError, find
from unweave.recipes.running import train
from unweave.recipes.vae_ensemble.scores import METRICS, WITHIN_FILE, extend_within
from unweave.study.study import Source, Study

TABLE_1, TABLE_2 = find("vae-ensemble/table-1"), find("vae-ensemble/table-2")
SINGLE = {
    "vae": {},
    "beta_vae": {"beta": 4.0},
    "factor_vae": {"gamma": 40.0},
    "dip_vae_i": {"lambda_od": 5.0},
    "dip_vae_ii": {"lambda_od": 5.0},
    "beta_tc_vae": {"beta": 4.0},
}


@pytest.fixture
def as_published():
    """Two seeds of everything, a spread above and below what was published."""
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


def test_what_was_published_comes_back(as_published):
    frame = TABLE_1.obtain(as_published)
    assert len(frame) == 36
    np.testing.assert_allclose(frame["obtained"], frame["published"])
    np.testing.assert_allclose(frame["obtained_spread"], frame["spread"])
    assert frame["models"].eq(2).all()
    first, second = TABLE_1.verdict(frame)
    assert first.startswith(
        "factor_vae: above the plain VAE (0.635), as published for all: all 12 ensembles; the "
        "best ensemble (n = 4, γ = 1) has 0.833, the best single method (beta_tc_vae (β=4)) 0.808;"
    )
    assert "(n = 3, γ = 10) has 0.311" in second


def test_ensembles_below_the_vae_are_counted(as_published):
    ensembles = as_published["method"] == "vae_ensemble"
    worse = as_published.assign(dci=as_published["dci"].mask(ensembles, 0.1))
    assert "none of 12 ensembles" in TABLE_1.verdict(TABLE_1.obtain(worse))[1]


def test_members_that_differ_are_counted():
    published = TABLE_2.published()
    wide = published.pivot_table("published", ["gamma", "members"], "metric").reset_index()
    table = wide.rename(columns={metric: f"within_{metric}" for metric in METRICS})
    frame = TABLE_2.obtain(table)
    np.testing.assert_allclose(frame["obtained"], frame["published"])
    assert "in all 24 cells; the largest spread is 0.0163" in TABLE_2.verdict(frame)[0]
    more = table.assign(within_dci=20 * table["within_dci"])
    assert "in 12 of 24 cells" in TABLE_2.verdict(TABLE_2.obtain(more))[0]


def test_a_table_that_was_not_extended_is_refused(as_published):
    with pytest.raises(RecipeError, match="no column 'within_factor_vae'; `extend` adds it"):
        TABLE_2.obtain(as_published)


def test_members_are_scored_once_and_kept(tmp_path):
    few = {"load": "dsprites", "slice": {"shape": [0, 2], "scale": 5, "orientation": [0, 10]}}
    study = Study(
        name="tiny",
        data=[few],
        methods={"vae_ensemble": {"members": 2, "gamma": [1, 10]}},
        steps=5,
        metrics=list(METRICS),
        settings={"batch": 4, "latents": 3},
    )
    table = train(study, tmp_path, progress=False)
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


def test_a_study_without_ensembles_is_refused(tmp_path):
    table = pd.DataFrame({"run": ["a"], "method": ["vae"], "state": ["scored"]})
    with pytest.raises(RecipeError, match="no ensemble of this study is scored yet"):
        extend_within(table, tmp_path)


def test_the_papers_study_is_18_settings_of_10_seeds():
    runs = Study(**TABLE_1.study("paper")).runs()
    assert len({run.hash for run in runs}) == len(runs) == 18 * 10
    assert {run.architecture for run in runs} == {"conv4x4"}
    assert {run.steps for run in runs} == {300_000}
    ensembles = [run.method for run in runs if run.method.name == "vae_ensemble"]
    assert {(m.members, m.gamma) for m in ensembles} == {
        (n, g) for n in (2, 3, 4, 5) for g in (1, 5, 10)
    }
