"""The plot of how active latents are in each member."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.metrics import polarised_regime
from unweave.plots.activity import REGIMES, regimes

LEGEND = ["first member", "the other 2 members"]


def test_points_are_log_delta_and_variance_of_matched_latents(ensemble, sprites):
    model, ways = ensemble
    figure = uw.show.activity(model, sprites)
    upper, lower = figure.axes
    scores = [
        polarised_regime(means, logvars=logvars)
        for means, logvars in (model.encode(sprites, member=k) for k in range(3))
    ]
    own = np.abs(ways).argmax(2)
    profile = [[scores[k][f"log_delta_{own[k, j]}"] for j in range(4)] for k in range(3)]
    signal = [[scores[k][f"mean_variance_{own[k, j]}"] for j in range(4)] for k in range(3)]
    order = np.argsort(profile[0])
    assert [text.get_text() for text in lower.get_xticklabels()] == [str(j) for j in order]
    for panel, values in ((upper, np.array(profile)), (lower, np.array(signal))):
        dots = [points.get_offsets() for points in panel.collections]
        for place, latent in enumerate(order):
            others, first = dots[2 * place], dots[2 * place + 1]
            np.testing.assert_allclose(first, [[place, values[0, latent]]], atol=1e-4)
            np.testing.assert_allclose(others[:, 1], values[1:, latent], atol=1e-4)
    # Latent 2 is not in use: little noise makes its log Δ negative, but its mean is constant.
    assert profile[0][2] < 0
    assert signal[0][2] == pytest.approx(0, abs=1e-9)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == LEGEND


def test_group_noise_is_shown(ensemble, sprites):
    model, _ = ensemble
    panel = uw.show.activity(model, sprites, by="shape").axes[2]
    found = uw.select.member_activity(model, sprites, by="shape").table
    first = found[(found["member"] == 0) & (found["group"] != "all")]
    order = [int(text.get_text()) for text in panel.get_xticklabels()]
    names = [text.get_text() for text in panel.get_yticklabels()]
    assert names == ["square", "ellipse", "heart"]
    noise = first.set_index(["group", "latent"])["noise"]
    expected = [f"{noise[name, latent]:.2f}" for name in names for latent in order]
    assert [text.get_text() for text in panel.texts] == expected
    assert set(expected) == {"0.02", "0.22"}


def test_a_single_model_has_one_profile(model, sprites, lost):
    figure = uw.show.activity(model, sprites)
    assert not figure.legends
    assert all(len(dots.get_offsets()) <= 1 for dots in figure.axes[0].collections)
    with pytest.raises(UnweaveError, check=about("model", 2)):
        uw.show.activity(lost, sprites)


def test_kinds_of_latents():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2000, 5)) * [1, 0.03, 0.7, 0.7, 0]
    some = np.where(np.arange(2000) % 3, 1.0, 0.05)  # active for every third image
    noise = np.column_stack([np.full(2000, v) for v in (0.01, 0.99, 0.5, 0.0, 0.001)])
    noise[:, 3] = some
    kinds = regimes(means, np.log(noise))
    assert kinds == ["active", "passive", "mixed", "mixed", "mixed"]
    scores = uw.metrics.polarised_regime(means, logvars=np.log(noise))
    assert scores["log_delta_0"] < -1
    assert scores["log_delta_1"] > 1
    assert all(abs(scores[f"log_delta_{j}"]) < 1 for j in (2, 3))


def test_points_are_the_variances(model, sprites):
    panel = uw.show.polarised(model, sprites).axes[0]
    means, logvars = (x.astype(np.float64) for x in model.encode(sprites))
    labels = [text.get_text() for text in panel.get_yticklabels()]
    order = [1, 3, 0, 2]
    kinds = regimes(means, logvars)
    assert labels == [f"latent {j}, {kinds[j]}" for j in order]
    assert kinds == ["active", "active", "passive", "active"]
    points = [tuple(dots.get_offsets()[0]) for dots in panel.collections]
    for y, latent in enumerate(order):
        noise, signal = points[2 * y], points[2 * y + 1]
        assert noise == pytest.approx((np.exp(logvars[:, latent]).mean(), y), rel=1e-5)
        assert signal == pytest.approx((means[:, latent].var(), y), rel=1e-4, abs=1e-9)
    assert [line.get_color() for line in panel.lines[:4]] == [REGIMES[kinds[j]] for j in order]


def test_invalid_arguments_are_rejected(lost, sprites, grey):
    with pytest.raises(UnweaveError, check=about("model", 2)):
        uw.show.polarised(lost, sprites)
    (model,) = uw.train(uw.methods.AE(), grey, steps=1, batch=4, progress=False)
    with pytest.raises(UnweaveError, check=about("model", "ae")):
        uw.show.polarised(model, grey)
    fleet = uw.train(uw.methods.VAE(), grey, seeds=2, steps=1, batch=4, progress=False)
    with pytest.raises(UnweaveError, check=about("model", "Fleet")):
        uw.show.polarised(fleet, grey)
