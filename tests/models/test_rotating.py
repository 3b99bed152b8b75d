"""Rotation of trained autoencoders: codes change as fitted, reconstructions stay."""

import logging

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.cli import main
from unweave.errors import UnweaveError
from unweave.io.checksums import write_sums
from unweave.io.tensors import open_tensors, write_tensors
from unweave.models import rotating
from unweave.models.files import FILES
from unweave.models.model import join
from unweave.models.rotation import AppliedRotation, RotationError, fit_rotation
from unweave.select.latents import encoded

QUICK = {"steps": 30, "batch": 16, "latents": 4, "progress": False, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def data():
    full = uw.data.load("dsprites").slice(scale=5, orientation=0, shape=0)
    return uw.data.load(full[:].reshape(-1, 32, 2, 32, 2, 1).mean((2, 4)).astype(np.uint8))


@pytest.fixture(scope="module")
def model(data):
    return uw.train("ae", data, **QUICK)[0]


@pytest.mark.parametrize("to", ["ica", "pca", "varimax", "random"])
def test_codes_are_rotated_and_reconstructions_stay(to, model, data):
    rotated = uw.rotate(model, data, to)
    codes, _ = model.encode(data)
    mean, _ = rotated.encode(data)
    (applied,) = rotated.rotations
    assert applied.kind == to
    expected = fit_rotation(codes, to, images=data[:]).encode(codes.astype(float))
    np.testing.assert_allclose(mean, expected, atol=1e-3 * np.abs(expected).max())
    assert np.abs(mean[:, : applied.kept]).max() > 0.1
    assert (np.abs(mean[:, applied.kept :]) < 1e-5).all()
    if applied.kept == 4:
        before, after = model.decode(codes), rotated.decode(mean)
        np.testing.assert_allclose(after, before, atol=1e-4)


def test_a_saved_model_stays_rotated(model, data, tmp_path):
    rotated = uw.rotate(model, data, "pca")
    loaded = uw.load(rotated.save(tmp_path / "rotated"))
    assert loaded.rotations == rotated.rotations
    assert "rotated by PCA" in repr(loaded)
    np.testing.assert_array_equal(loaded.encode(data)[0], rotated.encode(data)[0])
    both = join([model, loaded])
    assert both.rotations == [None, rotated.rotations[0]]
    assert [each.rotations for each in both] == [(), rotated.rotations]
    assert uw.load(model.save(tmp_path / "plain")).rotations == ()
    assert uw.export_onnx(loaded, tmp_path / "onnx") < 1e-3
    module = loaded.as_module()
    images = torch.as_tensor(data[:5]).permute(0, 3, 1, 2) / 255
    np.testing.assert_allclose(
        module.encode(images)[0].detach(), loaded.encode(data[:5])[0], atol=1e-4
    )


@pytest.mark.parametrize(
    "value",
    [{}, "ica", {"kind": "x", "kept": 1, "converged": True},
     {"kind": "ica", "kept": 0, "converged": True}, {"kind": "ica", "kept": 1, "converged": 1}],
)  # fmt: skip
def test_invalid_rotations_in_files_are_damage(value, model, tmp_path):
    folder = model.save(tmp_path / "model")
    with open_tensors(folder / "weights.safetensors") as file:
        tensors, facts = file.tensors(), dict(file.facts)
    write_tensors(folder / "weights.safetensors", tensors, {**facts, "rotation": value})
    write_sums(folder, FILES)
    with pytest.raises(UnweaveError, check=about(folder)):
        uw.load(folder)


def test_methods_that_determine_their_axes_are_refused(data):
    for method in ("vae", "beta_tc_vae", "factor_vae", "bio_ae"):
        model = uw.train(method, data, **{**QUICK, "steps": 1, "architecture": "small_mlp"})[0]
        with pytest.raises(RotationError, check=about("method", method)):
            uw.rotate(model, data)


def test_ica_that_does_not_converge_says_so(model, data, monkeypatch, caplog):
    found = fit_rotation(model.encode(data)[0], "pca")
    failed = type(found)("ica", found.mean, found.forward, found.backward, 4, converged=False)
    monkeypatch.setattr(rotating, "fit_rotation", lambda *_, **__: failed)
    with caplog.at_level(logging.WARNING, "unweave"):
        rotated = uw.rotate(model, data)
    assert rotated.rotations == (AppliedRotation("ica", 4, False),)
    assert "did not converge" in repr(rotated)
    assert len(caplog.records) == 1


def test_a_fit_of_autoencoders_rotates_them_before_they_are_compared(data):
    found = uw.fit(data, "ae", seeds=2, architecture="small_mlp", **QUICK)
    assert {applied.kind for applied in found.fleet.rotations} == {"ica"}
    latents = encoded(found.fleet, data, np.arange(100))
    assert latents.usable.all()
    assert found.best.rotations


def test_the_command_writes_a_rotated_model(model, data, tmp_path):
    folder = model.save(tmp_path / "model")
    np.save(tmp_path / "data.npy", data[:])
    out = tmp_path / "rotated"
    main(["rotate", str(folder), str(tmp_path / "data.npy"), "--to", "pca", "-o", str(out)])
    np.testing.assert_allclose(
        uw.load(out).encode(data)[0], uw.rotate(model, data, "pca").encode(data)[0], atol=1e-5
    )


def test_the_command_refuses_an_existing_folder_before_the_work(model, tmp_path, capsys):
    folder = model.save(tmp_path / "model")
    with pytest.raises(SystemExit) as left:
        main(["rotate", str(folder), "no-such-data", "-o", str(tmp_path)])
    assert left.value.code == 2
    assert str(tmp_path) in capsys.readouterr().err
