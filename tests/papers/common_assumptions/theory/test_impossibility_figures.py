"""Figures of f and of scores."""

import numpy as np
import pandas as pd
import pytest

from unweave.papers.common_assumptions.theory import impossibility as imp
from unweave.papers.common_assumptions.theory import impossibility_figures as figures


def lines(panel, style):
    return [line.get_xydata() for line in panel.lines if line.get_linestyle() == style]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_grid_lines_are_quantiles_and_their_images_under_f(dimensions):
    f = imp.entangle([imp.PRIORS["uniform"]] * dimensions)
    before, after, drawn, mixed = figures.draw_grid(f).axes
    fixed, moving = lines(before, "-"), lines(before, "--")
    assert [line[0, 0] for line in fixed] == pytest.approx(np.linspace(0.05, 0.95, 9))
    assert all(np.ptp(line[:, 0]) == 0 and np.ptp(line[:, 1]) > 0.99 for line in fixed)
    assert all(np.ptp(line[:, 1]) == 0 and np.ptp(line[:, 0]) > 0.99 for line in moving)
    medians = np.full((201, dimensions - 2), 0.5)
    for line, turned in zip(fixed, lines(after, "-"), strict=True):
        assert turned == pytest.approx(f(np.concatenate([line, medians], 1))[:, :2])
    points, turned = (np.array(p.collections[0].get_offsets()) for p in (drawn, mixed))
    codes = imp.draw(f.priors, 3000)
    assert points == pytest.approx(codes[:, :2])
    assert turned == pytest.approx(f(codes)[:, :2])


def test_bars_show_scores_between_0_and_1(tmp_path):
    table = pd.DataFrame(
        {
            "metric": ["mig", "dci", "dci.completeness", "elbo"],
            "model": [0.5, 0.8, 0.7, -30.0],
            "twin": [0.1, 0.2, 0.3, -30.0],
        }
    )
    figure = figures.draw_collapse(table, "both")
    (panel,) = figure.axes
    assert [bar.get_height() for bar in panel.patches] == [0.5, 0.8, 0.1, 0.2]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["mig", "dci"]
    assert panel.get_legend_handles_labels()[1] == ["model", "entangled twin"]
    figure.save(tmp_path / "bars.svg")
    assert "entangled twin" in (tmp_path / "bars.svg").read_text()
