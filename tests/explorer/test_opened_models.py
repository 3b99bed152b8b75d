"""Opened models: loaded when looked at, with their data and the activity of their latents."""

import json

import numpy as np
import pytest

import unweave as uw
from tests.explorer.explorer_tools import IDLE
from unweave.analysis.activity import KL, RELATIVE_SPREAD, kl_of_latents
from unweave.errors import UnweaveError
from unweave.explorer import opened_models as shelf_file
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import Shelf
from unweave.models.drawn_images import drawn_rows


def test_activity_is_the_mean_kl_on_the_models_own_data(runs, fleet, sprites):
    opened = Shelf(entries_of(runs)).open(1)
    mean, logvar = fleet[1].encode(sprites.inputs(drawn_rows(sprites)))
    expected = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
    np.testing.assert_allclose(opened.activity.amounts, expected, rtol=1e-4)
    assert opened.activity.amounts[IDLE] == 0
    assert opened.activity.active.sum() == 4
    assert opened.activity.criterion is KL
    assert len(opened.support) == len(sprites)
    assert sprites.factors([opened.start])[0].tolist() == [1, 0, 0, 4, 4]


def test_without_its_data_a_model_draws_for_itself_and_that_is_said(colours):
    data, (model, _) = colours
    opened = Shelf(entries_of(model)).open(0)
    assert opened.data is None
    assert "'noise'; say where they are" in opened.no_data
    codes = np.random.default_rng(0).normal(size=(256, 3))
    mean, logvar = model.encode(model.decode(codes))
    np.testing.assert_allclose(
        opened.activity.amounts, kl_of_latents(mean[None], logvar[None])[0], rtol=1e-4
    )
    assert Shelf(entries_of(model), data).open(0).data is data


def test_an_autoencoder_is_measured_by_the_spread_of_its_codes(colours):
    data, (_, model) = colours
    activity = Shelf(entries_of(model), data).open(0).activity
    assert activity.criterion is RELATIVE_SPREAD
    mean, _ = model.encode(data.inputs(drawn_rows(data)))
    np.testing.assert_allclose(activity.amounts, mean.std(0), rtol=1e-5)


def test_data_of_another_shape_is_not_used_and_that_is_said(colours, sprites):
    _, (model, _) = colours
    opened = Shelf(entries_of(model), sprites).open(0)
    assert opened.data is None
    assert "64 × 64 × 1, but these models take 32 × 32 × 3" in opened.no_data


@pytest.mark.parametrize(
    ("origin", "sentence"),
    [
        ([["load", "cars3d", {}]], "cars3d is not downloaded yet"),
        ([["load", "pendulum", {}]], "pendulum has curves and no images"),
        ([["load", "dsprites", {}], ["slice"]], "could not be had"),
        ([["load", "dsprites", {}], ["explode", {}]], "could not be had"),
        ([], "does not say what data"),
    ],
)
def test_data_that_cannot_be_had_are_not_downloaded_and_that_is_said(
    raw, tmp_path, resettled, origin, sentence
):
    folder = raw.save(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["data"] = origin
    resettled(folder, config)
    opened = Shelf(entries_of(folder)).open(0)
    assert opened.data is None
    assert sentence in opened.no_data


def test_models_are_loaded_when_looked_at_and_few_are_kept(runs, monkeypatch):
    monkeypatch.setattr(shelf_file, "MODELS_KEPT", 1)
    shelf = Shelf(entries_of(runs))
    assert shelf._opened.cache_info().currsize == 0
    first = shelf.open(0)
    assert shelf.open(0) is first
    shelf.open(1)
    assert shelf._opened.cache_info().currsize == 1
    assert shelf.open(0) is not first
    assert shelf.open(0).data is first.data


def test_numbers_that_are_not_finite_are_a_sentence(fleet):
    lost = uw.Model(
        fleet[0].configs,
        fleet.shape,
        {name: buffer * np.nan for name, buffer in fleet[0].parameters.items()},
        fleet[0].curve,
        fleet[0].diverged_at,
    )
    shelf = Shelf(entries_of(lost))
    assert shelf.open(0).activity.amounts.tolist() == [0] * 5
    with pytest.raises(UnweaveError, match="not finite"):
        shelf.decode(0, [[0.0] * 5])
    with pytest.raises(UnweaveError, match="not finite"):
        shelf.encode(0, np.zeros((64, 64, 1), np.uint8))


def test_images_come_with_their_factors(runs, sprites):
    image, factors = Shelf(entries_of(runs)).image(0, 70)
    np.testing.assert_array_equal(image, sprites[70])
    assert factors["shape"] == "ellipse"
    assert list(factors) == ["shape", "posX", "posY"]  # those that vary
