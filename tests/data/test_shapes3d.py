import hashlib

import h5py
import numpy as np
import pytest

from tests.raising import about
from unweave.data import shapes3d
from unweave.data.catalog import RemoteFile
from unweave.errors import DataError

SIZES = (2, 3, 2, 2, 4, 3)
COUNT = int(np.prod(SIZES))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def published_labels():
    values = (
        np.arange(2) / 10,
        np.arange(3) / 10,
        np.arange(2) / 10,
        np.array([0.75, 1.25]),
        np.arange(4.0),
        np.array([-30.0, 0.0, 30.0]),
    )
    return np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(-1, 6)


def numbered_images(count=COUNT):
    images = np.zeros((count, 64, 64, 3), np.uint8)
    images[:, 5, 7, 0], images[:, 5, 7, 1] = np.divmod(np.arange(count), 256)
    images[..., 2] = 9
    return images


def write(path, images=None, labels=None, chunks=None):
    with h5py.File(path, "w") as file:
        images = numbered_images() if images is None else images
        labels = published_labels() if labels is None else labels
        file.create_dataset("images", data=images, chunks=chunks, compression=chunks and "gzip")
        file.create_dataset("labels", data=labels)
    return path


def numbers(images):
    return images[..., 5, 7, 0].astype(int) * 256 + images[..., 5, 7, 1]


@pytest.mark.parametrize("chunks", [None, (5, 64, 64, 3), (7, 32, 64, 1)])
def test_images_and_factors(tmp_path, monkeypatch, chunks):
    monkeypatch.setattr(shapes3d, "BATCH", 20)
    data = shapes3d.load(write(tmp_path / "any.h5", chunks=chunks))
    assert len(data) == COUNT
    assert data.shape == (64, 64, 3)
    np.testing.assert_array_equal(numbers(data.images(np.arange(COUNT))), np.arange(COUNT))
    np.testing.assert_array_equal(data.images([3])[0], numbered_images()[3])
    assert data.grid.names == shapes3d.FACTORS
    assert data.grid.sizes == SIZES
    assert data.grid.axes[4].values == ("cube", "cylinder", "sphere", "capsule")
    assert [axis.categorical for axis in data.grid.axes] == [False] * 4 + [True, False]
    np.testing.assert_array_equal(data.grid.axes[5].values, [-30, 0, 30])
    last = published_labels()[COUNT - 2]
    classes = data.factors(COUNT - 2)
    assert [data.grid.axes[k].values[classes[k]] for k in (0, 3, 5)] == list(last[[0, 3, 5]])


def test_folder(tmp_path):
    write(tmp_path / "3dshapes.h5")
    assert len(shapes3d.load(tmp_path)) == COUNT


def test_another_file_is_another_data_set(tmp_path):
    one = write(tmp_path / "one.h5")
    assert numbers(shapes3d.load(one).images([1])) == 1
    other = write(tmp_path / "other.h5", numbered_images()[::-1].copy())
    assert numbers(shapes3d.load(other).images([1])) == COUNT - 2
    write(one, numbered_images()[::-1].copy())
    assert numbers(shapes3d.load(one).images([1])) == COUNT - 2


def test_published_file_is_converted_once(cache, publish):
    (cache / "shapes3d").mkdir(parents=True)
    path = write(cache / "shapes3d" / "3dshapes.h5")
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    publish("shapes3d", RemoteFile(name="3dshapes.h5", md5=md5))
    first = shapes3d.load()
    path.unlink()
    again = shapes3d.load()
    assert (cache / "shapes3d" / "images.npy").exists()
    np.testing.assert_array_equal(first.images([0, 50]), again.images([0, 50]))
    assert again.grid.sizes == SIZES


def test_labels_out_of_order(tmp_path):
    labels = published_labels()
    labels[[3, 4]] = labels[[4, 3]]
    with pytest.raises(DataError, check=about(tmp_path / "a.h5", COUNT)):
        shapes3d.load(write(tmp_path / "a.h5", labels=labels))


def test_missing_combination(tmp_path):
    path = write(tmp_path / "a.h5", numbered_images(COUNT - 1), published_labels()[:-1])
    with pytest.raises(DataError, check=about(path, COUNT)):
        shapes3d.load(path)


def test_labels_of_another_number(tmp_path):
    with pytest.raises(DataError, check=about(tmp_path / "a.h5", (np.float64, (10, 6)))):
        shapes3d.load(write(tmp_path / "a.h5", labels=published_labels()[:10]))


@pytest.mark.parametrize(
    "images", [np.zeros((COUNT, 64, 64, 3), np.float32), np.zeros((COUNT, 32, 32, 3), np.uint8)]
)
def test_other_images(tmp_path, images):
    with pytest.raises(DataError, check=about(tmp_path / "a.h5", (images.dtype, images.shape))):
        shapes3d.load(write(tmp_path / "a.h5", images))


def test_truncated_file(tmp_path, cache):
    path = write(tmp_path / "a.h5")
    path.write_bytes(path.read_bytes()[:-100_000])
    with pytest.raises(DataError, check=about(path, None)):
        shapes3d.load(path)
    assert not list(cache.rglob("*.np?"))


def test_no_images(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["labels"] = published_labels()
    with pytest.raises(DataError, check=about(tmp_path / "a.h5", None)):
        shapes3d.load(tmp_path / "a.h5")


def test_no_file(tmp_path):
    with pytest.raises(DataError, check=about(tmp_path / "nowhere")):
        shapes3d.load(tmp_path / "nowhere")
    with pytest.raises(DataError, check=about(tmp_path / "3dshapes.h5")):
        shapes3d.load(tmp_path)


def test_a_small_file_that_claims_terabytes(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", (1 << 30, 64, 64, 3), "u1", chunks=(64, 64, 64, 3))
        file.create_dataset("labels", (1 << 30, 6), "f8", chunks=(64, 6))
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, check=about(path, 1 << 30)):
        shapes3d.load(path)


def test_labels_with_far_too_many_values(tmp_path):
    labels = np.random.default_rng(0).random((COUNT, 6))
    with pytest.raises(DataError, check=about(tmp_path / "a.h5", COUNT**6)):
        shapes3d.load(write(tmp_path / "a.h5", labels=labels))


@pytest.mark.parametrize("kind", ["group", "external", "link", "virtual"])
def test_images_that_are_not_in_the_file(tmp_path, kind):
    path = write(tmp_path / "a.h5")
    other = write(tmp_path / "other.h5")
    with h5py.File(path, "a") as file:
        del file["images"]
        if kind == "group":
            file.create_group("images")
        elif kind == "external":
            raw = [(str(other), 0, COUNT * 64 * 64 * 3)]
            file.create_dataset("images", (COUNT, 64, 64, 3), "u1", external=raw)
        elif kind == "link":
            file["images"] = h5py.ExternalLink(other, "images")
        else:
            layout = h5py.VirtualLayout((COUNT, 64, 64, 3), "u1")
            layout[:] = h5py.VirtualSource(other, "images", (COUNT, 64, 64, 3))
            file.create_virtual_dataset("images", layout)
    with pytest.raises(DataError, check=about(path, None)):
        shapes3d.load(path)
