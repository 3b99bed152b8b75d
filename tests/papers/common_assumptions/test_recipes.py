"""The recipes of the large study, on tables whose answers are known."""

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
    return frame, recipe.verdict(frame)


@pytest.mark.parametrize("recipe", READY, ids=lambda recipe: recipe.slug)
@pytest.mark.parametrize("data", [("dsprites", "color_dsprites"), ALL_DATA])
def test_a_recipe_sets_obtained_beside_published(recipe, data, made, tmp_path):
    table = made(data, seeds=2)
    frame = recipe.obtain(table)
    published = recipe.published()
    assert set(published.columns) <= set(frame.columns)
    assert frame["obtained"].notna().any()
    if data == ALL_DATA:
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
def test_a_model_without_scores_does_no_harm(recipe, made):
    table = made(("dsprites", "color_dsprites"), seeds=3)
    table.loc[5, [c for c in table if c not in ("data", "method", "strength", "seed")]] = np.nan
    frame = recipe.obtain(table)
    assert frame["obtained"].notna().any()
    assert not any("nan" in sentence for sentence in recipe.verdict(frame))


def test_scores_that_are_all_alike_are_not_counted_for_either_side(made):
    """A constant has no ranks, so nothing was obtained."""
    table = made(("dsprites", "color_dsprites"))
    for column in (*METRICS, "elbo", "downstream.trees_efficiency"):
        table[column] = 0.0
    for slug in ("unsupervised-selection", "downstream-agreement", "downstream-efficiency"):
        frame, sentences = run(slug, table)
        assert frame["obtained"].isna().all(), slug
        assert not any("holds for" in sentence for sentence in sentences)
    frame, _ = run("metric-agreement", table)
    assert frame["obtained"].isna().all()
    table["sampled.gaussian_total_correlation"] = 1.0
    frame, sentences = run("total-correlation", table)
    assert frame[frame["codes"] == "sampled"]["obtained"].isna().all()
    assert [sentence.split(":")[0][-6:] for sentence in sentences] == [", mean"] * 2


def test_total_correlation_as_published_and_the_other_way_round(made):
    table = made(("dsprites", "color_dsprites"))
    table["gaussian_total_correlation"] = table["level"]
    table["sampled.gaussian_total_correlation"] = -table["level"]
    table["gaussian_total_correlation.active_total_correlation"] = -table["level"]
    frame, sentences = run("total-correlation", table)
    assert len(frame) == 10
    assert (frame["obtained"] == frame["published"]).all()
    assert [sentence.rpartition(", ")[2] for sentence in sentences] == [
        "sampled: holds for 5 of 5 methods.",
        "mean: holds for 5 of 5 methods.",
        "mean: holds for 0 of 5 methods.",
    ]
    table["gaussian_total_correlation"] *= -1
    _, sentences = run("total-correlation", table)
    assert sentences[1].endswith("mean: holds for 0 of 5 methods.")


def test_metric_agreement_finds_the_strong_pairs(made):
    table = made(("noisy_dsprites",), seeds=20)
    shared = table["mig"].copy()
    for metric in METRICS:
        if metric != "modularity":
            table[metric] = table[metric] + shared
    table["factor_vae"] = table["beta_vae"] + 0.01 * table["factor_vae"]
    table["dci"] = table["mig"] + 0.01 * table["dci"]
    frame, sentences = run("metric-agreement", table)
    chosen = frame[frame["published"] == "strong"]
    assert chosen["obtained"].min() > 0.95
    assert [sentence.rpartition(": ")[2] for sentence in sentences] == [
        "holds for 66 of 66 pairs."
    ]


def test_other_data_sets_stand_in_and_it_is_said(made):
    frame, sentences = run("metric-agreement", made(("dsprites", "color_dsprites")))
    assert frame["data"].unique().tolist() == ["dsprites", "color_dsprites"]
    assert sentences[:2] == [
        "dsprites stands in for noisy_dsprites.",
        "color_dsprites stands in for noisy_dsprites.",
    ]


def test_methods_that_overlap_and_one_that_is_apart(made):
    table = made(("cars3d",))
    _, sentences = run("method-overlap", table)
    assert sentences[-1].endswith(": holds for 15 of 15 pairs of methods.")
    table.loc[table["method"] == "dip_vae_i", "factor_vae"] += 2
    frame, sentences = run("method-overlap", table)
    assert sentences[-1].endswith(": holds for 10 of 15 pairs of methods.")
    apart = frame[frame["obtained"] == "apart"]
    assert ((apart["method"] == "dip_vae_i") | (apart["other"] == "dip_vae_i")).all()


def test_seed_against_strength(made):
    table = made(("cars3d",), seeds=30)
    frame, sentences = run("seed-against-strength", table)
    assert frame["obtained"].tolist() == ["seed beats strength"]
    assert sentences[0].endswith(": holds for 1 of 1 data sets.")
    table["factor_vae"] = table["level"] + 0.1 * table["factor_vae"]
    frame, sentences = run("seed-against-strength", table)
    assert frame["obtained"].tolist() == ["strength beats seed"]
    assert frame["worst"].tolist() == [10]
    assert frame["best"].tolist() == [100]
    assert sentences[0].endswith(": holds for 0 of 1 data sets.")


