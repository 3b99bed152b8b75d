"""Curves of training are those that models carry."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.plots import colours


@pytest.fixture(scope="module")
def fleet(grey):
    method = uw.methods.BetaVAE(beta=[1, 4])
    fleet = uw.train(method, grey, seeds=2, steps=2, batch=1, latents=2, progress=False)
    # As after a longer training: a row for every hundred steps.
    curve = pd.concat([fleet.curve.assign(step=100 * k) for k in (1, 2, 3)], ignore_index=True)
    noise = np.random.default_rng(0).random((len(curve), 2))
    return replace(fleet, curve=curve.assign(reconstruction=noise[:, 0], kl=noise[:, 1]))


def test_a_line_per_model_and_a_colour_per_setting(fleet):
    figure = uw.show.training(fleet)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "reconstruction [nats]",
        "KL divergence [nats]",
    ]
    for axes, name in zip(figure.axes, ["reconstruction", "kl"], strict=True):
        assert len(axes.lines) == 4
        for line, model in zip(axes.lines, fleet, strict=True):
            assert line.get_xdata().tolist() == model.curve["step"].tolist() == [100, 200, 300]
            np.testing.assert_array_equal(line.get_ydata(), model.curve[name])
    colours = [line.get_color() for line in figure.axes[0].lines]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["beta_vae, beta 1", "beta_vae, beta 4"]


def test_folders_and_one_model(fleet, tmp_path):
    fleet.save(tmp_path / "runs")
    assert len(uw.show.training(tmp_path / "runs").axes[0].lines) == 4
    one = uw.show.training(fleet[0], terms=["loss"])
    assert [axes.get_ylabel() for axes in one.axes] == ["loss [nats]"]
    assert not one.legends


def test_invalid_arguments_are_rejected(fleet):
    with pytest.raises(UnweaveError, check=about("terms", "klx")):
        uw.show.training(fleet, terms=["klx"])
    with pytest.raises(UnweaveError):
        uw.show.training([])
    with pytest.raises(UnweaveError, check=about("terms")):
        uw.show.training(fleet, terms=[])


def test_a_line_per_latent_from_its_first_recorded_step(fleet):
    curve = fleet[0].curve.assign(kl_0=[0.1, np.nan, 3.0], kl_1=[0.2, np.nan, 0.001])
    figure = uw.show.kl_over_training(replace(fleet[0], curve=curve))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert lines["0"].get_xdata().tolist() == [100, 300]
    assert lines["0"].get_ydata().tolist() == [0.1, 3.0]
    assert lines["1"].get_color() == colours.GREY != lines["0"].get_color()
    assert [text.get_text() for text in figure.axes[0].texts] == ["0"]


def test_kl_over_training_needs_one_model(fleet):
    with pytest.raises(UnweaveError, check=about("model", "Fleet")):
        uw.show.kl_over_training(fleet)


def test_missing_kl_is_an_error(fleet):
    curve = fleet[0].curve.drop(columns=["kl_0", "kl_1"])
    with pytest.raises(UnweaveError, check=about("curve", fleet[0].config.hash)):
        uw.show.kl_over_training(replace(fleet[0], curve=curve))
