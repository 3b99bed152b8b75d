import hashlib
import io
import zipfile
from math import prod

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.data import DATASETS, nvidia3d
from unweave.data.catalog import RemoteFile
from unweave.errors import DataError, UnknownNameError, UnweaveError

SIZES = (2, 3, 2)
COUNT = prod(SIZES)
TINY = nvidia3d._grid(object_shape=2, robot_x_move=3, wall_color=2)
CLASSES = np.stack(np.unravel_index(np.arange(COUNT), SIZES), -1)
PUBLISHED = {"falcor3d": ("Falcor3D_down128", "train-rec.labels"),
             "isaac3d": ("Isaac3D_down128", "labels.npy")}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    for name in nvidia3d.GRIDS:
        monkeypatch.setitem(nvidia3d.GRIDS, name, TINY)
    monkeypatch.setattr(nvidia3d, "BATCH", 5)
    return tmp_path / "cache"


def picture(number, side=128):
    """An image whose first pixel is its own index."""
    pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
    pixels[0, 0] = number
    return pixels


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def labels_of(classes=CLASSES):
    return classes / (np.array(SIZES) - 1)


def write(path, name="isaac3d", labels=None, order=range(COUNT), **changed):
    """The zip of NVIDIA for the tiny grid, whose n-th image is number `order[n]` of the grid."""
    folder, table = PUBLISHED[name]
    labels = labels_of(CLASSES[list(order)]) if labels is None else labels
    members = {f"images/{n:06}.png": png(picture(number)) for n, number in enumerate(order)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}/", "")
        for member, content in {**members, table: npy(labels), **changed}.items():
            if content is not None:
                archive.writestr(f"{folder}/{member}", content)
    return path


def numbers(data):
    return data.images(np.arange(len(data)))[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("name", PUBLISHED)
def test_images_and_factors(tmp_path, name):
    path = write(tmp_path / "any.zip", name)
    data = uw.data.load(name, path=path)
    assert (data.name, data.shape, data.grid) == (name, (128, 128, 3), TINY)
    for number in range(COUNT):
        np.testing.assert_array_equal(data.images(number), picture(number))
    assert numbers(data.slice(robot_x_move=1)) == [2, 3, 8, 9]
    assert data.origin[0][1] == name


def test_images_are_placed_by_their_labels(tmp_path):
    order = np.random.default_rng(3).permutation(COUNT).tolist()
    data = nvidia3d.load("isaac3d", write(tmp_path / "a.zip", order=order))
    assert numbers(data) == list(range(COUNT))


def test_published_file_is_converted_once(cache, publish):
    (cache / "falcor3d").mkdir(parents=True)
    path = write(cache / "falcor3d" / "f.zip", "falcor3d")
    publish("falcor3d", RemoteFile(name="f.zip", md5=hashlib.md5(path.read_bytes()).hexdigest()))
    nvidia3d.load("falcor3d")
    path.unlink()
    assert numbers(nvidia3d.load("falcor3d")) == list(range(COUNT))
    assert DATASETS["falcor3d"].ready


def test_smaller_images(tmp_path):
    path = write(tmp_path / "a.zip")
    data = nvidia3d.load("isaac3d", path, size=64)
    small = Image.fromarray(picture(4)).resize((64, 64), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(data.images(4), np.asarray(small))
    assert nvidia3d.load("isaac3d", path).shape == (128, 128, 3)
    for size in (15, 129):
        with pytest.raises(UnweaveError, check=about("size", size)):
            nvidia3d.load("isaac3d", path, size=size)


def test_published_grids(monkeypatch):
    monkeypatch.undo()
    falcor, isaac = nvidia3d.GRIDS["falcor3d"], nvidia3d.GRIDS["isaac3d"]
    # The formulas for the index that NVIDIA publishes, with the names of its demo.
    assert len(falcor) == 233_280
    assert dict(zip(falcor.names, falcor.strides, strict=True)) == {
        "lighting_intensity": 46_656,
        "lighting_x_dir": 7_776,
        "lighting_y_dir": 1_296,
        "lighting_z_dir": 216,
        "camera_x_pos": 36,
        "camera_y_pos": 6,
        "camera_z_pos": 1,
    }
    assert len(isaac) == 737_280
    assert dict(zip(isaac.names, isaac.strides, strict=True)) == {
        "object_shape": 245_760,
        "robot_x_move": 30_720,
        "robot_y_move": 6_144,
        "camera_height": 1_536,
        "object_scale": 384,
        "lighting_intensity": 96,
        "lighting_y_dir": 16,
        "object_color": 4,
        "wall_color": 1,
    }
    for name, grid in nvidia3d.GRIDS.items():
        assert dict(zip(grid.names, grid.sizes, strict=True)) == DATASETS[name].factors


@pytest.mark.parametrize(
    ("labels", "value"),
    [
        (labels_of()[:-1], (np.float64, (COUNT - 1, 3))),
        (labels_of()[:, :2], (np.float64, (COUNT, 2))),
        (labels_of()[:, [1, 0, 2]], (3, 2, 2)),
        (labels_of(CLASSES[[0, *range(COUNT - 1)]]), COUNT - 1),
        (labels_of().astype("U3"), (np.dtype("U3"), (COUNT, 3))),
    ],
    ids=["too few", "too narrow", "columns in another order", "twice", "text"],
)
def test_other_labels(tmp_path, labels, value):
    path = write(tmp_path / "a.zip", labels=labels)
    with pytest.raises(DataError, check=about(path, value)):
        nvidia3d.load("isaac3d", path)


def test_labels_are_not_unpickled(tmp_path):
    path = write(tmp_path / "a.zip", labels=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, check=about(path, None)):
        nvidia3d.load("isaac3d", path)


def test_the_other_data_set(tmp_path):
    path = write(tmp_path / "a.zip", "falcor3d")
    with pytest.raises(DataError, check=about(path, 0)):
        nvidia3d.load("isaac3d", path)
    with pytest.raises(UnknownNameError, check=about("data set of NVIDIA", "isaac")):
        nvidia3d.load("isaac", path)


@pytest.mark.parametrize("content", [b"no image", png(picture(3, 64)), png(picture(3))[:2000]])
def test_a_member_that_is_not_an_image_of_128_pixels(tmp_path, cache, content):
    path = write(tmp_path / "a.zip", **{"images/000003.png": content})
    place = path / "Isaac3D_down128/images/000003.png"
    with pytest.raises(DataError, check=about(place, None)):
        nvidia3d.load("isaac3d", path)
    assert not list(cache.rglob("*.np?"))


def test_missing_and_damaged_members(tmp_path, cache):
    missing = write(tmp_path / "missing.zip", **{"images/000011.png": None})
    whole = write(tmp_path / "whole.zip").read_bytes()
    (tmp_path / "short.zip").write_bytes(whole[:-5000])
    (tmp_path / "damaged.zip").write_bytes(whole[:90_000] + b"\0\1" + whole[90_002:])
    for path in (missing, tmp_path / "short.zip", tmp_path / "damaged.zip"):
        with pytest.raises(DataError, check=about(path, None)):
            nvidia3d.load("isaac3d", path)
    assert not list(cache.rglob("*.np?"))