def test_choice_rules(made):
    table = made(("dsprites", "cars3d"))
    _, sentences = run("choice-rules", table)
    assert all(sentence.endswith(": holds for 6 of 6 methods.") for sentence in sentences)
    for metric in METRICS:
        table.loc[table["method"] == "factor_vae", metric] += 2
        table.loc[table["method"] == "beta_vae", metric] += table["level"] / 10 - 3
    frame, sentences = run("choice-rules", table)
    assert sentences[0].endswith("by every metric: holds for 5 of 6 methods.")
    rows = frame.set_index(["rule", "method"])["share"]
    assert rows.xs("factor_vae", level="method").iloc[0] == 1


def test_variance_explained_knows_what_the_strength_explains(made):
    table = made(("dsprites", "rooms3d"), seeds=10)
    for metric in METRICS:
        table[metric] = table["level"] + 0.5 * table[metric]
    frame, sentences = run("variance-explained", table)
    assert len(frame) == 84
    assert frame["obtained"].notna().sum() == 12
    rows = frame.dropna(subset="obtained").groupby("grouping")["obtained"].agg(["min", "max"])
    assert rows.loc["objective", "max"] < 0.05
    assert rows.loc["objective × strength", "min"] > 0.95
    assert sentences[-1].startswith("Objective × strength explains more than objective")
    assert sentences[-1].endswith(": holds for 6 of 6 cells.")


def test_variance_explained_on_other_data_says_so(made):
    _, sentences = run("variance-explained", made(("rooms3d",)))
    assert [sentence.rpartition(": ")[2] for sentence in sentences] == [
        "there is nothing to compare."
    ]


def test_unsupervised_selection_finds_a_pattern_where_there_is_one(made):
    table = made(("dsprites", "cars3d"), seeds=5)
    _, sentences = run("unsupervised-selection", table)
    assert len(sentences) == 1
    assert "holds for 24 of 24 pairs" in sentences[0]
    table["elbo"] = table["mig"]
    table["elbo.kl"] = -table["sap"]
    frame, sentences = run("unsupervised-selection", table)
    assert "22 of 24 pairs" in sentences[0]
    found = frame.set_index(["score", "metric"])["obtained"]
    assert found["ELBO", "mig"] == "rise together"
    assert found["KL", "sap"] == "one rises, the other falls"


def test_a_pattern_must_hold_on_every_data_set(made):
    table = made(("dsprites", "cars3d"), seeds=5)
    table["elbo"] = table["mig"].where(table["data"] == "dsprites", -table["mig"])
    _, sentences = run("unsupervised-selection", table)
    assert "holds for 24 of 24 pairs" in sentences[0]


def test_transfer_by_chance_and_by_strength(made):
    table = made(("dsprites", "cars3d"), seeds=5)
    frame, _ = run("transfer", table)
    assert frame["obtained"].between(0.4, 0.6).all()
    configuration = table.groupby(["method", "strength"]).ngroup()
    for metric in METRICS:
        table[metric] = configuration
    frame, sentences = run("transfer", table)
    assert frame["obtained"].min() > 0.95
    assert sentences[1].endswith(": holds for 3 of 3 kinds.")


def test_data_agreement(made):
    table = made(("dsprites", "color_dsprites", "cars3d"))
    configuration = table.groupby(["method", "strength"]).ngroup()
    sprites = table["data"] != "cars3d"
    for metric in METRICS:
        table.loc[sprites, metric] = configuration[sprites]
    frame, sentences = run("data-agreement", table)
    assert len(frame) == 21
    assert frame["obtained"].notna().sum() == 3
    assert [sentence.rpartition(": ")[2] for sentence in sentences] == [
        "holds for 2 of 2 pairs.",
        "mean obtained 1.",
    ]


def test_downstream_agreement(made):
    table = made(("dsprites",))
    accuracies = [column for column in table if "accuracy" in column]
    for column in accuracies:
        table[column] = table["mig"]
    table["sap"] = -table["mig"]
    _, sentences = run("downstream-agreement", table)
    (mig,) = [sentence for sentence in sentences if ", mig: " in sentence]
    assert ": holds for 8 of 8 accuracies; mean spearman 1" in mig
    (sap,) = [sentence for sentence in sentences if ", sap: " in sentence]
    assert ": holds for 0 of 8 accuracies; mean spearman -1" in sap


def test_downstream_efficiency(made):
    table = made(("dsprites",))
    frame, sentences = run("downstream-efficiency", table)
    assert frame["obtained"].tolist() == ["not reliable"]
    assert ": holds for 1 of 1 data sets" in sentences[-1]
    table["downstream.trees_efficiency"] = table["factor_vae"]
    frame, sentences = run("downstream-efficiency", table)
    assert frame["obtained"].tolist() == ["reliable"]
    assert frame["spearman"].tolist() == pytest.approx([1])
    assert ": holds for 0 of 1 data sets" in sentences[-1]


def test_the_columns_of_frames_are_plain(made):
    """They are saved as CSV, which knows numbers and words only."""
    for recipe in READY:
        frame = recipe.obtain(made(("dsprites", "color_dsprites")))
        assert isinstance(frame.columns, pd.Index)
        for name in frame:
            kinds = {type(value) for value in frame[name].dropna()}
            assert kinds <= {str, int, float, np.int64, np.float64}, (recipe.name, name, kinds)
