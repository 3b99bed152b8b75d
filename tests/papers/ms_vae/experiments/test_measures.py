"""What a second stage does on a trained example: it adds what is missing, and keeps C."""

import numpy as np
import pytest

import unweave as uw
from unweave.errors import UnweaveError
from unweave.nets.adam import Adam
from unweave.papers.ms_vae.experiments.conditioning import shared_information
from unweave.papers.ms_vae.experiments.measures import look_at

FAST = {"optimiser": Adam(lr=1e-3), "progress": False}


@pytest.fixture(scope="module")
def trained(sprites):
    """Two stages on sprites with stripes that the first cannot draw."""
    method = uw.methods.BetaTCVAE(beta=4)
    first = uw.train(method, sprites, steps=300, batch=16, latents=6, **FAST)
    second = {"latents": 4, "architecture": "small_dcgan"}
    (model,) = uw.train(
        uw.methods.MSVAE(), sprites, first=first, steps=300, batch=16, **second, **FAST
    )
    return look_at(model, sprites)


def test_the_second_stage_comes_nearer_to_images(trained):
    errors = trained.errors()
    assert errors["l2_x"] < 0.85 * errors["l2_y"]
    assert errors["l1_x"] < 0.9 * errors["l1_y"]
    images = trained.images / 255
    assert errors["l2_y"] == pytest.approx(float(((trained.y - images) ** 2).mean()), rel=1e-4)


def test_it_keeps_the_code_of_the_first(trained):
    terms = trained.terms()
    assert 1 > terms["m2"] > terms["m1"] > terms["m3"] > 1.25 * terms["m4"]
    # Codes that have nothing in common share what finite bins make of chance.
    chance = shared_information(trained.c, np.random.default_rng(0).permutation(trained.c))
    assert terms["m4"] < 1.5 * chance
    assert trained.noise_term() < 1.5 * chance
    assert np.nanmean(trained.kept()) == pytest.approx(terms["m3"])


def test_the_two_codes_complement_each_other(trained, sprites):
    found = trained.predictions(sprites.factors(trained.rows)).set_index("factor")
    assert (found["both"] >= found[["c", "z"]].max(axis=1) - 0.05).all()
    pattern = found.loc[sprites.grid.names.index("pattern")]
    assert pattern["z"] > pattern["c"] + 0.1


def test_images_vary_less_from_draw_to_draw_than_those_of_the_first_stage(trained):
    found = trained.variation(4)
    assert 0 < found["std_x"] < found["std_y"]


def test_pictures_of_two_stages_show_both(trained, sprites):
    model = trained.model
    sheet = uw.show.stages(model, sprites, count=4)
    assert [len(row) for row in sheet.boxes] == [4, 4, 4]
    drawn = np.random.default_rng(0).permutation(len(sprites))[:4]
    codes = model.encode(sprites.images(drawn))[0]
    for row, images in ((1, model.first[0].decode(codes[:, :6])), (2, model.decode(codes))):
        shown = sheet.part(row, 2)[::2, ::2, 0]
        np.testing.assert_array_equal(shown, np.rint(images[2, ..., 0] * 255))


def test_swapped_codes_are_those_of_the_row_and_of_the_column(trained, sprites):
    model = trained.model
    sheet = uw.show.swaps(model, sprites, count=3)
    drawn = np.random.default_rng(0).permutation(len(sprites))[:3]
    codes = model.encode(sprites.images(drawn))[0]
    mixed = np.concatenate([codes[2, :6], codes[0, 6:]])[None]
    expected = np.rint(model.decode(mixed)[0, ..., 0] * 255)
    assert [len(row) for row in sheet.boxes] == [3] * 4
    np.testing.assert_array_equal(sheet.part(1, 2)[::2, ::2, 0], expected)


def test_traversals_show_c_in_both_stages_and_z_in_one(trained, sprites):
    sheet = uw.show.stage_traversals(trained.model, sprites, columns=5, count=2)
    assert [len(row) for row in sheet.boxes] == [2, *[5] * 6]
    assert trained.model.config.latent_names[5:8] == ["C 5", "Z 0", "Z 1"]
    whole = uw.show.traversals(trained.model, sprites)
    assert len(whole.boxes) == 11


def test_models_of_one_stage_have_nothing_to_show(first, sprites):
    for look in (look_at, uw.show.stages, uw.show.swaps, uw.show.stage_traversals):
        with pytest.raises(UnweaveError, match="have one stage; train ms_vae over them"):
            look(first[0], sprites)
