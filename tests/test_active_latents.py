"""Everything that shows which latents of a saved model are active or clear shows the same."""

import numpy as np
import pytest

import unweave as uw
from unweave.data.arrays import as_store
from unweave.data.dataset import Dataset
from unweave.explorer.model_index import entries_of
from unweave.explorer.opened_models import OpenedModels
from unweave.plots.drawn_codes import draw_codes
from unweave.plots.traversals import chosen_latents
from unweave.report.comparison import find
from unweave.report.pictures import traversed
from unweave.report.subject import opened
from unweave.select.naming import latents_table

LATENTS = 6
FITS = [
    (uw.methods.BetaVAE(beta=1.0), 3, 0.02),
    (uw.methods.VAEEnsemble(members=2, gamma=5.0), 2, 0.2),
    (uw.methods.AE(), 2, 0.05),
]
"""Methods, steps and learning rates that leave some latents active and some not."""


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    mixed = (rng.uniform(size=(400, 8)) * 0.5 ** np.arange(8)) @ rng.uniform(-1, 1, (8, 64))
    unit = (mixed - mixed.min()) / np.ptp(mixed)
    return np.rint(255 * unit).astype(np.uint8).reshape(-1, 8, 8, 1)


@pytest.fixture(scope="module")
def data(images):
    return Dataset("images", as_store(images))


@pytest.fixture(scope="module", params=FITS, ids=lambda fit: fit[0].name)
def folder(request, images, tmp_path_factory):
    method, steps, rate = request.param
    settings = {"seeds": 1, "latents": LATENTS, "architecture": "small_mlp"}
    unweaver = uw.Unweaver(method, active=True, steps=steps, learning_rate=rate, **settings)
    return unweaver.fit(images).save(tmp_path_factory.mktemp("active") / "fitted")


def test_report_explorer_pictures_and_estimator_agree(folder, data):
    model = uw.load(folder)
    expected = chosen_latents(draw_codes(model, data), "hide")
    assert 0 < len(expected) < LATENTS
    names = [f"z{latent}" for latent in expected]
    assert uw.Unweaver.load(folder).get_feature_names_out().tolist() == names
    explored = OpenedModels(entries_of(folder), data).activity(0)
    assert [j for j in explored.order if explored.active[j]] == expected
    clear = [j for j in explored.order if explored.clear[j]]
    assert set(clear) <= set(expected)
    table = latents_table(folder, data)
    assert sorted(clear) == table["latent"][table["clear"]].tolist()
    found = find(opened(folder, data), progress=False)
    (part,) = found.parts
    assert list(traversed(model, part, part.compared[0]).latents) == (clear or expected)
    assert found.table["clear"].tolist() == [len(clear)]
