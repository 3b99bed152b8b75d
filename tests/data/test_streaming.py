"""Arrays on disk: they are streamed with the pixels, indices and results of arrays in memory."""

import json
import sys

import numcodecs
import numpy as np
import pytest
import torch
import zarr

import unweave as uw
from tests.raising import about
from unweave.data import streaming
from unweave.data.origin import digest
from unweave.data.stores import Bytes
from unweave.data.streaming import OnDisk, Streamed
from unweave.errors import DataError, UnweaveError

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def memory_map(folder, array):
    np.save(folder / "images.npy", array)
    return np.load(folder / "images.npy", mmap_mode="r")


def npy_path(folder, array):
    np.save(folder / "images.npy", array)
    return folder / "images.npy"


def zarr_array(folder, array, **options):
    chunks = (4, *array.shape[1:])
    path = str(folder / "images.zarr")
    found = zarr.create_array(path, shape=array.shape, chunks=chunks, dtype=array.dtype, **options)
    found[:] = array
    return found


def zarr_path(folder, array):
    zarr_array(folder, array)
    return folder / "images.zarr"


def zarr_v2(folder, array):
    zarr_array(folder, array, zarr_format=2)
    return folder / "images.zarr"


def zarr_shards(folder, array):
    zarr_array(folder, array, shards=(8, *array.shape[1:]))
    return folder / "images.zarr"


def zarr_group(folder, array):
    group = zarr.open_group(str(folder / "images.zarr"), mode="w")
    for name, values in {"images": array, "labels": np.arange(len(array))}.items():
        group.create_array(name, shape=values.shape, dtype=values.dtype)[:] = values
    return folder / "images.zarr"


SOURCES = [memory_map, npy_path, zarr_array, zarr_path, zarr_v2, zarr_shards, zarr_group]


@pytest.fixture
def small_memory(monkeypatch):
    """No memory for any array."""
    monkeypatch.setattr(streaming, "SHARE", 0)


@pytest.mark.parametrize("make", SOURCES)
def test_arrays_on_disk_have_the_images_of_arrays_in_memory(tmp_path, make, monkeypatch):
    images = noise(30, 32, 32, 3)
    source = make(tmp_path, images)
    in_memory = uw.data.load(source)
    monkeypatch.setattr(streaming, "SHARE", 0)
    data = uw.data.load(source)
    assert isinstance(in_memory.store, Bytes)
    assert isinstance(data.store, Streamed)
    assert data.origin == in_memory.origin
    assert "on disk" in repr(data)
    rows = np.array([[29, 3], [3, 0]])
    for one in (in_memory, data):
        assert np.array_equal(one[:], images)
        assert np.array_equal(one.images(rows), images[rows])
        assert np.array_equal(one[4], images[4])
        assert torch.equal(one.to("cpu").images(rows), torch.from_numpy(images[rows]))


@pytest.mark.parametrize(
    "array",
    [
        noise(9, 32, 32) / 255,
        noise(9, 3, 32, 32),
        noise(9, 32, 32).astype(np.uint16) * 13,
        noise(9, 32, 32).astype(np.int64),
        noise(9, 32, 32, 5),
        noise(9, 40, 48),
        noise(9, 32, 32) > 99,
        (noise(9, 32, 32) > 99).astype(np.uint8),
        (noise(9, 32, 32, 3) / 255).astype(">f4"),
        np.asfortranarray(noise(9, 32, 32, 3)),
    ],
    ids=["float", "first", "deep", "long", "five", "oblong", "bool", "binary", "swapped", "order"],
)
@pytest.mark.parametrize("size", [None, 24])
def test_conversions_are_those_of_arrays_in_memory(tmp_path, array, size, monkeypatch):
    expected = uw.data.load(array, size=size)
    mapped = memory_map(tmp_path, array)
    monkeypatch.setattr(streaming, "SHARE", 0)
    monkeypatch.setattr(streaming, "VALUES_AT_ONCE", 2 * array[0].size)
    found = uw.data.load(mapped, size=size)
    kept = size is None and isinstance(expected.store, Bytes)
    assert isinstance(found.store, Streamed if kept else type(expected.store))
    assert np.array_equal(found[:], expected[:])
    assert (digest(found), found.bits, found.notes) == (
        digest(expected),
        expected.bits,
        expected.notes,
    )


@pytest.mark.parametrize("bad", [np.nan, 2.0])
def test_invalid_values_on_disk_are_errors(tmp_path, small_memory, bad):
    array = noise(5, 32, 32) / 255
    array[3, 2, 1] = bad
    with pytest.raises(DataError, check=about("images")):
        uw.data.load(memory_map(tmp_path, array))


