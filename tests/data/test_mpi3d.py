import hashlib
import zipfile

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.data import mpi3d
from unweave.data.catalog import RemoteFile
from unweave.data.grid import Factor, Grid
from unweave.data.published import prepare
from unweave.errors import DataError, UnknownNameError

TINY = Grid((Factor("object_color", range(3)), Factor("vertical_axis", range(4))))
COUNT = len(TINY)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(mpi3d.GRIDS, "mpi3d_toy", (TINY,))
    monkeypatch.setattr(mpi3d, "BATCH", 5)
    return tmp_path / "cache"


def numbered_images(count=COUNT):
    images = np.random.default_rng(1).integers(0, 256, (count, 64, 64, 3), dtype=np.uint8)
    images[:, 1, 2, 0] = np.arange(count)
    return images


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("leading", [(COUNT,), (3, 4), (3, 2, 2)])
def test_images_and_factors(tmp_path, save, leading):
    images = numbered_images()
    save(tmp_path / "a.npz", images=images.reshape(*leading, 64, 64, 3))
    data = mpi3d.load("mpi3d_toy", tmp_path / "a.npz")
    assert data.name == "mpi3d_toy"
    assert data.grid is TINY
    np.testing.assert_array_equal(data.images(np.arange(COUNT)), images)


def test_published_file_is_converted_once(cache, publish):
    (cache / "mpi3d_toy").mkdir(parents=True)
    path = cache / "mpi3d_toy" / "toy.npz"
    np.savez(path, images=numbered_images())
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    publish("mpi3d_toy", RemoteFile(name="toy.npz", md5=md5))
    mpi3d.load("mpi3d_toy")
    path.unlink()
    data = mpi3d.load("mpi3d_toy")
    np.testing.assert_array_equal(data.images(np.arange(COUNT)), numbered_images())


def test_another_file_is_another_data_set(tmp_path):
    for name, images in (("one", numbered_images()), ("two", numbered_images()[::-1])):
        folder = tmp_path / name
        folder.mkdir()
        np.savez(folder / "mpi3d_toy.npz", images=images)
        data = mpi3d.load("mpi3d_toy", folder)
        np.testing.assert_array_equal(data.images(np.arange(COUNT)), images)


def test_variants_are_told_apart(tmp_path):
    """By the origin, which saved models contain, and by the names of the published files."""
    np.savez(tmp_path / "mpi3d_toy.npz", images=numbered_images())
    assert uw.data.load("mpi3d-toy", path=tmp_path / "mpi3d_toy.npz").origin[0][1] == "mpi3d_toy"
    path = tmp_path / "real3d_complicated_shapes_ordered.npz"
    np.savez(path, images=numbered_images())
    with pytest.raises(DataError, check=about(path, "mpi3d_complex")):
        mpi3d.load("mpi3d_toy", path)


def test_convert_accepts_any_grid(tmp_path):
    np.savez(tmp_path / "a.npz", images=numbered_images(7))
    grids = [TINY, Grid((Factor("number", range(7)),))]
    given = [tmp_path / "a.npz"]
    images, _ = prepare("tiny", given, lambda *places: mpi3d.convert(*places, grids=grids))
    np.testing.assert_array_equal(images, numbered_images(7))


def test_published_grids():
    simple, challenge = mpi3d.SIMPLE_OBJECTS
    (everyday,) = mpi3d.EVERYDAY_OBJECTS
    assert simple.sizes == (6, 6, 2, 3, 3, 40, 40)
    assert len(simple) == 1_036_800
    assert challenge.sizes == everyday.sizes == (4, 4, 2, 3, 3, 40, 40)
    assert len(everyday) == 460_800
    assert simple.names[:2] == ("object_color", "object_shape")
    assert simple.names[5:] == ("horizontal_axis", "vertical_axis")
    assert simple.axes[0].values[5] == "olive"
    assert everyday.axes[1].values[2] == "croissant"


