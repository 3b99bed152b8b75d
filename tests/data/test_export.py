"""Exports are files that other libraries read."""

import io
import pickle
import zipfile

import h5py
import numpy as np
import pytest

import unweave as uw
from unweave.data.export import export
from unweave.errors import DataError


@pytest.fixture(scope="module")
def small():
    return uw.data.load("dsprites").slice(
        scale=[0, 5], orientation=[0, 13], posX=[3, 30], posY=range(32)
    )


class NumpyOnly(pickle.Unpickler):
    """Unpickler for NumPy objects only."""

    def find_class(self, module, name):
        assert module.split(".")[0] in ("numpy", "builtins")
        return super().find_class(module, name)


def test_dsprites_npz_has_the_published_layout(small, tmp_path):
    path = export(small, tmp_path / "dsprites.npz")
    with np.load(path) as file:
        assert set(file.files) == {"imgs", "latents_classes", "latents_values", "metadata"}
        assert file["imgs"].dtype == np.uint8
        np.testing.assert_array_equal(
            file["imgs"] * 255, small.images(np.arange(len(small)))[..., 0]
        )
        classes = file["latents_classes"]
        np.testing.assert_array_equal(classes[:, 0], 0)
        np.testing.assert_array_equal(classes[:, 1:], small.factors(np.arange(len(small))))
        values = file["latents_values"]
        assert sorted(set(values[:, 1])) == [1, 2, 3]
        np.testing.assert_allclose(values[-1], [1, 3, 1, 2 * np.pi * 13 / 39, 30 / 31, 1])
    with zipfile.ZipFile(path) as archive:
        raw = io.BytesIO(archive.read("metadata.npy"))
    np.lib.format.read_magic(raw)
    np.lib.format.read_array_header_1_0(raw)
    metadata = NumpyOnly(raw).load().item()
    assert metadata["latents_sizes"].tolist() == [1, 3, 2, 2, 2, 32]
    assert metadata["latents_names"][:2] == ("color", "shape")


def test_dsprites_h5_has_the_published_layout(small, tmp_path):
    with h5py.File(export(small, tmp_path / "dsprites.h5")) as file:
        np.testing.assert_array_equal(file["imgs"][7] * 255, small[7][..., 0])
        assert file["latents/classes"].shape == (len(small), 6)


def test_other_data_sets_have_images_and_factors(tmp_path):
    data = uw.data.load("color-dsprites").slice(shape=[0, 2], scale=1, orientation=2, posX=[4])
    with np.load(export(data, tmp_path / "color.npz", seed=6)) as file:
        np.testing.assert_array_equal(file["images"], data.images(np.arange(len(data)), seed=6))
        np.testing.assert_array_equal(file["factors"], data.factors(np.arange(len(data))))
        assert file["factor_names"].tolist() == list(data.grid.names)
        assert file["factor_sizes"].tolist() == list(data.grid.sizes)
    with h5py.File(export(data, tmp_path / "color.h5")) as file:
        np.testing.assert_array_equal(file["images"][:], data.images(np.arange(len(data))))
        np.testing.assert_allclose(file["labels"][-1], [1, 0.6, 4 * np.pi / 39, 4 / 31, 1])


def test_files_are_not_overwritten_by_default(small, tmp_path):
    path = tmp_path / "taken.npz"
    path.write_bytes(b"precious")
    with pytest.raises(DataError, match=path.name):
        export(small, path)
    assert path.read_bytes() == b"precious"
    export(small, path, overwrite=True)
    assert path.stat().st_size > 100
    with pytest.raises(DataError, match=r"sprites\.zip"):
        export(small, tmp_path / "sprites.zip")
