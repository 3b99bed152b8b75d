"""Measurements of image changes and of models trained on changed images."""

from dataclasses import replace

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.data.stores import Bytes
from unweave.errors import DataError
from unweave.papers.inductive_biases.manipulation import (
    active_by_noise,
    change_sizes,
    factor_accuracies,
    factor_gaps,
    over_pruned,
    show_changes,
    with_noise,
)


def with_images(data, change):
    """The same data set with other bytes."""
    return replace(data, store=Bytes(change(data.images(np.arange(len(data))))), origin=())


def test_sizes_of_a_known_change(panes):
    def lift(images):
        images = images.copy()
        images[:, :4] += 51
        return images

    found = change_sizes(panes, with_images(panes, lift), count=50)
    assert found["linf"] == pytest.approx(0.2)
    assert found["changed"] == pytest.approx(4 / 32)
    assert found["l2"] == pytest.approx(0.2 * np.sqrt(4 * 32))
    assert found["rms"] == pytest.approx(0.2 * np.sqrt(4 / 32))
    with pytest.raises(DataError, check=about("modified", "panes")):
        change_sizes(panes, panes.slice(corner=0))


def test_the_sheet_shows_before_after_and_difference(panes):
    noisy = with_noise(panes, 0.1)
    sheet = show_changes(panes, {"noise": noisy}, count=3, scale=0.1)
    rows = np.sort(np.random.default_rng(0).permutation(108)[:3])
    assert len(sheet.boxes) == 3
    for column, row in enumerate(rows):
        before, after = panes[int(row)][..., 0].astype(float), noisy[int(row)][..., 0]
        shown = [sheet.part(k, column)[::2, ::2, 0] for k in range(3)]
        assert np.array_equal(shown[0], before)
        assert np.array_equal(shown[1], after)
        expected = 255 * (0.5 + (after - before) / 255 / 0.2)
        assert np.abs(shown[2] - expected.clip(0, 255)).max() <= 0.51


def test_factors_are_classified_where_they_are_visible(panes):
    def veil(images):
        images = images.copy()
        images[:, 22:, :10] = 77  # the pane that shows `small`
        return images

    data = {"original": panes, "veiled": with_images(panes, veil)}
    fast = uw.Adam(lr=2e-3)
    found = factor_accuracies(data, 120, batch=32, optimiser=fast, device="cpu", progress=False)
    assert found.index.tolist() == ["corner", "large", "small", "mean"]
    assert found.loc["large", "original"] > 0.8
    assert found.loc["small", "original"] > found.loc["small", "veiled"] + 0.3
    assert found.loc["small", "veiled"] < 0.45
    assert found.loc["corner", "chance"] == pytest.approx(1 / 3)
    assert found.loc["mean", "original"] == pytest.approx(found["original"][:3].mean())


def test_active_latents_have_little_noise():
    logvars = np.log(np.array([[0.79, 0.5, 1.0], [0.79, 1.2, 0.5]]))
    assert active_by_noise(logvars).tolist() == [True, False, True]
    assert active_by_noise(logvars, noise=0.9).tolist() == [True, True, True]


def test_models_with_fewer_active_latents_than_factors_are_over_pruned(panes, pair):
    found = over_pruned(pair[0], panes)
    assert found["factors"].tolist() == [3]
    _, logvars = pair[0].encode(panes)
    assert found["active"].tolist() == [int((np.exp(logvars).mean(0) < 0.8).sum())]
    assert found["active"].tolist() == [2]  # of two latents, for three factors
    assert found["over_pruned"].tolist() == [True]
    fewer = panes.slice(corner=0)
    columns = fewer.factors(np.arange(36))[:, 1:].T
    fewer = uw.data.load(
        fewer.images(np.arange(36)), factors=dict(zip("ab", columns, strict=True))
    )
    assert over_pruned(pair[0], fewer)["over_pruned"].tolist() == [False]
    # Factors of one class need no latent.
    fixed = over_pruned(pair[0], panes.slice(corner=[0]))
    assert (fixed["factors"].tolist(), fixed["over_pruned"].tolist()) == ([2], [False])


def test_the_mean_of_the_gaps_is_the_mig(panes, pair):
    found = factor_gaps(pair[0], panes)
    assert found["factor"].tolist() == ["corner", "large", "small"]
    codes, _ = pair[0].encode(panes)
    scores = uw.metrics.mig(codes, panes.factors(np.arange(108)))
    assert found["gap"].mean() == pytest.approx(scores["mig"])
    assert found.set_index("factor")["gap"]["large"] > found.set_index("factor")["gap"]["corner"]