def test_another_number_of_images(tmp_path):
    np.savez(tmp_path / "a.npz", images=numbered_images(11))
    with pytest.raises(DataError, check=about(tmp_path / "a.npz", 11)):
        mpi3d.load("mpi3d_toy", tmp_path / "a.npz")
    with pytest.raises(DataError, check=about(tmp_path / "a.npz", 11)):
        mpi3d.load("mpi3d_real", tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("images", "value"),
    [
        (np.zeros((COUNT, 64, 64, 3), np.float32), (np.float32, (COUNT, 64, 64, 3))),
        (np.zeros((COUNT, 64, 64, 1), np.uint8), (np.uint8, (COUNT, 64, 64, 1))),
        (np.asfortranarray(np.zeros((COUNT, 64, 64, 3), np.uint8)), None),
    ],
)
def test_other_images(tmp_path, images, value):
    np.savez(tmp_path / "a.npz", images=images)
    with pytest.raises(DataError, check=about(tmp_path / "a.npz", value)):
        mpi3d.load("mpi3d_toy", tmp_path / "a.npz")


def test_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="object"):
        mpi3d.load("mpi3d_toy", tmp_path / "a.npz")


def test_no_images(tmp_path):
    np.savez(tmp_path / "a.npz", pictures=numbered_images())
    with pytest.raises(DataError, check=about(tmp_path / "a.npz", None)):
        mpi3d.load("mpi3d_toy", tmp_path / "a.npz")


def test_truncated_and_damaged_files(tmp_path, cache):
    np.savez(tmp_path / "a.npz", images=numbered_images())
    content = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(content[:-5000])
    damaged = content[:100_000] + b"\0\1" + content[100_002:]
    (tmp_path / "damaged.npz").write_bytes(damaged)
    for name in ("short.npz", "damaged.npz"):
        with pytest.raises(DataError, check=about(tmp_path / name, None)):
            mpi3d.load("mpi3d_toy", tmp_path / name)
    assert not list(cache.rglob("*.np?"))


def test_member_shorter_than_its_header_says(tmp_path):
    np.save(tmp_path / "images.npy", numbered_images())
    content = (tmp_path / "images.npy").read_bytes()
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("images.npy", content[:-1])
    with zipfile.ZipFile(tmp_path / "long.npz", "w") as archive:
        archive.writestr("images.npy", content + b"x")
    with pytest.raises(DataError, check=about(tmp_path / "short.npz", None)):
        mpi3d.load("mpi3d_toy", tmp_path / "short.npz")
    with pytest.raises(DataError, check=about(tmp_path / "long.npz", None)):
        mpi3d.load("mpi3d_toy", tmp_path / "long.npz")


def test_unknown_variant():
    with pytest.raises(UnknownNameError, check=about("variant of MPI3D", "mpi3d_rael")):
        mpi3d.load("mpi3d_rael")


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_damaged_cache_is_converted_again(tmp_path, cache, suffix, capfd):
    images = numbered_images()
    np.savez(tmp_path / "a.npz", images=images)
    for _ in range(2):
        data = mpi3d.load("mpi3d_toy", tmp_path / "a.npz")
        np.testing.assert_array_equal(data.images(np.arange(COUNT)), images)
        (file,) = (cache / "mpi3d_toy").glob(f"*.{suffix}")
        if suffix == "npy":
            flip(file, 50_000)
        else:
            flip(file, 3)
    data = mpi3d.load("mpi3d_toy", tmp_path / "a.npz")
    np.testing.assert_array_equal(data.images(np.arange(COUNT)), images)
    assert "is damaged" in capfd.readouterr().err


@pytest.mark.parametrize("shape", [(1 << 62, 64, 64, 3), (-12, 64, 64, 3), (12, -1, 64, 64, 3)])
def test_impossible_shapes(tmp_path, shape):
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w") as archive,
        archive.open("images.npy", "w") as file,
    ):
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(DataError):
        mpi3d.load("mpi3d_toy", tmp_path / "a.npz")
