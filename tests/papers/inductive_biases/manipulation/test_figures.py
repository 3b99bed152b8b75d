"""Figures of scores: the numbers that they draw."""

import numpy as np
import pandas as pd
import pytest

from tests.raising import about
from unweave.analysis.study_table import StudyTableError
from unweave.papers.inductive_biases.manipulation.figures import (
    SCALES,
    line_search,
    show_gaps,
    show_histogram,
    show_line_search,
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = [
        (data, method, scale * strength, rng.uniform(0.1, 0.9))
        for data in ("rooms3d", "rooms3d_modified")
        for method, strength in (("beta_vae", 32), ("factor_vae", 7))
        for scale in SCALES
        for _ in range(4)
    ]
    frame = pd.DataFrame(rows, columns=["data", "method", "strength", "mig"])
    return frame.assign(run=[f"run{k}" for k in range(len(frame))])


def test_line_search_leaves_out_over_pruned_runs(table):
    first = table[(table["data"] == "rooms3d") & (table["method"] == "beta_vae")]
    pruned = first["run"].iloc[:1].tolist() + first["run"].iloc[4:8].tolist()
    found = line_search(table, "mig", {"beta_vae": 32, "factor_vae": 7}, pruned)
    assert len(found) == 2 * 2 * len(SCALES)
    part = found[(found["data"] == "rooms3d") & (found["method"] == "beta_vae")]
    assert part["scale"].tolist() == pytest.approx(list(SCALES))
    assert part["models"].tolist() == [3, 0, 4, 4, 4]
    assert part["left_out"].tolist() == [1, 4, 0, 0, 0]
    expected = first["mig"].iloc[1:4]
    assert part["mean"].iloc[0] == pytest.approx(expected.mean())
    assert part["std"].iloc[0] == pytest.approx(np.std(expected))
    assert np.isnan(part["mean"].iloc[1])
    assert len(line_search(table, "mig", {"factor_vae": 7})) == 2 * len(SCALES)
    with pytest.raises(StudyTableError, check=about("sap")):
        line_search(table, "sap", {"beta_vae": 32})


def test_lines_are_the_means(table, tmp_path):
    found = line_search(table, "mig", {"beta_vae": 32, "factor_vae": 7})
    figure = show_line_search(found, "mig")
    assert [panel.get_title() for panel in figure.axes] == ["beta_vae", "factor_vae"]
    lines = figure.axes[1].lines
    part = found[(found["data"] == "rooms3d_modified") & (found["method"] == "factor_vae")]
    assert np.allclose(lines[1].get_ydata(), part["mean"])
    figure.save(tmp_path / "lines.png")
    assert (tmp_path / "lines.png").stat().st_size > 5_000


def test_histograms_count_every_model(table):
    figure = show_histogram(table, "mig", bins=9)
    for panel in figure.axes:
        for drawn in panel.patches:
            heights = drawn.get_xy()[:, 1]
            edges = np.linspace(0, 1, 10)
            part = table[
                (table["method"] == panel.get_title()) & (table["data"] == drawn.get_label())
            ]
            counts = np.histogram(part["mig"], edges)[0]
            assert heights.max() == counts.max()
            assert counts.sum() == 20


def test_bars_are_the_mean_gaps_of_factors():
    one = pd.DataFrame(
        {"run": ["a", "a", "b", "b"], "factor": ["x", "y"] * 2, "gap": [0.2, 0.4, 0.4, 0.8]}
    )
    figure = show_gaps({"original": one, "modified": one.assign(gap=0.1)})
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == pytest.approx([0.3, 0.6, 0.1, 0.1])
