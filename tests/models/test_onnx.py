"""ONNX files against the models they were made of, run by onnxruntime."""

import dataclasses
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnweaveError
from unweave.models.config import Config
from unweave.models.model import Model
from unweave.models.networks import networks_by_name
from unweave.models.onnx import FILES, decoder_graph, encoder_graph, largest_difference
from unweave.nets.architectures import ARCHITECTURES


def model_of(architecture="conv", size=32, channels=1, likelihood="bernoulli", seed=0, **settings):
    """One whose biases are not 0, trained so far that Gaussian means are not all cut off."""
    sides = size if isinstance(size, tuple) else (size, size)
    images = np.random.default_rng(0).random((4, *sides, channels))
    quick = {"steps": 5, "batch": 2, "latents": 3, "init": "torch", "progress": False, **settings}
    quick["optimiser"] = uw.Adam(lr=3e-3)
    architecture = {"architecture": architecture, "likelihood": likelihood}
    data = uw.data.load(images)
    return uw.train(uw.methods.VAE(), data, seeds=[seed], **quick, **architecture)[0]


def run(file, **inputs):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize(
    ("architecture", "size", "channels", "likelihood"),
    [
        ("conv", 32, 3, "gaussian"),
        ("conv", 64, 1, "bernoulli"),
        ("conv", 64, 3, "bernoulli"),
        ("conv", 128, 1, "gaussian"),
        ("conv4x4", 32, 1, "bernoulli"),
        ("conv4x4", 64, 3, "gaussian"),
        ("conv", (28, 20), 5, "bernoulli"),
        ("conv4x4", 128, 3, "bernoulli"),
        ("conv4x4", (48, 80), 2, "gaussian"),
        ("broadcast", 64, 3, "gaussian"),
        ("broadcast", (28, 20), 1, "bernoulli"),
        ("residual", 32, 3, "bernoulli"),
        ("residual", (40, 24), 1, "gaussian"),
        ("small_big_conv", 32, 3, "bernoulli"),
        ("small_big_conv", 64, 1, "gaussian"),
        ("mlp", 32, 1, "bernoulli"),
        ("mlp", 64, 1, "gaussian"),
        ("small_mlp", 128, 3, "narrow_gaussian"),
    ],
)
def test_exported_files_match_the_model(architecture, size, channels, likelihood, tmp_path):
    model = model_of(architecture, size, channels, likelihood)
    assert uw.export_onnx(model, tmp_path) < 1e-5
    rng = np.random.default_rng(1)
    for batch in (1, 7):
        images = rng.random((batch, *model.shape), np.float32)
        results = run(tmp_path / "encoder.onnx", images=images)
        for result, expected in zip(results, model.encode(images), strict=True):
            assert result.shape == (batch, 3)
            np.testing.assert_allclose(result, expected, atol=1e-4, rtol=0)
        codes = rng.normal(size=(batch, 3)).astype(np.float32)
        (decoded,) = run(tmp_path / "decoder.onnx", codes=codes)
        assert decoded.shape == images.shape
        assert 0 <= decoded.min() < decoded.max() <= 1
        np.testing.assert_allclose(decoded, model.decode(codes), atol=1e-4, rtol=0)


def test_every_architecture_is_covered():
    cases = test_exported_files_match_the_model.pytestmark[0].args[1]
    # The big one is the small one with wider layers.
    exported = set(ARCHITECTURES) - {"big_conv", "style_conv", "style_resnet", "gelu_mlp"}
    assert {case[0] for case in cases} == exported


def test_other_architectures_are_refused():
    shape, settings = (32, 32, 1), {"latents": 3, "architecture": "style_conv"}
    config = Config(method=uw.methods.AE(), **settings)
    parameters = {
        name: network.initial(torch.tensor([0]), name)
        for name, network in networks_by_name(config, shape).items()
    }
    model = Model([config], shape, parameters, pd.DataFrame({"run": []}), np.array([-1]))
    for graph in (encoder_graph, decoder_graph):
        with pytest.raises(UnweaveError, check=about("architecture")):
            graph(model)


