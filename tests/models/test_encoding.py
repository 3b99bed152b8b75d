"""Codes of images as tables and files, by function and by command."""

import dataclasses
import logging
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.cli import main
from unweave.errors import DataError, UnweaveError
from unweave.models.encoding import posteriors
from unweave.models.finding import one_model
from unweave.models.images import ShapeError

FILES = [f"{'sub/' if k % 3 == 0 else ''}img_{k:02}.png" for k in range(10)]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Ten pictures, each of its own colour, and five files that are none."""
    folder = tmp_path_factory.mktemp("data") / "images"
    (folder / "sub").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for file in FILES:
        image = rng.integers(0, 256, (40, 50, 3)) // 2 + rng.integers(0, 128, 3)
        Image.fromarray(image.astype(np.uint8)).save(folder / file)
    for k in range(5):
        (folder / f"broken_{k}.png").write_bytes(b"no image")
    return folder


@pytest.fixture(scope="module")
def fleet(images):
    data = uw.data.load(images, size=32)
    quick = {"steps": 3, "batch": 4, "latents": 3, "progress": False}
    return uw.train(uw.methods.BetaVAE(beta=[1, 4]), data, init="torch", **quick)


@pytest.fixture(scope="module")
def saved(fleet, tmp_path_factory):
    """As a fit leaves it: all runs, and the best."""
    folder = tmp_path_factory.mktemp("saved")
    fleet.save(folder / "fit/runs")
    fleet[1].save(folder / "fit/best")
    return folder / "fit"


def command(capsys, *words):
    """What a command returns, prints, and says."""
    try:
        main([str(word) for word in words])
        code = 0
    except SystemExit as error:
        code = error.code
    return code, *capsys.readouterr()


def test_a_folder_is_encoded_as_the_model_does_it(fleet, saved, images):
    table = uw.encode(saved, images, logvar=True, progress=False)
    mean, logvar = fleet[1].encode(uw.data.load(images, size=32))
    assert table["file"].tolist() == sorted(FILES)
    assert np.array_equal(table[["z0", "z1", "z2"]], mean)
    assert np.array_equal(table[["logvar0", "logvar1", "logvar2"]], logvar)
    assert np.ptp(mean, 0).max() > 1e-3
    plain = uw.encode(fleet[1], images, progress=False)
    pd.testing.assert_frame_equal(plain, table[["file", "z0", "z1", "z2"]])


def test_images_are_made_grey_or_coloured_as_the_model_needs(images, fleet):
    grey = uw.data.load(images, size=32, channels=1)
    model = uw.train(uw.methods.VAE(), grey, steps=1, batch=2, latents=2, progress=False)[0]
    table = uw.encode(model, images, progress=False)
    assert np.array_equal(table[["z0", "z1"]], model.encode(grey)[0])
    with pytest.raises(ShapeError):
        uw.encode(fleet[0], grey)


@pytest.mark.parametrize("non_square", ["crop", "pad"])
def test_other_images_are_prepared_like_the_training_images(tmp_path, non_square, caplog):
    """Also if the largest value of the other images has another bit depth."""
    rng = np.random.default_rng(0)
    for name, high in (("train", 4_096), ("dim", 1_000), ("bright", 16_384)):
        (tmp_path / name).mkdir()
        for k in range(4):
            levels = rng.integers(0, high, (40, 50)).astype(np.uint16)
            Image.fromarray(levels).save(tmp_path / name / f"{k}.png")
    data = uw.data.load(tmp_path / "train", size=32, non_square=non_square)
    quick = {"steps": 2, "batch": 4, "latents": 3, "progress": False}
    model = uw.train("vae", data, **quick)[0]
    model.save(tmp_path / "model")
    saved = uw.load(tmp_path / "model")
    for name in ("train", "dim", "bright"):
        table = uw.encode(saved, tmp_path / name, progress=False)
        same = {"size": 32, "bits": 12, "non_square": non_square}
        expected, _ = model.encode(uw.data.load(tmp_path / name, **same))
        np.testing.assert_array_equal(table.filter(like="z").to_numpy(), expected)
    caplog.clear()
    uw.encode(saved, data, progress=False)
    assert not caplog.records
    uw.encode(saved, uw.data.load(tmp_path / "bright", size=32), progress=False)
    assert "bits=12" in caplog.text
    before = uw.data.load(tmp_path / "train", size=32, bits=16)
    old = uw.train("vae", before, **quick)[0]
    table = uw.encode(old, tmp_path / "dim", progress=False)
    expected, _ = old.encode(uw.data.load(tmp_path / "dim", size=32, bits=16))
    np.testing.assert_array_equal(table.filter(like="z").to_numpy(), expected)


def test_arrays_and_data_sets_have_no_files(fleet):
    array = np.random.default_rng(0).random((3, 32, 32, 3))
    table = uw.encode(fleet[0], array, progress=False)
    assert table.columns.tolist() == ["z0", "z1", "z2"]
    assert np.array_equal(table, fleet[0].encode((array * 255).round().astype(np.uint8))[0])
    with pytest.raises(ShapeError):
        uw.encode(fleet[0], "dsprites")


def test_many_images_are_encoded_piece_by_piece(monkeypatch, fleet, images):
    whole = uw.encode(fleet[0], images, progress=False)
    monkeypatch.setattr("unweave.models.encoding.ROWS_PER_BATCH", 3)
    parts = uw.encode(fleet[0], images, progress=False)
    np.testing.assert_allclose(parts.iloc[:, 1:], whole.iloc[:, 1:], atol=1e-6)


def test_one_image_is_enough(tmp_path, images, fleet):
    image = Image.open(images / FILES[1])
    image.save(tmp_path / "one.png")
    table = uw.encode(fleet[0], tmp_path, progress=False)
    all_ = uw.encode(fleet[0], images, progress=False).set_index("file")
    assert table["file"].tolist() == ["one.png"]
    np.testing.assert_allclose(table[["z0", "z1", "z2"]], all_.loc[[FILES[1]]], atol=1e-6)


def test_files_of_all_kinds_agree(saved, images, tmp_path, capsys, fleet):
    mean, logvar = fleet[1].encode(uw.data.load(images, size=32))
    for ending in ("csv", "parquet", "npy"):
        out = tmp_path / f"codes.{ending}"
        code, said, _ = command(capsys, "encode", saved, images, "-o", out, "--logvar")
        assert code == 0
        assert said == f"Encoded 10 images with 3 latents each, skipped 5: {out}\n"
    csv, parquet = pd.read_csv(tmp_path / "codes.csv"), pd.read_parquet(tmp_path / "codes.parquet")
    numbers = np.load(tmp_path / "codes.npy")
    assert numbers.dtype == np.float32
    assert np.array_equal(numbers, np.concatenate([mean, logvar], 1))
    assert csv.columns.tolist() == parquet.columns.tolist()
    assert csv["file"].tolist() == parquet["file"].tolist() == sorted(FILES)
    assert np.array_equal(csv.iloc[:, 1:].to_numpy(np.float32), numbers)
    assert np.array_equal(parquet.iloc[:, 1:], numbers)


def test_every_broken_file_is_named_once(saved, images, tmp_path, capsys, caplog):
    with caplog.at_level(logging.WARNING, "unweave"):
        _, _, errors = command(capsys, "encode", saved, images, "-o", tmp_path / "codes.csv")
    said = errors + caplog.text
    assert [said.count(f"broken_{k}.png: not an image") for k in range(5)] == [1] * 5


def test_codes_with_names_of_files_can_be_scored(saved, images, tmp_path, capsys):
    command(capsys, "encode", saved, images, "-o", tmp_path / "codes.csv")
    pd.DataFrame({"half": [0, 1] * 5}).to_csv(tmp_path / "factors.csv", index=False)
    words = ["score", tmp_path / "codes.csv", tmp_path / "factors.csv", "--metrics", "mig"]
    code, said, errors = command(capsys, *words)
    assert code == 0, errors
    assert said.startswith("mig")


def test_existing_files_are_not_overwritten_by_default(saved, images, tmp_path, capsys):
    out = tmp_path / "codes.csv"
    out.write_text("mine")
    code, _, errors = command(capsys, "encode", saved, images, "-o", out)
    assert code == 2
    assert "codes.csv" in errors
    assert out.read_text() == "mine"
    assert command(capsys, "encode", saved, images, "-o", out, "--overwrite")[0] == 0
    assert len(pd.read_csv(out)) == 10


def test_export_prints_the_largest_difference(saved, tmp_path, capsys):
    code, said, _ = command(capsys, "export", saved, "-o", tmp_path / "onnx")
    assert code == 0
    found = re.fullmatch(
        r"Wrote encoder.onnx, decoder.onnx, .* \(largest difference (\S+)\)\n", said
    )
    assert 0 <= float(found[1]) < 1e-5
    code, _, errors = command(capsys, "export", saved, "-o", tmp_path / "onnx")
    assert code == 2
    assert "onnx" in errors


def test_mistakes_print_one_line_and_exit_with_2(saved, images, tmp_path, capsys):
    cut = tmp_path / "cut"
    one_model(saved).save(cut)
    weights = cut / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:2000])
    (tmp_path / "empty").mkdir()
    for model, source, out, message in [
        (cut, images, "codes.csv", str(cut)),
        (images, images, "codes.csv", str(images)),
        (saved / "runs", images, "codes.csv", str(saved / "runs")),
        (tmp_path / "nowhere", images, "codes.csv", str(tmp_path / "nowhere")),
        (saved, tmp_path / "empty", "codes.csv", str(tmp_path / "empty")),
        (saved, tmp_path / "nowhere", "codes.csv", str(tmp_path / "nowhere")),
        (saved, "dsprits", "codes.csv", "'dsprites'"),
        (saved, images, "codes.txt", ".parquet"),
        (saved, images, "nowhere/codes.csv", "nowhere"),
    ]:
        code, said, errors = command(capsys, "encode", model, source, "-o", tmp_path / out)
        assert (code, said) == (2, ""), message
        (line,) = errors.splitlines()
        assert line.startswith("unweave: ")
        assert message in line
        assert not (tmp_path / "codes.csv").exists()
    code, _, errors = command(capsys, "export", images, "-o", tmp_path / "onnx")
    assert code == 2
    assert str(images) in errors
    assert not (tmp_path / "onnx").exists()


def test_untrained_models_warn_and_diverged_models_raise(images, fleet, caplog):
    data = uw.data.load(images, size=32)
    quick = {"batch": 4, "latents": 3, "progress": False}
    untrained = uw.train(uw.methods.VAE(), data, steps=0, **quick)[0]
    caplog.clear()
    table = uw.encode(untrained, data, progress=False)
    assert np.array_equal(table[["z0", "z1", "z2"]], untrained.encode(data)[0])
    (record,) = caplog.records
    assert "0 steps" in record.message
    diverged = dataclasses.replace(fleet[0], diverged_at=np.array([7]))
    with pytest.raises(UnweaveError, check=about("diverged_at")):
        uw.encode(diverged, data)


def test_models_of_features_cannot_encode_image_files(tmp_path, images):
    rows = np.random.default_rng(0).random((40, 3))
    folder = uw.Unweaver(steps=1, seeds=1, strengths=1).fit(rows).save(tmp_path / "fitted")
    with pytest.raises(DataError, check=about("shape")):
        uw.encode(folder, images)


@pytest.fixture(scope="module")
def ensemble(images, planted):
    """Three members that agree on z0 and z1, do not use z2, and disagree on z3."""
    data = uw.data.load(images, size=32)
    quick = {"steps": 1, "batch": 4, "latents": 4, "architecture": "small_mlp"}
    trained = uw.train(uw.methods.VAEEnsemble(members=3), data, progress=False, **quick)[0]
    return planted(trained, data)[0]


def test_a_member_encodes_or_all_do(ensemble, images):
    data = uw.data.load(images, size=32)
    names = ["z0", "z1", "z2", "z3"]
    each = [ensemble.encode(data, member=k)[0] for k in range(3)]
    for member in range(3):
        table = uw.encode(ensemble, images, member=member, progress=False)
        assert np.array_equal(table[names], each[member])
        assert not table.attrs
    whole = uw.encode(ensemble, images, member="mean", logvar=True, spread=True, progress=False)
    np.testing.assert_allclose(whole[["z0", "z1"]], each[0][:, :2], atol=1e-5)
    other = np.stack([each[0][:, 3], each[1][:, 3], -each[2][:, 2]])
    np.testing.assert_allclose(whole["z3"], other.mean(0), atol=1e-5)
    np.testing.assert_allclose(whole["spread3"], other.std(0), atol=1e-5)
    np.testing.assert_allclose(whole["logvar2"], -1.5, atol=1e-5)
    expected = [np.corrcoef(other[0], one)[0, 1] for one in other[1:]]
    agreement = whole.attrs["agreement"]
    assert agreement["z3"] == pytest.approx(np.mean(expected), abs=1e-5)
    assert [agreement[name] for name in names[:3]] == pytest.approx([1, 1, 0], abs=1e-5)
    assert list(whole.attrs["members"].values()) == ["agree", "agree", "unused", "disagree"]


def test_members_are_compared_over_all_pieces(monkeypatch, ensemble, images):
    whole = uw.encode(ensemble, images, member="mean", progress=False)
    monkeypatch.setattr("unweave.models.encoding.ROWS_PER_BATCH", 3)
    parts = uw.encode(ensemble, images, member="mean", progress=False)
    np.testing.assert_allclose(parts.iloc[:, 1:], whole.iloc[:, 1:], atol=1e-5)
    assert parts.attrs["agreement"] == pytest.approx(whole.attrs["agreement"], abs=1e-5)


def test_the_command_reports_disagreement_of_members(ensemble, images, tmp_path, capsys):
    saved, out = ensemble.save(tmp_path / "run"), tmp_path / "codes.csv"
    words = ["encode", saved, images, "-o", out]
    code, said, _ = command(capsys, *words)
    assert code == 0
    assert said.splitlines()[1] == "Encoded with member 0 of 3; use --member mean for all."
    code, said, _ = command(capsys, *words, "--member", "2", "--overwrite")
    assert code == 0
    np.testing.assert_allclose(
        pd.read_csv(out)["z3"], ensemble.encode(uw.data.load(images, size=32))[0][:, 0], atol=1e-5
    )
    code, said, errors = command(capsys, *words, "--member", "mean", "--spread", "--overwrite")
    assert code == 0, errors
    table = uw.encode(ensemble, images, member="mean", spread=True, progress=False)
    agreement = table.attrs["agreement"]
    assert said.splitlines()[1] == (
        f"3 members agree on z0 1.00, z1 1.00; disagree on z3 {agreement['z3']:.2f}; do not use "
        f"z2: {tmp_path / 'codes.agreement.csv'}"
    )
    assert np.array_equal(pd.read_csv(out).iloc[:, 1:].to_numpy(np.float32), table.iloc[:, 1:])
    beside = pd.read_csv(tmp_path / "codes.agreement.csv")
    assert beside["latent"].tolist() == ["z0", "z1", "z2", "z3"]
    np.testing.assert_allclose(beside["agreement"], list(agreement.values()), rtol=1e-9)
    assert beside["members"].tolist() == ["agree", "agree", "unused", "disagree"]
    out.unlink()
    code, _, errors = command(capsys, *words, "--member", "mean")
    assert code == 2
    assert "codes.agreement.csv" in errors


def test_missing_members_raise_errors(ensemble, fleet, images):
    ring = uw.train(
        uw.methods.VAEEnsemble(members=3, neighbours=1),
        uw.data.load(images, size=32),
        **{"steps": 1, "batch": 4, "latents": 2, "architecture": "small_mlp", "progress": False},
    )[0]
    for model, options, subject, value in [
        (fleet[0], {"member": "mean"}, "members", None),
        (fleet[0], {"member": 1}, "members", None),
        (ensemble, {"member": 3}, "member", 3),
        (ensemble, {"member": -1}, "member", -1),
        (ensemble, {"member": "median"}, "member", "median"),
        (ensemble, {"member": 1, "spread": True}, "spread", None),
        (ring, {"member": "mean"}, "maps", None),
    ]:
        with pytest.raises(UnweaveError, check=about(subject, value)):
            uw.encode(model, images, progress=False, **options)
    assert len(uw.encode(ring, images, member=2, progress=False)) == 10


def test_the_command_runs_in_a_separate_process(saved, images, tmp_path, start):
    done = start("encode", saved, images, "-o", "codes.npy", cwd=tmp_path)
    assert done.wait() == 0, done.stderr
    assert np.load(tmp_path / "codes.npy").shape == (10, 3)
    assert "5 of 15 files" in done.stderr


def test_models_of_several_fleets_encode_in_their_order_and_by_parts(monkeypatch):
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0, posX=range(4))
    settings = {"steps": 1, "batch": 4, "latents": 3, "progress": False}
    first = uw.train(uw.methods.VAE(), data, seeds=2, **settings)
    ensemble = uw.train(uw.methods.VAEEnsemble(members=2), data, **settings)[0]
    models, rows = [first[1], ensemble, first[0]], np.array([5, 100, 17, 0, 5])
    assert np.array_equal(posteriors(first, data)[0], first.encode(data)[0])
    whole = posteriors(models, data, rows, member=0)
    monkeypatch.setattr("unweave.models.encoding.ROWS_PER_BATCH", 2)
    told = []
    parts = posteriors(models, data, rows, advance=told.append)
    assert sum(told) == len(models) * len(rows)
    for found in (whole, parts, posteriors(models, data.images(range(len(data))), rows)):
        for place, model in enumerate(models):
            expected = model.encode(data.images(rows))
            for own, known in zip(found, expected, strict=True):
                np.testing.assert_allclose(own[place], known, atol=1e-6)
    (second,), _ = posteriors(ensemble, data, rows, member=1)
    np.testing.assert_allclose(second, ensemble.encode(data.images(rows), member=1)[0], atol=1e-6)
