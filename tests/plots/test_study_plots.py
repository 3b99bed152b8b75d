"""Plots of a study's results show its numbers."""

import xml.etree.ElementTree as ET
from itertools import product

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from unweave import analysis
from unweave.errors import UnweaveError
from unweave.plots import study_plots

TC = "gaussian_total_correlation"
PLOTS = [
    "total_correlation",
    "metric_agreement",
    "variance_explained",
    "unsupervised_selection",
    "transfer",
    "data_agreement",
    "downstream_agreement",
]


@pytest.fixture(scope="module")
def table():
    kinds = [("beta_vae", 1.0), ("beta_vae", 4.0), ("vae", np.nan)]
    rows = [(data, *kind, seed) for data, kind, seed in product("ab", kinds, range(4))]
    frame = pd.DataFrame(rows, columns=["data", "method", "strength", "seed"])
    names = ["mig", "dci", "elbo", TC, f"sampled.{TC}", f"{TC}.active_total_correlation"]
    names += ["downstream.trees_accuracy_100", "downstream.trees_efficiency"]
    rng = np.random.default_rng(0)
    return frame.assign(**{name: rng.random(len(frame)) for name in names})


def texts(panel):
    return [text.get_text() for text in panel.texts]


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_result_is_drawn_and_saved(table, tmp_path, name, ending):
    path = tmp_path / f"plot.{ending}"
    getattr(study_plots, name)(getattr(analysis, name)(table), path)
    if ending == "png":
        with Image.open(path) as picture:
            assert min(picture.size) > 200
            assert len(np.unique(np.asarray(picture.convert("L")))) > 20
    else:
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_other_endings_are_rejected(table, tmp_path):
    with pytest.raises(UnweaveError, match=r"plot\.gif"):
        study_plots.transfer(analysis.transfer(table), tmp_path / "plot.gif")


def test_a_heatmap_shows_percent(table):
    frame = analysis.metric_agreement(table)
    figure = study_plots.metric_agreement(frame)
    expected = [str(round(100 * rho)) for rho in frame.loc[frame["data"] == "a", "spearman"]]
    assert texts(figure.axes[0]) == expected


def test_parts_by_method_have_their_own_panels(table):
    frame = analysis.metric_agreement(table, by=("data", "method"))
    figure = study_plots.metric_agreement(frame)
    titles = [panel.get_title() for panel in figure.axes]
    assert [title.split(":")[0] for title in titles] == [
        "a, beta_vae",
        "a, vae",
        "b, beta_vae",
        "b, vae",
    ]


def test_the_variance_plot_names_the_null_level(table):
    figure = study_plots.variance_explained(analysis.variance_explained(table))
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == [
        f"by objective [%], noise alone: {100 / 11:.1f}",
        f"by objective × strength [%], noise alone: {200 / 11:.1f}",
    ]


def test_the_transfer_plot_has_bars_errors_and_chance(table):
    frame = analysis.transfer(table)
    panel = study_plots.transfer(frame).axes[0]
    heights = [bar.get_height() for bar in panel.patches]
    assert heights == pytest.approx((100 * frame["rate"]).tolist())
    labels = [text.get_text() for text in panel.get_legend().get_texts()]
    assert set(labels) == {"obtained", "published", "chance"}


def test_violins_by_method_and_by_strength(table):
    table = table.assign(mig=table["mig"].where(table.index > 0))
    figure = study_plots.score_distributions(table, "mig")
    by_method, by_strength = figure.axes[0], figure.axes[2]
    assert [label.get_text() for label in by_method.get_xticklabels()] == ["beta_vae", "vae"]
    labels = [label.get_text() for label in by_strength.get_xticklabels()]
    assert labels == ["beta_vae 1", "beta_vae 4", "vae"]
    assert "23 models, 1 without this score" in figure.get_supxlabel()


def test_violins_of_equal_scores_are_medians_only(table, tmp_path):
    figure = study_plots.score_distributions(table.assign(mig=0.5), "mig", tmp_path / "v.svg")
    assert [len(panel.collections) for panel in figure.axes] == [2, 2, 3, 3]


def test_lines_of_total_correlation_are_the_medians(table):
    frame = analysis.total_correlation(table[table["method"] == "beta_vae"])
    figure = study_plots.total_correlation(frame)
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    assert set(lines) == {
        "mean codes, all latents",
        "mean codes, active latents",
        "sampled codes, all latents",
    }
    chosen = frame[(frame["data"] == "a") & (frame["codes"] == "sampled")]
    np.testing.assert_allclose(lines["sampled codes, all latents"], chosen["median"])
    assert "passive latent" in figure.get_supxlabel().replace("\n", " ")
