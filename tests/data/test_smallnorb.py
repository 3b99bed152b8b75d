import gzip
import hashlib
import struct
from unittest.mock import ANY

import numpy as np
import pytest
from PIL import Image

from tests.raising import about
from unweave.data import smallnorb
from unweave.data.catalog import DATASETS, RemoteFile
from unweave.errors import DataError

NAMES = [file.name for file in DATASETS["smallnorb"].files]
SIZES = (5, 2, 3, 2)
INSTANCES = {"training": (1, 3), "testing": (0, 2)}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def matrix(array):
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[array.dtype.name]
    sizes = (*array.shape, 1, 1)[: max(3, array.ndim)]
    return struct.pack(f"<II{len(sizes)}I", magic, array.ndim, *sizes) + array.tobytes()


def picture(category, elevation, azimuth, lighting, instance):
    image = np.full((96, 96), 20 * category + 5 * elevation + 2 * lighting + 1, np.uint8)
    image[10 : 20 + 10 * azimuth, 30:77] = 60 + 60 * instance
    return image


def half(instances):
    """The three arrays of one half, shuffled, with white images from the second camera."""
    rows = [
        (category, elevation, azimuth, lighting, instance)
        for instance in instances
        for lighting in range(2)
        for azimuth in range(3)
        for elevation in range(2)
        for category in range(5)
    ]
    pictures = [np.stack([picture(*row), np.full((96, 96), 255, np.uint8)]) for row in rows]
    category, elevation, azimuth, lighting, instance = np.array(rows, np.int32).T
    info = np.stack([instance, elevation, 2 * azimuth, lighting], -1)
    return {"dat": np.stack(pictures), "cat": category, "info": np.ascontiguousarray(info)}


def write(folder, compressed=True, change=None):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, instances in INSTANCES.items():
        arrays = half(instances)
        for part, array in arrays.items():
            (name,) = [name for name in NAMES if f"-{kind}-{part}." in name]
            data = matrix(array)
            if change and (kind, part) == change[0]:
                data = change[1](array, data)
            path = folder / (name if compressed else name.removesuffix(".gz"))
            path.write_bytes(gzip.compress(data, 1) if compressed else data)
    return folder


def check(data):
    assert len(data) == 60
    assert len(data.store) == 240
    assert data.variants == 4
    assert data.shape == (64, 64, 1)
    assert data.grid.names == ("category", "elevation", "azimuth", "lighting")
    assert data.grid.sizes == SIZES
    assert tuple(data.grid.axes[0].values) == ("animal", "human", "plane", "truck", "car")
    assert data.grid.axes[0].categorical
    np.testing.assert_array_equal(data.grid.axes[1].values, [30, 35])
    np.testing.assert_array_equal(data.grid.axes[2].values, [0, 20, 40])
    for index in (0, 1, 2, 17, 59):
        for instance in range(4):
            raw = Image.fromarray(picture(*data.factors(index), instance))
            small = np.asarray(raw.resize((64, 64), Image.Resampling.LANCZOS))
            stored = data.store.gather(np.array(4 * index + instance))
            np.testing.assert_array_equal(stored[..., 0], small)


@pytest.mark.parametrize("compressed", [True, False])
def test_images_and_factors(tmp_path, compressed, monkeypatch):
    monkeypatch.setattr(smallnorb, "BATCH", 50)
    check(smallnorb.load(write(tmp_path / "norb", compressed)))


def test_an_image_is_one_of_its_variants(tmp_path):
    data = smallnorb.load(write(tmp_path / "norb"))
    variants = data.store.gather(np.arange(4 * 17, 4 * 18))
    shown = {data.images([17], seed=seed).tobytes() for seed in range(40)}
    assert shown == {variant.tobytes() for variant in variants}


def test_published_files_are_converted_once(cache, publish):
    folder = write(cache / "smallnorb")
    sums = [hashlib.md5((folder / name).read_bytes()).hexdigest() for name in NAMES]
    files = [RemoteFile(name=n, md5=md5) for n, md5 in zip(NAMES, sums, strict=True)]
    publish("smallnorb", *files)
    check(smallnorb.load())
    for name in NAMES:
        (folder / name).unlink()
    check(smallnorb.load())


def test_a_changed_file_is_read_again(tmp_path):
    def brighter(array, data):
        return matrix(np.full_like(array, 99))

    folder = write(tmp_path / "norb")
    before = smallnorb.load(folder)
    write(folder, change=(("testing", "dat"), brighter))
    after = smallnorb.load(folder)
    assert np.any(before.store.gather(np.arange(240)) != 99)
    assert np.all(after.store.gather(np.array([0, 2])) == 99)


@pytest.mark.parametrize(
    ("where", "spoil", "subject", "value"),
    [
        (("testing", "dat"), lambda array, data: data[:-1], "testing-dat.mat", None),
        (("training", "dat"), lambda array, data: matrix(array[:-1]), "training-dat.mat", ANY),
        (
            ("training", "info"),
            lambda array, data: matrix(array[:-1]),
            "training-info.mat",
            (119, 4),
        ),
        (("training", "info"), lambda array, data: data[:30], "training-info.mat", None),
        (("training", "info"), lambda array, data: b"PK" + data, "training-info.mat", None),
        (
            ("testing", "info"),
            lambda array, data: matrix(array[[5, *range(1, 120)]]),
            "",
            (240, 240),
        ),
        (("testing", "cat"), lambda array, data: matrix(array + np.int32(9)), "", (240, ANY)),
    ],
)
def test_invalid_files(tmp_path, cache, where, spoil, subject, value):
    folder = write(tmp_path / "norb", compressed=False, change=(where, spoil))
    paths = [path for path in folder.iterdir() if subject and path.name.endswith(subject)]
    with pytest.raises(DataError, check=about(*(paths or [folder]), value)):
        smallnorb.load(folder)
    assert not list(cache.rglob("*.np?"))


def test_truncated_gzip(tmp_path):
    folder = write(tmp_path / "norb")
    path = folder / NAMES[0]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, check=about(path, None)):
        smallnorb.load(folder)


def test_missing_file(tmp_path):
    folder = write(tmp_path / "norb")
    (folder / NAMES[4]).unlink()
    with pytest.raises(DataError, check=about(folder / NAMES[4])):
        smallnorb.load(folder)
    with pytest.raises(DataError, check=about(folder / NAMES[0])):
        smallnorb.load(folder / NAMES[0])


def header(magic, *sizes):
    return struct.pack(f"<II{len(sizes)}I", magic, len(sizes), *sizes)


@pytest.mark.parametrize("sizes", [(1 << 31, 1 << 31, 1 << 31), (1 << 30, 1, 1)])
def test_a_matrix_that_claims_terabytes(tmp_path, sizes):
    change = (("training", "cat"), lambda array, data: header(0x1E3D4C54, *sizes) + bytes(100))
    folder = write(tmp_path / "raw", change=change)
    with pytest.raises(DataError, check=about(folder / NAMES[1], None)) as caught:
        smallnorb.load(folder)
    assert isinstance(caught.value.__cause__, ValueError)


def test_factors_with_far_too_many_values(tmp_path):
    def scatter(array, data):
        return matrix(np.arange(array.size, dtype=np.int32).reshape(array.shape) * 7919)

    change = (("training", "info"), scatter)
    with pytest.raises(DataError, check=about(tmp_path / "raw", (240, ANY))):
        smallnorb.load(write(tmp_path / "raw", change=change))
