import hashlib
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from tests.raising import about
from unweave.data import chairs3d
from unweave.data.catalog import RemoteFile
from unweave.errors import DataError

CHAIRS = ("b663f1e4", "1028b32d", "af00c1d2")
IN_ORDER = sorted(CHAIRS)
ELEVATIONS, AZIMUTHS = (20, 30), (11, 23, 348)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(chairs3d, "BATCH", 4)
    return tmp_path / "cache"


def picture(chair, elevation, azimuth):
    number = (CHAIRS.index(chair) * 2 + ELEVATIONS.index(elevation)) * 3 + AZIMUTHS.index(azimuth)
    image = Image.new("RGB", (600, 600), (255, 255, 255))
    image.paste((255, 0, 0), (0, 0, 90, 600))
    image.paste((10 * number, 40, 255 - 10 * number), (150, 200, 300 + 8 * number, 460))
    return image


def png(image):
    stream = io.BytesIO()
    image.save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def published():
    members = {"rendered_chairs/all_chair_names.mat": b"names"}
    for chair in CHAIRS:
        views = [(e, a) for a in AZIMUTHS for e in ELEVATIONS]
        for number, (elevation, azimuth) in enumerate(views):
            name = f"image_{number:03d}_p{elevation:03d}_t{azimuth:03d}_r096.png"
            content = png(picture(chair, elevation, azimuth))
            members[f"rendered_chairs/{chair}/renders/{name}"] = content
    return members


@pytest.fixture(scope="session")
def members():
    return published()


def write(path, members):
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def small(image, mode="L"):
    image = image.convert(mode).crop((100, 100, 500, 500))
    return np.asarray(image.resize((64, 64), Image.Resampling.LANCZOS)).reshape(64, 64, -1)


def check(data):
    assert len(data) == 18
    assert data.shape == (64, 64, 1)
    assert data.grid.names == ("chair", "elevation", "azimuth")
    assert data.grid.sizes == (3, 2, 3)
    assert list(data.grid.axes[0].values) == IN_ORDER
    assert data.grid.axes[0].categorical
    np.testing.assert_array_equal(data.grid.axes[2].values, AZIMUTHS)
    for index in range(18):
        chair, elevation, azimuth = data.factors(index)
        shown = picture(IN_ORDER[chair], ELEVATIONS[elevation], AZIMUTHS[azimuth])
        np.testing.assert_array_equal(data.images(index), small(shown))


def test_images_and_factors(tmp_path, members):
    check(chairs3d.load(write(tmp_path / "rendered_chairs.tar", members)))
    check(chairs3d.load(tmp_path))


def test_colour(tmp_path, members):
    path = write(tmp_path / "a.tar", members)
    data = chairs3d.load(path, channels=3)
    assert data.shape == (64, 64, 3)
    shown = picture(IN_ORDER[0], 20, 23)
    np.testing.assert_array_equal(data.images(1), small(shown, "RGB"))
    check(chairs3d.load(path))
    with pytest.raises(DataError, check=about("channels", 2)):
        chairs3d.load(path, channels=2)


def test_labels_if_a_view_is_missing(tmp_path, members):
    (missing,) = [name for name in members if IN_ORDER[1] in name and "_p020_t023_" in name]
    some = {name: content for name, content in members.items() if name != missing}
    data = chairs3d.load(write(tmp_path / "a.tar", some))
    assert data.grid is None
    assert len(data) == 17
    assert data.labels.names == ("chair", "elevation", "azimuth")
    rows = [[c, e, a] for c in range(3) for e in range(2) for a in range(3)]
    rows.remove([1, 0, 1])
    np.testing.assert_array_equal(data.factors(range(17)), rows)
    shown = picture(IN_ORDER[1], 20, 348)
    np.testing.assert_array_equal(data.images(7), small(shown))


