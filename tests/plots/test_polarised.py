"""The plot of the polarised regime."""

import numpy as np
import pytest

import unweave as uw
from unweave.errors import UnweaveError
from unweave.plots.polarised import COLOURS, regimes


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
    assert [line.get_color() for line in panel.lines[:4]] == [COLOURS[kinds[j]] for j in order]


def test_mistakes_are_said(lost, sprites, grey):
    with pytest.raises(UnweaveError, match="diverged"):
        uw.show.polarised(lost, sprites)
    (model,) = uw.train(uw.methods.AE(), grey, steps=1, batch=4, progress=False)
    with pytest.raises(UnweaveError, match="not polarised"):
        uw.show.polarised(model, grey)
    fleet = uw.train(uw.methods.VAE(), grey, seeds=2, steps=1, batch=4, progress=False)
    with pytest.raises(UnweaveError, match="one model is drawn at a time"):
        uw.show.polarised(fleet, grey)
