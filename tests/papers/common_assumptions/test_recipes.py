"""Recipes of the large study on tables with known answers."""

import numpy as np
import pandas as pd
import pytest

from unweave.papers import RECIPES, find
from unweave.papers.common_assumptions.results import METRICS

READY = [recipe for recipe in RECIPES.values() if recipe.paper == "common-assumptions"]
ALL_DATA = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites")
ALL_DATA += ("smallnorb", "cars3d", "shapes3d")


def run(slug, table):
    recipe = find(f"common-assumptions/{slug}")
    frame = recipe.obtain(table)
    return frame, recipe.counts(frame)


def held(counts):
    return [(count.held, count.total) for count in counts]


@pytest.mark.parametrize("recipe", READY, ids=lambda recipe: recipe.slug)
def test_a_recipe_adds_obtained_to_published(recipe, made, tmp_path):
    table = made(ALL_DATA, seeds=2)
    frame = recipe.obtain(table)
    published = recipe.published()
    assert set(published.columns) <= set(frame.columns)
    keys = [name for name in published if name != "published"]
    both = published.merge(frame, on=keys, suffixes=("", "_kept"))
    assert (both["published"] == both["published_kept"]).all()
    assert len(both) == len(published)
    assert frame["obtained"].notna().all()
    for sentence in recipe.verdict(frame):
        assert sentence.endswith(".")
        assert "nan" not in sentence
    recipe.plot(table, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()[:2000]


@pytest.mark.parametrize("recipe", READY, ids=lambda recipe: recipe.slug)
def test_models_without_scores_are_ignored(recipe, made, tmp_path):
    table = made(("dsprites", "color_dsprites"), seeds=3)
    table.loc[5, [c for c in table if c not in ("data", "method", "strength", "seed")]] = np.nan
    frame = recipe.obtain(table)
    assert set(recipe.published().columns) <= set(frame.columns)
    assert frame["obtained"].notna().any()
    for sentence in recipe.verdict(frame):
        assert sentence.endswith(".")
        assert "nan" not in sentence
    recipe.plot(table, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()[:2000]


def test_constant_scores_are_not_counted(made):
    """A constant has no ranks, so nothing was obtained."""
    table = made(("dsprites", "color_dsprites"))
    for column in (*METRICS, "elbo", "downstream.trees_efficiency"):
        table[column] = 0.0
    for slug in ("unsupervised-selection", "downstream-agreement", "downstream-efficiency"):
        frame, counts = run(slug, table)
        assert frame["obtained"].isna().all(), slug
        assert not any(count.total for count in counts)
    frame, _ = run("metric-agreement", table)
    assert frame["obtained"].isna().all()
    table["sampled.gaussian_total_correlation"] = 1.0
    frame, counts = run("total-correlation", table)
    assert frame[frame["codes"] == "sampled"]["obtained"].isna().all()
    assert [count.text.rpartition(", ")[2] for count in counts] == ["mean"] * 2


def test_total_correlation_as_published_and_the_other_way_round(made):
    table = made(("dsprites", "color_dsprites"))
    table["gaussian_total_correlation"] = table["level"]
    table["sampled.gaussian_total_correlation"] = -table["level"]
    table["gaussian_total_correlation.active_total_correlation"] = -table["level"]
    frame, counts = run("total-correlation", table)
    assert len(frame) == 10
    assert (frame["obtained"] == frame["published"]).all()
    assert [count.text.rpartition(", ")[2] for count in counts] == ["sampled", "mean", "mean"]
    assert held(counts) == [(5, 5), (5, 5), (0, 5)]
    table["gaussian_total_correlation"] *= -1
    _, counts = run("total-correlation", table)
    assert held(counts)[1] == (0, 5)


def test_metric_agreement_finds_the_strong_pairs(made):
    table = made(("noisy_dsprites",), seeds=20)
    shared = table["mig"].copy()
    for metric in METRICS:
        if metric != "modularity":
            table[metric] = table[metric] + shared
    table["factor_vae"] = table["beta_vae"] + 0.01 * table["factor_vae"]
    table["dci"] = table["mig"] + 0.01 * table["dci"]
    frame, counts = run("metric-agreement", table)
    chosen = frame[frame["published"] == "strong"]
    assert chosen["obtained"].min() > 0.95
    assert held(counts) == [(66, 66)]


def test_substitute_data_sets_are_reported(made):
    recipe = find("common-assumptions/metric-agreement")
    frame = recipe.obtain(made(("dsprites", "color_dsprites")))
    assert frame["data"].unique().tolist() == ["dsprites", "color_dsprites"]
    one, other = recipe.verdict(frame)[:2]
    assert one.startswith("dsprites ")
    assert other.startswith("color_dsprites ")


def test_methods_that_overlap_and_one_that_is_apart(made):
    table = made(("cars3d",))
    _, counts = run("method-overlap", table)
    assert held(counts)[-1] == (15, 15)
    table.loc[table["method"] == "dip_vae_i", "factor_vae"] += 2
    frame, counts = run("method-overlap", table)
    assert held(counts)[-1] == (10, 15)
    apart = frame[frame["obtained"] == "apart"]
    assert ((apart["method"] == "dip_vae_i") | (apart["other"] == "dip_vae_i")).all()


def test_seed_against_strength(made):
    table = made(("cars3d",), seeds=30)
    frame, counts = run("seed-against-strength", table)
    assert frame["obtained"].tolist() == ["seed beats strength"]
    assert held(counts)[0] == (1, 1)
    table["factor_vae"] = table["level"] + 0.1 * table["factor_vae"]
    frame, counts = run("seed-against-strength", table)
    assert frame["obtained"].tolist() == ["strength beats seed"]
    assert frame["worst"].tolist() == [10]
    assert frame["best"].tolist() == [100]
    assert held(counts)[0] == (0, 1)


def test_choice_rules(made):
    table = made(("dsprites", "cars3d"))
    _, counts = run("choice-rules", table)
    assert held(counts) == [(6, 6), (6, 6)]
    for metric in METRICS:
        table.loc[table["method"] == "factor_vae", metric] += 2
        table.loc[table["method"] == "beta_vae", metric] += table["level"] / 10 - 3
    frame, counts = run("choice-rules", table)
    assert held(counts)[0] == (5, 6)
    rows = frame.set_index(["rule", "method"])["share"]
    assert rows.xs("factor_vae", level="method").iloc[0] == 1


def test_variance_explained_by_strength(made):
    table = made(("dsprites", "rooms3d"), seeds=10)
    for metric in METRICS:
        table[metric] = table["level"] + 0.5 * table[metric]
    frame, counts = run("variance-explained", table)
    assert len(frame) == 84
    assert frame["obtained"].notna().sum() == 12
    rows = frame.dropna(subset="obtained").groupby("grouping")["obtained"].agg(["min", "max"])
    assert rows.loc["objective", "max"] < 0.05
    assert rows.loc["objective × strength", "min"] > 0.95
    assert held(counts)[-1] == (6, 6)


def test_variance_explained_on_other_data_counts_nothing(made):
    _, counts = run("variance-explained", made(("rooms3d",)))
    assert held(counts) == [(0, 0)]


def test_unsupervised_selection_finds_a_pattern_where_there_is_one(made):
    table = made(("dsprites", "cars3d"), seeds=5)
    _, counts = run("unsupervised-selection", table)
    assert held(counts) == [(24, 24)]
    table["elbo"] = table["mig"]
    table["elbo.kl"] = -table["sap"]
    frame, counts = run("unsupervised-selection", table)
    assert held(counts) == [(22, 24)]
    found = frame.set_index(["score", "metric"])["obtained"]
    assert found["ELBO", "mig"] == "rise together"
    assert found["KL", "sap"] == "one rises, the other falls"


def test_a_pattern_must_hold_on_every_data_set(made):
    table = made(("dsprites", "cars3d"), seeds=5)
    table["elbo"] = table["mig"].where(table["data"] == "dsprites", -table["mig"])
    _, counts = run("unsupervised-selection", table)
    assert held(counts) == [(24, 24)]


def test_transfer_by_chance_and_by_strength(made):
    table = made(("dsprites", "cars3d"), seeds=5)
    frame, _ = run("transfer", table)
    assert frame["obtained"].between(0.4, 0.6).all()
    configuration = table.groupby(["method", "strength"]).ngroup()
    for metric in METRICS:
        table[metric] = configuration
    frame, counts = run("transfer", table)
    assert frame["obtained"].min() > 0.95
    assert held(counts)[1] == (3, 3)


def test_data_agreement(made):
    table = made(("dsprites", "color_dsprites", "cars3d"))
    configuration = table.groupby(["method", "strength"]).ngroup()
    sprites = table["data"] != "cars3d"
    for metric in METRICS:
        table.loc[sprites, metric] = configuration[sprites]
    frame, counts = run("data-agreement", table)
    assert len(frame) == 21
    assert frame["obtained"].notna().sum() == 3
    assert held(counts) == [(2, 2), (0, 0)]
    assert counts[1].numbers == {"mean obtained": pytest.approx(1)}


def test_downstream_agreement(made):
    table = made(("dsprites",))
    accuracies = [column for column in table if "accuracy" in column]
    for column in accuracies:
        table[column] = table["mig"]
    table["sap"] = -table["mig"]
    _, counts = run("downstream-agreement", table)
    found = {
        count.text.rpartition(", ")[2]: (count.held, count.total, count.numbers["mean spearman"])
        for count in counts
    }
    assert found["mig"] == (8, 8, pytest.approx(1))
    assert found["sap"] == (0, 8, pytest.approx(-1))


def test_downstream_efficiency(made):
    table = made(("dsprites",))
    frame, counts = run("downstream-efficiency", table)
    assert frame["obtained"].tolist() == ["not reliable"]
    assert held(counts)[-1] == (1, 1)
    table["downstream.trees_efficiency"] = table["factor_vae"]
    frame, counts = run("downstream-efficiency", table)
    assert frame["obtained"].tolist() == ["reliable"]
    assert frame["spearman"].tolist() == pytest.approx([1])
    assert held(counts)[-1] == (0, 1)


def test_the_columns_of_frames_are_plain(made):
    """Frames are saved as CSV, which only holds numbers and text."""
    for recipe in READY:
        frame = recipe.obtain(made(("dsprites", "color_dsprites")))
        assert isinstance(frame.columns, pd.Index)
        for name in frame:
            kinds = {type(value) for value in frame[name].dropna()}
            assert kinds <= {str, int, float, np.int64, np.float64}, (recipe.name, name, kinds)
