"""Trade-offs: means and standard deviations over seeds."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.raising import about
from unweave.analysis.study_table import StudyTableError
from unweave.plots.two_scores import trade_off_points


@pytest.fixture(scope="module")
def table():
    kinds = [("beta_vae", 16.0), ("beta_vae", 1.0), ("beta_vae", 4.0), ("vae", np.nan)]
    rows = [(data, *kind, seed) for data, kind, seed in product("ab", kinds, range(5))]
    frame = pd.DataFrame(rows, columns=["data", "method", "strength", "seed"])
    rng = np.random.default_rng(0)
    return frame.assign(reconstruction=rng.random(len(frame)) + 20, mig=rng.random(len(frame)))


def bars_of(container):
    """Half the width and half the height of every error bar."""
    x, y = container[2]
    return (
        [(s[1, 0] - s[0, 0]) / 2 for s in map(np.asarray, x.get_segments())],
        [(s[1, 1] - s[0, 1]) / 2 for s in map(np.asarray, y.get_segments())],
    )


def test_points_are_means_and_bars_standard_deviations(table):
    figure = uw.show.trade_off(table)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    panel = figure.axes[1]
    container = panel.containers[0]
    widths, heights = bars_of(container)
    for place, strength in enumerate([1.0, 4.0, 16.0]):
        rows = table[(table["data"] == "b") & (table["strength"] == strength)]
        x, y = rows["reconstruction"].to_numpy(), rows["mig"].to_numpy()
        assert container[0].get_xydata()[place] == pytest.approx([x.mean(), y.mean()])
        assert widths[place] == pytest.approx(np.std(x))
        assert heights[place] == pytest.approx(np.std(y))
    assert [text.get_text() for text in panel.texts] == ["1", "4", "16", ""]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["beta_vae", "vae"]
    assert panel.get_xlabel() == "reconstruction error [nats]"
    assert panel.get_ylabel() == "MIG"
    assert figure.get_supxlabel() == ""


def test_models_without_a_score_are_left_out_and_counted(table):
    broken = table.copy()
    broken.loc[0, "mig"] = np.nan
    broken.loc[1, "reconstruction"] = np.inf
    points = trade_off_points(broken, "reconstruction", "mig")
    kept = broken.iloc[2:5]
    row = points[(points["data"] == "a") & (points["strength"] == "16")].iloc[0]
    assert row["models"] == 3
    assert row["y"] == pytest.approx(kept["mig"].mean())
    assert row["x_std"] == pytest.approx(np.std(kept["reconstruction"]))
    assert uw.show.trade_off(broken).get_supxlabel() == "2 models lack a score"


def test_tables_of_evaluate_have_the_methods_own_settings():
    table = pd.DataFrame(
        {
            "run": list("abcd"),
            "method": "beta_vae",
            "beta": [4.0, 4.0, 1.0, 1.0],
            "threshold": 8,
            "seed": [0, 1, 0, 1],
            "steps": 5,
            "dci": [0.1, 0.3, 0.5, 0.5],
            "kl": [1.0, 2.0, 3.0, 5.0],
        }
    )
    points = trade_off_points(table, "kl", "dci")
    assert points[["strength", "x", "y", "y_std"]].to_numpy().tolist() == [
        ["1", 4.0, 0.5, 0.0],
        ["4", 1.5, pytest.approx(0.2), pytest.approx(0.1)],
    ]
    figure = uw.show.trade_off(table, "kl", "dci")
    assert figure.axes[0].get_ylabel() == "DCI disentanglement"


def test_invalid_arguments_are_rejected(table):
    with pytest.raises(StudyTableError, match="sap"):
        uw.show.trade_off(table, y="sap")
    with pytest.raises(StudyTableError, match="method"):
        uw.show.trade_off(table.drop(columns="method"))
    with pytest.raises(StudyTableError, check=about("table", ("reconstruction", "mig"))):
        uw.show.trade_off(table.assign(mig=np.nan))
    with pytest.raises(StudyTableError):
        uw.show.trade_off(table[:0])
    with pytest.raises(StudyTableError):
        uw.show.trade_off([1, 2])
