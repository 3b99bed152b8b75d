"""The plot of how active latents are in each member."""

import numpy as np
import pytest

import unweave as uw
from unweave.errors import UnweaveError
from unweave.metrics import polarised_regime

LEGEND = ["first member", "the other 2 members"]


def test_points_are_log_delta_and_variance_of_members_in_one_order(ensemble, sprites):
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


def test_the_noise_of_groups_is_written(ensemble, sprites):
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
    with pytest.raises(UnweaveError, match="diverged"):
        uw.show.activity(lost, sprites)
