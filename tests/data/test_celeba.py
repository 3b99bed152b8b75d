import hashlib
import io
import os
import zipfile

import numpy as np
import pytest
from PIL import Image

from tests.raising import about
from unweave.data import celeba
from unweave.data.catalog import RemoteFile
from unweave.errors import DataError

COUNT = 7
NAMES = [f"{number + 1:06d}.jpg" for number in range(COUNT)]
ATTRIBUTES = ["5_o_Clock_Shadow", *(f"Attribute_{k}" for k in range(38)), "Young"]
SIGNS = np.where(np.random.default_rng(2).integers(0, 2, (COUNT, 40)), 1, -1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(celeba, "BATCH", 3)
    return tmp_path / "cache"


def jpeg(number, size=(178, 218)):
    image = Image.new("RGB", size, (255, 0, 255))
    image.paste((30 * number, 200 - 20 * number, 90), (15, 35, 163, 183))
    image.paste((255, 255, 255), (40, 60, 70 + 5 * number, 90))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=95)
    return stream.getvalue()


def small(content, crop=(15, 35, 163, 183), size=64):
    image = Image.open(io.BytesIO(content)).crop(crop)
    return np.asarray(image.resize((size, size), Image.Resampling.LANCZOS))


def write_zip(path, **replaced):
    contents = {name: jpeg(number) for number, name in enumerate(NAMES)}
    contents |= {f"{name}.jpg": content for name, content in replaced.items()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("img_align_celeba")
        for name in reversed(contents):
            archive.writestr(f"img_align_celeba/{name}", contents[name])
    return path


def write_attributes(path, signs=SIGNS, names=NAMES):
    rows = [f"{n} {' '.join(f'{s:2d}' for s in row)}" for n, row in zip(names, signs, strict=True)]
    path.write_text("\n".join([str(len(rows)), " ".join(ATTRIBUTES) + " ", *rows, ""]))
    return path


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "celeba"
    folder.mkdir()
    write_zip(folder / "img_align_celeba.zip")
    write_attributes(folder / "list_attr_celeba.txt")
    return folder


def check(data, kept=tuple(range(COUNT))):
    assert len(data) == len(kept)
    assert data.shape == (64, 64, 3)
    assert data.files == tuple(NAMES[k] for k in kept)
    for index, number in enumerate(kept):
        np.testing.assert_array_equal(data.images(index), small(jpeg(number)))
    np.testing.assert_array_equal(data.factors(range(len(kept))), SIGNS[list(kept)] > 0)
    assert data.labels.names == tuple(ATTRIBUTES)
    assert data.labels.axes[0].values == ("no", "yes")


@pytest.mark.parametrize("inside", [True, False])
def test_zip(folder, inside):
    data = celeba.load(folder / "img_align_celeba.zip" if inside else folder)
    check(data)
    assert data.skipped == ()


def test_folder_of_images(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(jpeg(number))
    write_attributes(tmp_path / "list_attr_celeba.txt")
    check(celeba.load(folder))
    (folder / NAMES[2]).unlink()
    check(celeba.load(folder), (0, 1, 3, 4, 5, 6))


def test_without_attributes(folder):
    (folder / "list_attr_celeba.txt").unlink()
    data = celeba.load(folder)
    assert data.labels is None
    assert len(data) == COUNT


def test_crop_and_size(folder):
    whole = celeba.load(folder, crop=178, size=32)
    assert whole.shape == (32, 32, 3)
    np.testing.assert_array_equal(whole.images(3), small(jpeg(3), (0, 20, 178, 198), 32))
    check(celeba.load(folder))
    with pytest.raises(DataError, check=about("size", (148, 0))):
        celeba.load(folder, size=0)


def test_unreadable_images_are_skipped(tmp_path, folder):
    cut = {"000002": jpeg(1)[:900], "000003": b"no image", "000006": jpeg(5, (100, 100))}
    write_zip(folder / "img_align_celeba.zip", **cut)
    data = celeba.load(folder)
    check(data, (0, 3, 4, 6))
    assert [entry.split(":")[0] for entry in data.skipped] == [NAMES[1], NAMES[2], NAMES[5]]
    assert "truncated" in data.skipped[0]
    assert data.skipped[1] == "000003.jpg: it is not an image"
    assert "100 × 100" in data.skipped[2]
    assert "3 files could not be read" in repr(data)


def test_a_damaged_member_is_skipped(folder):
    path = folder / "img_align_celeba.zip"
    content = path.read_bytes()
    where = content.index(jpeg(4)) + 500
    path.write_bytes(content[:where] + bytes([content[where] ^ 255]) + content[where + 1 :])
    check(celeba.load(folder), (0, 1, 2, 3, 5, 6))


def test_no_usable_image(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("000001.jpg", b"no image")
    with pytest.raises(
        DataError, check=about(tmp_path / "a.zip", ["000001.jpg: it is not an image"])
    ):
        celeba.load(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("readme.txt", "")
    with pytest.raises(DataError, check=about(tmp_path / "b.zip", 0)):
        celeba.load(tmp_path / "b.zip")


def test_published_files_are_converted_once(cache, publish):
    own = cache / "celeba"
    own.mkdir(parents=True)
    paths = [write_zip(own / "faces.zip"), write_attributes(own / "list_attr_celeba.txt")]
    files = [
        RemoteFile(name=path.name, md5=hashlib.md5(path.read_bytes()).hexdigest())
        for path in paths
    ]
    publish("celeba", *files)
    check(celeba.load())
    for path in paths:
        path.unlink()
    check(celeba.load())


def test_other_attributes_are_another_data_set(folder):
    check(celeba.load(folder))
    write_attributes(folder / "list_attr_celeba.txt", -SIGNS)
    np.testing.assert_array_equal(celeba.load(folder).factors(range(COUNT)), SIGNS < 0)


def test_truncated_zip(folder):
    path = folder / "img_align_celeba.zip"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, check=about(path, None)):
        celeba.load(folder)


def test_invalid_attributes(folder):
    path = folder / "list_attr_celeba.txt"
    write_attributes(path, SIGNS[:-1], NAMES[:-1])
    with pytest.raises(DataError, match=r"000007.jpg"):
        celeba.load(folder)
    write_attributes(path, SIGNS[:, :-1])
    with pytest.raises(DataError, check=about(path, None)):
        celeba.load(folder)
    write_attributes(path, SIGNS * 2)
    with pytest.raises(DataError, check=about(path, None)):
        celeba.load(folder)
    path.write_text("")
    with pytest.raises(DataError, check=about(path, None)):
        celeba.load(folder)


def test_an_oversized_member_is_skipped(tmp_path):
    path = tmp_path / "img_align_celeba.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("000001.jpg", jpeg(1))
        archive.writestr("000002.jpg", jpeg(2) + bytes(8 << 20))
    data = celeba.load(path)
    assert data.files == ("000001.jpg",)
    assert [line.split(":")[0] for line in data.skipped] == ["000002.jpg"]


def test_a_pipe_among_the_images_is_skipped(tmp_path):
    (tmp_path / "000001.jpg").write_bytes(jpeg(1))
    os.mkfifo(tmp_path / "000002.jpg")
    data = celeba.load(tmp_path)
    assert data.files == ("000001.jpg",)
    assert len(data.skipped) == 1


def test_a_zip_with_a_password(tmp_path):
    path = tmp_path / "img_align_celeba.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("000001.jpg", jpeg(1))
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, check=about(path)):
        celeba.load(path)
