"""Pictures of exponents show those that models learned."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.plots import colours
from unweave.plots.exponents import BINS, histogram

OFFSETS = [[0.3, 0.1], [-0.2, 0.4], [0.0, 0.25]]
"""From 2, of two subspaces in three models."""
QUICK = {"steps": 1, "batch": 4, "latents": 4, "architecture": "small_mlp", "progress": False}


def planted(grey, offsets, **settings):
    """Models that learned these exponents."""
    method = uw.methods.ISAVAE(p=2.0, learned=True, **settings)
    fleet = uw.train(method, grey, seeds=len(offsets), **QUICK)
    learned = torch.zeros_like(fleet.parameters["exponents"])
    learned[:, : len(offsets[0])] = torch.tensor(offsets)
    return replace(fleet, parameters={**fleet.parameters, "exponents": learned})


@pytest.fixture(scope="module")
def fleet(grey):
    return planted(grey, OFFSETS, layout="2x2")


def counted(panel):
    """Where each place has models, as the middles of its bars, one for each model."""
    return [
        np.repeat(
            [bar.get_x() + bar.get_width() / 2 for bar in bars],
            [round(bar.get_height()) for bar in bars],
        )
        for bars in panel.containers
    ]


def line_at(panel):
    return [line.get_xdata()[0] for line in panel.lines]


def words(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_exponents_are_sorted_within_a_model(fleet):
    figure = uw.show.exponents(fleet)
    (panel,) = figure.axes
    smallest, largest = counted(panel)
    width = (2.4 - 1.8) / BINS
    np.testing.assert_allclose(smallest, [1.8, 2.0, 2.1], atol=width)
    np.testing.assert_allclose(largest, [2.25, 2.3, 2.4], atol=width)
    assert line_at(panel) == [2.1, 2.0]
    assert words(figure) == ["smallest", "largest", "$p_{0}$ = 2.1", "start = 2"]
    assert panel.get_title() == ""


def test_layouts_have_panels_with_the_same_bins(fleet, grey):
    other = planted(grey, [[1.0], [0.5]], layout="1,3", p0=3.0)
    figure = uw.show.exponents([fleet, other])
    pairs, three = figure.axes
    assert [pairs.get_title(), three.get_title()] == ["2x2", "1,3"]
    assert [len(heap) for heap in counted(pairs)] == [3, 3]
    (only,) = counted(three)
    np.testing.assert_allclose(only, [2.5, 3.0], atol=1.2 / BINS)
    edges = [[bar.get_x() for bar in panel.containers[0]] for panel in figure.axes]
    assert edges[0] == edges[1]
    assert line_at(three) == [2.1, 3.0, 2.0]
    assert "$p_{0}$ = 2.1, 3" in words(figure)


def test_rank_names():
    figure = histogram({"4x2": np.array([[4.0, 1.0, 3.0, 2.0]] * 2)}, [2.1], [2.0])
    assert words(figure)[:4] == ["smallest", "2nd", "3rd", "largest"]
    middles = [heap.mean() for heap in counted(figure.axes[0])]
    np.testing.assert_allclose(middles, [1, 2, 3, 4], atol=0.1)


def test_one_model_is_plotted_at_recorded_steps(fleet):
    model = fleet[0]
    noted = {"p_1": [2.1, np.nan, 2.3], "p_2": [1.9, np.nan, 1.8], "p_3": np.nan}
    curve = pd.concat([model.curve.iloc[[-1]]] * 3).assign(step=[100, 200, 300], **noted)
    figure = uw.show.exponents(replace(model, curve=curve))
    (panel,) = figure.axes
    lines = {line.get_label(): line for line in panel.lines}
    assert lines["p_1"].get_xdata().tolist() == [100, 300]
    assert lines["p_1"].get_ydata().tolist() == [2.1, 2.3]
    assert lines["p_2"].get_ydata().tolist() == [1.9, 1.8]
    assert "p_3" not in lines
    assert [line.get_ydata()[0] for line in panel.lines[:2]] == [2.1, 2.0]
    names = [text.get_text() for text in panel.texts]
    assert names == ["$p_{2}$", "start", "$p_{0}$", "$p_{1}$"]
    assert panel.texts[0].get_color() == lines["p_2"].get_color() != colours.FAINT


def test_models_without_learned_exponents_are_left_out(fleet):
    one, two, diverged = fleet
    diverged = replace(diverged, diverged_at=np.array([1]))
    fixed, other, alone = (
        replace(one, configs=(replace(one.config, method=method),))
        for method in (
            uw.methods.ISAVAE(layout="2x2"),
            uw.methods.BetaVAE(),
            uw.methods.ISAVAE(layout="4x1", learned=True),
        )
    )
    figure = uw.show.exponents([one, two, diverged, fixed, other, alone])
    assert [len(heap) for heap in counted(figure.axes[0])] == [2, 2]
    for nothing in (diverged, fixed, other, alone):
        with pytest.raises(UnweaveError, check=about("models")):
            uw.show.exponents(nothing)
    with pytest.raises(UnweaveError, check=about("curve", fleet[0].config.hash)):
        uw.show.exponents(replace(fleet[0], curve=fleet[0].curve.assign(p_1=np.nan, p_2=np.nan)))
