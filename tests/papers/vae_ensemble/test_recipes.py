"""Tables 1 and 2 of the VAE ensemble: read off tables whose answers are known, and off a study."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from unweave.data import DATASETS
from unweave.papers import RecipeError, find
from unweave.papers.running import train
from unweave.papers.vae_ensemble import studies
from unweave.papers.vae_ensemble.scores import METRICS, WITHIN_FILE, extend_within
from unweave.study.study import Source, Study

TABLE_1, TABLE_2 = find("vae-ensemble/table-1"), find("vae-ensemble/table-2")
EVERY = {
    "scores": studies.STUDIES,
    "ablations": studies.ABLATIONS,
    "apart": studies.APART,
    "colour": studies.COLOUR,
    "beyond": studies.BEYOND,
}
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
    assert outcomes(TABLE_1, frame) == [
        "factor_vae: holds for 12 of 12 ensembles.",
        "dci: holds for 12 of 12 ensembles.",
        "factor_vae: holds for 153 of 153 pairs.",
        "dci: holds for 153 of 153 pairs.",
    ]


def outcomes(recipe, frame):
    """What was counted, by metric where that is told."""
    return [sentence.rpartition(", ")[2] for sentence in recipe.verdict(frame)]


def test_ensembles_below_the_vae_are_counted(as_published):
    ensembles = as_published["method"] == "vae_ensemble"
    worse = as_published.assign(dci=as_published["dci"].mask(ensembles, 0.1))
    assert outcomes(TABLE_1, TABLE_1.obtain(worse))[1] == "dci: holds for 0 of 12 ensembles."


def test_members_that_differ_are_counted():
    published = TABLE_2.published()
    wide = published.pivot_table("published", ["gamma", "members"], "metric").reset_index()
    table = wide.rename(columns={metric: f"within_{metric}" for metric in METRICS})
    frame = TABLE_2.obtain(table)
    np.testing.assert_allclose(frame["obtained"], frame["published"])
    assert "holds for 24 of 24 cells; max obtained 0.0163" in TABLE_2.verdict(frame)[0]
    more = table.assign(within_dci=20 * table["within_dci"])
    assert "holds for 12 of 24 cells" in TABLE_2.verdict(TABLE_2.obtain(more))[0]


def test_a_table_that_was_not_extended_is_refused(as_published):
    with pytest.raises(RecipeError, match="no column 'within_factor_vae'; `extend` adds it"):
        TABLE_2.obtain(as_published)


def test_members_are_scored_once_and_kept(tmp_path):
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
        "factor_vae: holds for 5 of 6 ensembles.",
        "factor_vae: holds for 0 of 1 ensembles.",
        "dci: holds for 1 of 6 ensembles.",
        "dci: holds for 1 of 1 ensembles.",
    ]


@cache
def runs_of(scale):
    """All runs of every study at a scale; no faces, which are a download."""
    return {
        name: Study(**keys[scale]).runs()
        for name, keys in EVERY.items()
        if (scale, name) != ("paper", "colour")
    }


def names(runs):
    return {run.hash for run in runs}


def test_the_papers_study_is_18_settings_and_8_controls_of_10_seeds():
    runs = runs_of("paper")["scores"]
    assert len(names(runs)) == len(runs) == 26 * 10
    assert {run.architecture for run in runs} == {"conv4x4"}
    assert {run.steps for run in runs} == {300_000}
    ensembles = [run.method for run in runs if run.method.name == "vae_ensemble"]
    published = [m for m in ensembles if not m.stop_grad_target]
    assert {(m.members, m.gamma) for m in published} == {
        (n, g) for n in (2, 3, 4, 5) for g in (1, 5, 10)
    }
    betas = {run.method.beta for run in runs if run.method.name == "beta_vae"}
    assert betas == {4, 1 / 2, 1 / 3, 1 / 4, 1 / 5}


def kind_of(method):
    return "whole" if method.cross_reconstruction and method.alignment else "lacking"


@pytest.mark.parametrize("scale", ["smoke", "hour", "paper"])
def test_studies_of_a_scale_share_their_ensembles(scale):
    runs = runs_of(scale)
    whole = {
        run.hash
        for run in runs["scores"]
        if run.method.name == "vae_ensemble" and not run.method.stop_grad_target
    }
    ablations = [run for run in runs["ablations"] if kind_of(run.method) == "whole"]
    assert names(ablations) <= whole
    assert {run.method.gamma for run in ablations} >= {1, 10}
    beside = [run.method for run in runs["apart"] if run.hash not in whole]
    assert {m.members for m in beside} == {10}
    assert not any(m.cross_reconstruction or m.alignment or m.gamma for m in beside)
    assert len(names(runs["beyond"]) & whole) >= 1


def microseconds(run):
    """Of a step on an H200: encode and decode of a β-VAE take 45 µs, 58 in colour, a half each."""
    method = run.method
    if method.name == "factor_vae":
        return 102.4
    whole = 58.1 if "rooms3d" in str(run.data) else 45.3
    decoded = method.num_members
    if method.name == "vae_ensemble" and method.cross_reconstruction:
        decoded *= 1 + method.mapped
    return whole / 2 * (method.num_members + decoded)


def test_the_hour_trains_in_minutes_without_downloads():
    known, minutes = set(), {}
    for name, runs in runs_of("hour").items():
        new = [run for run in runs if run.hash not in known]
        minutes[name] = sum(microseconds(run) * run.steps for run in new) / 60e6
        known |= names(new)
    assert 7 < sum(minutes.values()) < 9  # of benchmarks; small fleets take half as long again
    sources = {source for keys in EVERY.values() for source in keys["hour"]["data"]}
    assert all("rendered here in seconds" in DATASETS[name].source for name in sources)


def test_each_study_of_the_smoke_is_small():
    """At 22 ms a step of a model on two cores, and 53 for each 64 images that go through it."""
    for runs in runs_of("smoke").values():
        seconds = sum(
            (0.022 + 0.053 * run.batch / 64 * microseconds(run) / 45.3) * run.steps for run in runs
        )
        assert seconds < 250


def test_recipes_on_celeba_take_10_16_and_32_latents():
    for slug in ("figure-7", "figures-9-10", "figures-12-13"):
        keys = find(f"vae-ensemble/{slug}").study("paper")
        assert keys["data"] == ["celeba"]
        assert keys["settings"]["latents"] == [10, 16, 32]
        assert keys["seeds"] == 5