def test_a_grid_on_disk_is_sorted_and_sliced_without_reading_it(tmp_path, small_memory):
    images, order = noise(12, 32, 32, 3), np.random.default_rng(1).permutation(12)
    factors = {"one": order // 4, "two": order % 4}
    data = uw.data.load(memory_map(tmp_path, images), factors=factors)
    assert isinstance(data.store.array, OnDisk)
    assert np.array_equal(data[:], images[np.argsort(order)])
    part = data.slice(one=1)
    assert isinstance(part.store, Streamed)
    assert np.array_equal(part[:], images[np.argsort(order)][4:8])


def test_duplicates_on_disk_are_counted(tmp_path, small_memory):
    images = noise(5, 32, 32, 3)
    images[3] = images[1]
    assert "1 of 5" in uw.data.load(memory_map(tmp_path, images)).notes[0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [memory_map, zarr_array])
@pytest.mark.parametrize("kind", ["single", "pairs", "both"])
def test_training_and_encoding_are_bit_identical(tmp_path, make, device, kind, monkeypatch):
    images = noise(24, 16, 16, 3)
    factors = {"one": np.arange(24) // 6, "two": np.arange(24) % 6}
    methods = {
        "single": [uw.methods.BetaVAE(beta=[1, 4])],
        "pairs": [uw.methods.AdaGVAE()],
        "both": ["vae", uw.methods.AdaGVAE()],
    }[kind]
    options = {"steps": 6 if device == "cpu" else 25, "batch": 8, "latents": 3, "seeds": 2}
    options |= {"device": device, "progress": False}

    def trained():
        data = uw.data.load(source, factors=factors)
        fleet = uw.train(methods, data, **options)
        return data, fleet, uw.encode(fleet[-1], data, device=device, progress=False)

    source = make(tmp_path, images)
    in_memory, expected, codes = trained()
    monkeypatch.setattr(streaming, "SHARE", 0)
    data, fleet, streamed = trained()
    assert isinstance(in_memory.store, Bytes)
    assert isinstance(data.store, Streamed)
    for one, other in zip(expected, fleet, strict=True):
        assert one.config == other.config
        own, others = one.as_module().state_dict(), other.as_module().state_dict()
        assert all(torch.equal(own[name], others[name]) for name in own | others)
    assert codes.equals(streamed)


def test_a_fit_of_images_on_disk_has_the_same_choice(tmp_path, monkeypatch):
    """Of the same bytes, so that a fit can be resumed when there is more memory."""
    source = npy_path(tmp_path, noise(64, 16, 16))
    before = uw.data.load(source)
    monkeypatch.setattr(streaming, "SHARE", 0)
    assert uw.data.load(source).origin == before.origin


@pytest.mark.parametrize("make", [zarr_array, zarr_path])
def test_a_missing_extra_is_an_error_with_its_command(tmp_path, make, monkeypatch):
    path = zarr_path(tmp_path, noise(4, 32, 32))
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(UnweaveError, match=r"pip install 'unweave\[zarr\]'", check=about("zarr")):
        uw.data.load(path)


class Own(numcodecs.abc.Codec):
    """A codec of another package, which may do anything."""

    codec_id = "own"

    def encode(self, buf):
        return buf

    def decode(self, buf, out=None):
        raise AssertionError("the codec was called")


def test_only_known_codecs_of_zarr_are_called(tmp_path, monkeypatch):
    monkeypatch.setitem(numcodecs.registry.codec_registry, "own", Own)
    path = zarr_v2(tmp_path, noise(6, 32, 32))
    for change in ({"filters": [{"id": "own"}]}, {"filters": None, "compressor": {"id": "own"}}):
        rewritten(path, lambda metadata, change=change: metadata.update(change))
        with pytest.raises(DataError, check=about(path, "own")):
            uw.data.load(path)


def rewritten(path, change):
    file = path / ".zarray"
    metadata = json.loads(file.read_text())
    change(metadata)
    file.write_text(json.dumps(metadata))


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.update(filters=[{"id": "pickle", "protocol": 5}]),
        lambda it: it.update(compressor={"id": "json2"}),
        lambda it: it.update(compressor={"id": "nothing"}),
        lambda it: it.update(dtype="|O", filters=[{"id": "pickle", "protocol": 5}]),
        lambda it: it.update(shape=[10**9, 32, 32]),
        lambda it: it.update(chunks=[10**9, 32, 32]),
        lambda it: it.update(shape=[6, 32]),
        lambda it: it.clear(),
    ],
)
def test_zarr_folders_that_run_code_or_claim_too_much_are_rejected(tmp_path, change):
    path = zarr_v2(tmp_path, noise(6, 32, 32))
    rewritten(path, change)
    with pytest.raises(DataError):
        uw.data.load(path)


@pytest.mark.parametrize("linked", ["c", "zarr.json"])
def test_zarr_folders_with_links_to_other_files_are_rejected(linked, tmp_path):
    path = zarr_path(tmp_path, np.ones((12, 16, 16, 1), np.uint8))
    elsewhere = tmp_path / "elsewhere"
    (path / linked).rename(elsewhere)
    (path / linked).symlink_to(elsewhere)
    with pytest.raises(DataError, match="link"):
        uw.data.load(path)
