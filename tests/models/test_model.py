"""Fleets of models with different networks."""

import numpy as np
import pytest
import torch

import unweave as uw
from tests.pages import Page
from unweave.errors import UnweaveError
from unweave.models.model import join

SETTINGS = {"steps": 2, "batch": 8, "latents": 3, "progress": False}


@pytest.fixture(scope="module")
def sprites():
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(0, 32, 4))


@pytest.fixture(scope="module")
def parts(sprites):
    """Models of several methods, with dense and convolutional networks and two likelihoods."""
    return [
        uw.train("beta-vae", sprites, seeds=2, architecture="conv", **SETTINGS),
        uw.train("factor-vae", sprites, architecture="broadcast", **SETTINGS),
        uw.train("beta-vae", sprites, architecture="conv", likelihood="gaussian", **SETTINGS),
        uw.train("ae", sprites, architecture="small_mlp", **SETTINGS),
    ]


@pytest.fixture(scope="module")
def mixed(parts):
    first, *others = parts
    return join([first[0], *others, first[1]])


def test_each_model_encodes_and_decodes_as_alone(parts, mixed, sprites):
    alone = [parts[0][0], *(part[0] for part in parts[1:]), parts[0][1]]
    means, logvars = mixed.encode(sprites)
    decoded = mixed.decode(means[:, :20])
    for place, model in enumerate(alone):
        mean, logvar = model.encode(sprites)
        np.testing.assert_allclose(means[place], mean, atol=1e-5)
        np.testing.assert_allclose(logvars[place], logvar, atol=1e-5)
        np.testing.assert_allclose(decoded[place], model.decode(means[place, :20]), atol=1e-5)


def test_parameters_and_curves_are_those_of_each_model(parts, mixed, tmp_path):
    assert mixed.device == torch.device("cpu")
    for place, part in enumerate(parts[1:], start=1):
        moved = mixed.to("cpu")[place]
        assert moved.parameters.keys() == part[0].parameters.keys()
        for name, buffer in part[0].parameters.items():
            assert torch.equal(moved.parameters[name], buffer)
        assert moved.curve.reset_index(drop=True).equals(part[0].curve)
        again = uw.load(moved.save(tmp_path / str(place)))
        assert again.config == part[0].config


def test_scores_are_those_of_each_model(parts, mixed, sprites):
    table = uw.evaluate(mixed, sprites, metrics=["mig"], progress=False)
    (own,) = uw.evaluate(parts[1], sprites, metrics=["mig"], progress=False)["mig"]
    assert table["mig"][1] == pytest.approx(own, abs=1e-6)


def test_models_with_other_numbers_of_latents_cannot_be_joined(parts, sprites):
    (more,) = uw.train("beta-vae", sprites, **{**SETTINGS, "latents": 4})
    with pytest.raises(UnweaveError, match="latents"):
        join([parts[0], more])


def test_a_fleet_in_a_notebook_is_a_table_of_its_models(mixed):
    page = Page(mixed._repr_html_())
    assert page.texts[0] == repr(mixed)
    heads, *rows = page.rows
    assert [row[1:3] for row in rows] == [[str(c.method), str(c.seed)] for c in mixed.configs]
    assert {row[heads.index("State")] for row in rows} == {"trained"}
    mixed.diverged_at[1] = 1
    try:
        assert Page(mixed._repr_html_()).rows[2][-1] == "diverged at step 1"
    finally:
        mixed.diverged_at[1] = -1


def test_a_large_fleet_in_a_notebook_is_shortened(parts):
    page = Page(join([parts[0]] * 12)._repr_html_())
    assert len(page.rows) == 21
    assert page.texts[-1] == "and 4 more models"


def test_a_model_in_a_notebook_shows_its_settings(parts, monkeypatch):
    (model,) = parts[3]
    page = Page(model._repr_html_())
    assert page.texts[0] == repr(model)
    assert ["Architecture", "small_mlp"] in page.rows
    assert ["Run", model.config.hash] in page.rows
    monkeypatch.setattr(type(model.config.method), "__str__", lambda _: "<script>x</script>")
    assert "<script>x</script> trained for" in Page(model._repr_html_()).texts[0]
    assert "<script>x</script>" in Page(parts[3]._repr_html_()).rows[1]
