"""The cache of loaded models, with their data and the activity of their latents."""

import json

import numpy as np
import pytest

import unweave as uw
from tests.explorer.explorer_tools import IDLE
from tests.raising import about
from unweave.analysis.activity import KL, RELATIVE_SPREAD, kl_of_latents
from unweave.errors import UnweaveError
from unweave.explorer import opened_models as module
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import OpenedModels
from unweave.models.images import sample_rows


def test_activity_is_the_mean_kl_on_the_models_own_data(runs, fleet, sprites):
    models = OpenedModels(entries_of(runs))
    opened, activity = models.open(1), models.activity(1)
    mean, logvar = fleet[1].encode(sprites.inputs(sample_rows(sprites)))
    expected = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
    np.testing.assert_allclose(activity.amounts, expected, rtol=1e-4)
    assert activity.amounts[IDLE] == 0
    assert activity.active.sum() == 4
    assert activity.criterion is KL
    assert len(opened.support) == len(sprites)
    assert sprites.factors([opened.start])[0].tolist() == [1, 0, 0, 4, 4]


def test_activity_is_estimated_first_and_then_exact(runs, fleet, sprites, monkeypatch):
    monkeypatch.setattr(module, "FIRST_IMAGES", 50)
    models = OpenedModels(entries_of(runs))
    first, complete = models.first_activity(1)
    assert not complete
    rows = sample_rows(sprites)
    for activity, seen in ((first, rows[:50]), (models.activity(1), rows)):
        mean, logvar = fleet[1].encode(sprites.inputs(seen))
        expected = kl_of_latents(mean[None], logvar[None])[0]
        np.testing.assert_allclose(activity.amounts, expected, rtol=1e-4)
    monkeypatch.setattr(module, "FIRST_IMAGES", len(sprites))
    _, complete = OpenedModels(entries_of(runs)).first_activity(1)
    assert complete


def test_without_data_activity_uses_samples_from_the_prior(colours):
    data, (model, _) = colours
    models = OpenedModels(entries_of(model))
    opened = models.open(0)
    assert opened.data is None
    assert "'noise'" in opened.no_data
    assert "--data" in opened.no_data
    codes = np.random.default_rng(0).normal(size=(256, 3))
    mean, logvar = model.encode(model.decode(codes))
    np.testing.assert_allclose(
        models.activity(0).amounts, kl_of_latents(mean[None], logvar[None])[0], rtol=1e-4
    )
    assert OpenedModels(entries_of(model), data).open(0).data is data


def test_an_autoencoder_is_measured_by_the_spread_of_its_codes(colours):
    data, (_, model) = colours
    activity = OpenedModels(entries_of(model), data).activity(0)
    assert activity.criterion is RELATIVE_SPREAD
    mean, _ = model.encode(data.inputs(sample_rows(data)))
    np.testing.assert_allclose(activity.amounts, mean.std(0), rtol=1e-5)


def test_data_of_another_shape_is_not_used(colours, sprites):
    _, (model, _) = colours
    opened = OpenedModels(entries_of(model), sprites).open(0)
    assert opened.data is None
    for shape in ("64 × 64 × 1", "32 × 32 × 3"):
        assert shape in opened.no_data


@pytest.mark.parametrize(
    ("origin", "datum"),
    [
        ([["load", "cars3d", {}]], "unweave data prepare cars3d"),
        ([["load", "pendulum", {}]], "curves"),
        ([["load", "dsprites", {}], ["slice"]], "slice"),
        ([["load", "dsprites", {}], ["explode", {}]], "explode"),
        ([], "data"),
    ],
)
def test_unavailable_data_is_not_downloaded(raw, tmp_path, resettled, origin, datum):
    folder = raw.save(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["data"] = origin
    resettled(folder, config)
    opened = OpenedModels(entries_of(folder)).open(0)
    assert opened.data is None
    assert datum in opened.no_data


def test_models_are_loaded_on_demand_and_cached(runs, monkeypatch):
    monkeypatch.setattr(module, "MODELS_KEPT", 1)
    models = OpenedModels(entries_of(runs))
    assert models._opened.cache_info().currsize == 0
    first = models.open(0)
    assert models.open(0) is first
    models.open(1)
    assert models._opened.cache_info().currsize == 1
    assert models.open(0) is not first
    assert models.open(0).data is first.data


def test_non_finite_outputs_are_an_error(fleet):
    broken = uw.Model(
        fleet[0].configs,
        fleet.shape,
        {name: buffer * np.nan for name, buffer in fleet[0].parameters.items()},
        fleet[0].curve,
        fleet[0].diverged_at,
    )
    models = OpenedModels(entries_of(broken))
    assert models.activity(0).amounts.tolist() == [0] * 5
    with pytest.raises(UnweaveError, check=about(broken.config.hash)):
        models.decode(0, [[0.0] * 5])
    with pytest.raises(UnweaveError, check=about(broken.config.hash)):
        models.encode(0, np.zeros((64, 64, 1), np.uint8))


def test_images_come_with_their_factors(runs, sprites):
    image, factors, file = OpenedModels(entries_of(runs)).image(0, 70)
    np.testing.assert_array_equal(image, sprites[70])
    assert file == ""
    assert factors["shape"] == "ellipse"
    assert list(factors) == ["shape", "posX", "posY"]  # those that vary