def test_published_file_is_converted_once(cache, members, publish):
    (cache / "chairs3d").mkdir(parents=True)
    path = write(cache / "chairs3d" / "chairs.tar", members)
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    publish("chairs3d", RemoteFile(name="chairs.tar", md5=md5))
    check(chairs3d.load())
    path.unlink()
    check(chairs3d.load())


def test_another_file_is_another_data_set(tmp_path, members):
    one = {name: content for name, content in members.items() if CHAIRS[0] in name}
    two = {name: content for name, content in members.items() if CHAIRS[1] in name}
    first = chairs3d.load(write(tmp_path / "one.tar", one))
    second = chairs3d.load(write(tmp_path / "two.tar", two))
    assert list(first.grid.axes[0].values) == [CHAIRS[0]]
    assert list(second.grid.axes[0].values) == [CHAIRS[1]]
    assert np.any(first.images(0) != second.images(0))


def test_truncated_file(tmp_path, members, cache):
    path = write(tmp_path / "a.tar", members)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, check=about(path, None)):
        chairs3d.load(path)
    assert not list(cache.rglob("*.np?"))


@pytest.mark.parametrize(
    "content", [b"no image", png(Image.new("L", (399, 600)))], ids=["no image", "too small"]
)
def test_a_member_that_is_not_an_image(tmp_path, content):
    name = "rendered_chairs/aa/renders/image_001_p020_t011_r096.png"
    path = tmp_path / "a.tar"
    with pytest.raises(DataError, check=about(path / name, None)):
        chairs3d.load(write(path, {name: content}))


def test_the_same_view_twice(tmp_path):
    content = png(picture(CHAIRS[0], 20, 11))
    names = [f"r/aa/renders/image_00{k}_p020_t011_r096.png" for k in (1, 2)]
    with pytest.raises(DataError, check=about(tmp_path / "a.tar", 2)):
        chairs3d.load(write(tmp_path / "a.tar", dict.fromkeys(names, content)))


def test_no_chairs(tmp_path):
    with pytest.raises(DataError, check=about(tmp_path / "a.tar", 0)):
        chairs3d.load(write(tmp_path / "a.tar", {"readme.txt": b""}))
    with pytest.raises(DataError, check=about(tmp_path / "b.tar")):
        chairs3d.load(tmp_path / "b.tar")


NAME = "rendered_chairs/b663f1e4/renders/image_000_p020_t011_r096.png"


def write_member(path, size=0, kind=tarfile.REGTYPE, link=""):
    """A tar with one member that claims a size, a kind and a target, and no content."""
    member = tarfile.TarInfo(NAME)
    member.size, member.type, member.linkname = size, kind, link
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    return path


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (tarfile.REGTYPE, 1 << 40),
        (tarfile.REGTYPE, 1 << 29),
        (tarfile.XHDTYPE, 1 << 32),
        (tarfile.GNUTYPE_LONGNAME, 1 << 32),
        (tarfile.SYMTYPE, 0),
        (tarfile.LNKTYPE, 0),
        (tarfile.DIRTYPE, 0),
        (tarfile.FIFOTYPE, 0),
    ],
)
def test_members_with_impossible_headers(tmp_path, kind, size):
    with pytest.raises(DataError):
        chairs3d.load(write_member(tmp_path / "a.tar", size, kind, link=NAME))


def test_a_picture_with_too_many_pixels(tmp_path, members):
    vast = png(Image.new("1", (20_000, 20_000)))
    assert len(vast) < 1_000_000
    name = next(name for name in members if name.endswith(".png"))
    with pytest.raises(DataError, check=about(tmp_path / "a.tar" / name, None)):
        chairs3d.load(write(tmp_path / "a.tar", {**members, name: vast}))


def test_a_broken_picture_raises_a_one_line_error(tmp_path, members):
    name = next(name for name in members if name.endswith(".png"))
    content = bytearray(members[name])
    content[40:60] = bytes(20)
    with pytest.raises(DataError, check=about(tmp_path / "a.tar" / name, None)):
        chairs3d.load(write(tmp_path / "a.tar", {**members, name: bytes(content)}))
