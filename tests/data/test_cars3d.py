import gzip
import hashlib
import io
import tarfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from tests.raising import about
from unweave.data import archives, cars3d
from unweave.data.catalog import RemoteFile
from unweave.errors import DataError

NAMES = ("car_002_mesh", "car_010_mesh", "car_001_mesh")
IN_ORDER = sorted(NAMES)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def picture(car, azimuth, elevation):
    """A picture that shows which one it is, with edges for the filter to work on."""
    image = np.zeros((128, 128, 3), np.uint8)
    image[20:90, 33:111] = (60 + 60 * car, 10 * azimuth, 80 * elevation)
    image[50::3, 40::5, 1] = 255
    return image


def content(car):
    mesh = np.empty((128, 128, 3, 24, 4), np.uint8)
    for azimuth in range(24):
        for elevation in range(4):
            mesh[..., azimuth, elevation] = picture(car, azimuth, elevation)
    return mat(im=mesh, mask=np.zeros((2, 2)))


def mat(**arrays):
    stream = io.BytesIO()
    savemat(stream, arrays, do_compression=True)
    return stream.getvalue()


@pytest.fixture(scope="session")
def contents():
    return {name: content(car) for car, name in enumerate(NAMES)}


def write_tar(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def published(contents):
    """Archive like the published one: cars in random order among other files."""
    return {
        "data/cars/list.txt": b"car_001_mesh\n",
        "data/sprites/sprites_1.mat": b"not a car",
        "data/cars/._car_001_mesh.mat": b"left by a Macintosh",
    } | {f"data/cars/{name}.mat": data for name, data in contents.items()}


@pytest.fixture
def archive(tmp_path, contents):
    return write_tar(tmp_path / "nips2015-analogy-data.tar.gz", published(contents))


def check(data):
    assert len(data) == 4 * 24 * 3
    assert data.shape == (64, 64, 3)
    assert data.grid.names == ("elevation", "azimuth", "object")
    assert data.grid.sizes == (4, 24, 3)
    assert list(data.grid.axes[2].values) == IN_ORDER
    assert data.grid.axes[2].categorical
    assert data.grid.axes[1].values[1] == 15
    for index in (0, 1, 2, 3, 75, 287):
        elevation, azimuth, number = data.factors(index)
        thumbnail = Image.fromarray(picture(NAMES.index(IN_ORDER[number]), azimuth, elevation))
        thumbnail.thumbnail((64, 64), Image.Resampling.LANCZOS)
        np.testing.assert_array_equal(data.images(index), np.asarray(thumbnail))
    np.testing.assert_array_equal(data.factors(75), [1, 1, 0])


def test_archive(archive):
    check(cars3d.load(archive))


def test_folder_with_the_archive(archive):
    check(cars3d.load(archive.parent))


def test_folder_of_cars(tmp_path, contents):
    folder = tmp_path / "cars"
    folder.mkdir()
    for name, data in contents.items():
        (folder / f"{name}.mat").write_bytes(data)
    check(cars3d.load(folder))
    (folder / "car_010_mesh.mat").unlink()
    assert cars3d.load(folder).grid.sizes == (4, 24, 2)


def test_published_file_is_converted_once(cache, contents, publish):
    (cache / "cars3d").mkdir(parents=True)
    path = write_tar(cache / "cars3d" / "cars.tar.gz", published(contents))
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    publish("cars3d", RemoteFile(name="cars.tar.gz", md5=md5))
    check(cars3d.load())
    path.unlink()
    check(cars3d.load())
    assert (cache / "cars3d" / "images.npy").exists()


def test_truncated_archive(archive, cache):
    archive.write_bytes(archive.read_bytes()[:-2000])
    with pytest.raises(DataError, check=about(archive, None)):
        cars3d.load(archive)
    assert not list(cache.rglob("*.np?"))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"no matrix at all", None),
        (mat(other=np.zeros(3)), None),
        (mat(im=np.zeros((64, 64, 3, 24, 4), np.uint8)), ("uint8", (64, 64, 3, 24, 4))),
        (mat(im=np.zeros((128, 128, 3, 24, 4))), ("double", (128, 128, 3, 24, 4))),
    ],
)
def test_a_file_without_a_car(tmp_path, data, value):
    name = "data/cars/car_007_mesh.mat"
    path = write_tar(tmp_path / "a.tar.gz", {name: data})
    with pytest.raises(DataError, check=about(path / name, value)):
        cars3d.load(path)


def test_no_cars(tmp_path):
    path = tmp_path / "a.tar.gz"
    with pytest.raises(DataError, check=about(path, 0)):
        cars3d.load(write_tar(path, {"data/list.txt": b""}))
    with pytest.raises(DataError, check=about(tmp_path / "nowhere")):
        cars3d.load(tmp_path / "nowhere")


def test_a_decompression_bomb(tmp_path):
    """A compressed header that claims a huge size, followed by part of the data."""
    for kind in (tarfile.REGTYPE, tarfile.XHDTYPE):
        member = tarfile.TarInfo("data/cars/car_001_mesh.mat")
        member.size, member.type = 1 << 38, kind
        path = tmp_path / f"{kind.decode()}.tar.gz"
        path.write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
        with pytest.raises(DataError, check=about(path, None)) as caught:
            cars3d.load(path)
        assert isinstance(caught.value.__cause__, ValueError)


def test_too_many_members(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 5)
    path = write_tar(tmp_path / "a.tar.gz", {f"data/other/{n}": b"" for n in range(6)})
    with pytest.raises(DataError, check=about(path, None)):
        cars3d.load(path)


def test_links_are_ignored(tmp_path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("data/cars/car_001_mesh.mat")
        member.type, member.linkname = tarfile.SYMTYPE, "car_001_mesh.mat"
        tar.addfile(member)
    with pytest.raises(DataError, check=about(path, 0)):
        cars3d.load(path)


def test_flipped_bytes_raise_a_one_line_error(tmp_path, contents):
    content = bytearray(contents[NAMES[0]])
    for place in (128, 132, 140, 200):
        broken = content.copy()
        broken[place] ^= 0xFF
        path = write_tar(tmp_path / f"{place}.tar.gz", {"data/cars/car_1.mat": bytes(broken)})
        with pytest.raises(DataError):
            cars3d.load(path)
