"""UDR against metrics: added columns and computed correlations."""

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.raising import about
from unweave.papers import RecipeError, find
from unweave.papers.running import compare
from unweave.papers.udr.ranking import METRICS, extend
from unweave.study.sources import Source
from unweave.study.study import Study

RECIPE = find("udr/ranking")


@pytest.fixture
def table():
    """Ten models: MIG rises with UDR by Lasso, SAP falls, the others are random."""
    order = np.arange(10)
    noise = np.random.default_rng(0).permuted(np.tile(order, (6, 1)), axis=1)
    table = pd.DataFrame(dict(zip(METRICS, noise / 10, strict=True)))
    return table.assign(
        strength=1.0, udr_lasso=order / 10, udr_spearman=-order / 10, mig=order**2, sap=-order
    )


def test_correlations_and_the_chosen_model(table):
    frame = RECIPE.obtain(table).set_index(["udr", "metric"])
    mig = frame.loc[("lasso", "mig")]
    assert mig["obtained"] == "rise together"
    assert mig["correlation"] == pytest.approx(1)
    assert (mig["chosen"], mig["median"], mig["best"], mig["beats"]) == (81, 20.5, 81, 1)
    other_way = frame.loc[("spearman", "mig")]
    assert other_way["obtained"] == "do not"
    assert other_way["correlation"] == pytest.approx(-1)
    assert (other_way["chosen"], other_way["beats"]) == (0, 0)
    assert frame.loc[("lasso", "sap"), "correlation"] == pytest.approx(-1)
    assert frame["models"].eq(10).all()


def test_metrics_are_counted(table):
    only = table.assign(**dict.fromkeys(METRICS, table["udr_lasso"]))
    counts = RECIPE.counts(RECIPE.obtain(only))
    assert [count.text.rpartition(", ")[2] for count in counts] == ["lasso", "spearman"] * 2
    assert [(count.held, count.total) for count in counts] == [(6, 6), (0, 6)] * 2
    lasso, spearman, chosen, _ = (count.numbers for count in counts)
    assert lasso == {"min correlation": pytest.approx(1), "max correlation": pytest.approx(1)}
    assert spearman["min correlation"] == pytest.approx(-1)
    assert chosen == {"mean beats": 1}


def test_models_without_a_score_are_ignored(table):
    table.loc[9, "mig"] = np.nan
    mig = RECIPE.obtain(table).set_index(["udr", "metric"]).loc[("lasso", "mig")]
    assert (mig["models"], mig["chosen"]) == (9, 64)


def test_tables_without_udr_are_rejected(table):
    with pytest.raises(RecipeError, check=about("udr_spearman")):
        RECIPE.obtain(table.drop(columns="udr_spearman"))


def test_the_models_of_a_study_are_compared_and_drawn(tmp_path):
    places = {"posX": [0, 10, 20, 31], "posY": [0, 10, 20, 31]}
    seen = {"shape": [0, 2], "scale": 5, "orientation": [0, 10], **places}
    few = {"load": "dsprites", "slice": seen}
    study = Study(
        name="tiny",
        data=[few],
        methods={"beta_vae": {"beta": [1, 4]}},
        seeds=2,
        steps=30,
        metrics=["classic"],
        settings={"batch": 8, "latents": 3, "optimiser": {"lr": 1e-3}},
    )
    extended = extend(uw.study.run(study, tmp_path, progress=False).table, tmp_path)
    data = Source.of(few).open()
    models = [uw.load(tmp_path / "runs" / run) for run in extended["run"]]
    for column, relevance in (("udr_lasso", "lasso"), ("udr_spearman", "spearman")):
        ranking = uw.select.udr(models, data, relevance=relevance)
        scores = ranking.set_index("run")["score"]
        np.testing.assert_allclose(extended[column], scores[extended["run"]])
    assert compare(RECIPE, extended, tmp_path).files[1].stat().st_size > 1000


def test_the_scales_agree_with_the_page():
    counts = [len(RECIPE.study(scale).runs()) for scale in ("smoke", "hour", "paper")]
    assert counts == [9, 120, 1_800]