@pytest.mark.parametrize(
    "method",
    [uw.methods.QLAE(values=4), uw.methods.Tripod(), uw.methods.Tripod(quantise=False)],
    ids=str,
)
def test_quantised_codes_are_exported(method, tmp_path):
    images = np.random.default_rng(0).random((40, 32, 32, 1), np.float32)
    settings = {"steps": 5, "batch": 4, "latents": 3, "init": "torch", "progress": False}
    adam = uw.Adam(lr=0.01)
    architecture = {"architecture": "small_mlp", "optimiser": adam}
    (model,) = uw.train(method, uw.data.load(images), **settings, **architecture)
    assert uw.export_onnx(model, tmp_path) < 1e-5
    found, logvar = run(tmp_path / "encoder.onnx", images=images)
    expected, constant = model.encode(images)
    assert (abs(found - expected) < 1e-5).mean() > 0.99  # a code may lie between two values
    assert np.array_equal(logvar, constant)


def test_model_json_describes_the_files(tmp_path):
    model = model_of()
    difference = uw.export_onnx(model, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    about = json.loads((tmp_path / "model.json").read_text())
    for part in ("encoder", "decoder"):
        graph = onnx.load(tmp_path / about[part]["file"]).graph
        for place, values in (("inputs", graph.input), ("outputs", graph.output)):
            assert [said["name"] for said in about[part][place]] == [v.name for v in values]
            for said, value in zip(about[part][place], values, strict=True):
                dims = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
                assert said["shape"] == dims
    assert about["largest_difference_from_torch"] == difference
    assert about["trained_with"]["method"] == {"name": "vae"}


def test_files_that_differ_are_noticed():
    one, other = model_of(), model_of(seed=1)
    assert largest_difference(one, encoder_graph(one), decoder_graph(one)) < 1e-6
    assert largest_difference(one, encoder_graph(other), decoder_graph(one)) > 1e-3
    assert largest_difference(one, encoder_graph(one), decoder_graph(other)) > 1e-3


def test_nothing_is_written_if_results_differ(tmp_path):
    model = model_of()
    broken = {**model.parameters, "decoder": torch.full_like(model.parameters["decoder"], np.nan)}
    with pytest.raises(UnweaveError, check=about("difference")):
        uw.export_onnx(dataclasses.replace(model, parameters=broken), tmp_path / "onnx")
    lost = dataclasses.replace(model, diverged_at=np.array([5]))
    with pytest.raises(UnweaveError, check=about("diverged_at")):
        uw.export_onnx(lost, tmp_path / "onnx")
    assert not list(tmp_path.iterdir())


def test_existing_files_are_not_overwritten_by_default(tmp_path):
    one, other = model_of(), model_of(seed=1)
    uw.export_onnx(one, tmp_path)
    before = (tmp_path / "encoder.onnx").read_bytes()
    with pytest.raises(DataError) as caught:
        uw.export_onnx(other, tmp_path)
    assert "encoder.onnx" in str(caught.value)
    assert "--overwrite" in str(caught.value)
    assert (tmp_path / "encoder.onnx").read_bytes() == before
    uw.export_onnx(other, tmp_path, overwrite=True)
    assert (tmp_path / "encoder.onnx").read_bytes() == encoder_graph(other) != before
    with pytest.raises(DataError, match=r"encoder\.onnx"):
        uw.export_onnx(one, tmp_path / "encoder.onnx")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_missing_packages_are_named_with_the_pip_command(package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnweaveError, check=about(package)) as caught:
        uw.export_onnx(model_of(), tmp_path)
    assert "unweave[onnx]" in str(caught.value)


def test_features_come_with_their_scale(tmp_path):
    X = np.random.default_rng(0).normal([1e3, 0], [50, 1], size=(40, 2))
    unweaver = uw.Unweaver(steps=2, seeds=1, strengths=1, latents=2).fit(X)
    uw.export_onnx(unweaver.save(tmp_path / "fitted"), tmp_path / "onnx")
    scale = json.loads((tmp_path / "onnx/model.json").read_text())["features"]
    scaled = ((X - scale["low"]) / scale["span"]).astype(np.float32).reshape(40, 1, 2, 1)
    mean, _ = run(tmp_path / "onnx/encoder.onnx", images=scaled)
    np.testing.assert_allclose(mean, unweaver.transform(X), atol=1e-5)
