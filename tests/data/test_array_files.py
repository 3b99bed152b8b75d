"""Array files that are damaged, malicious, or contain something other than images."""

import io
import os
import zipfile

import h5py
import numpy as np
import pytest

from tests.raising import about
from unweave.data import array_files
from unweave.data.array_files import READERS, read_numpy
from unweave.data.custom import from_path
from unweave.errors import DataError

IMAGES = np.arange(3 * 32 * 32, dtype=np.uint8).reshape(3, 32, 32)


def header(shape, dtype="<f8"):
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def flipped(array):
    file = io.BytesIO()
    np.savez_compressed(file, images=array)
    content = bytearray(file.getvalue())
    content[len(content) // 2] ^= 255
    return bytes(content)


OBJECTS = header((2,), "|O") + b"\x80\x04]\x94NN\x86\x94."
BAD = {
    "empty.npy": b"",
    "empty.npz": b"",
    "text.npy": b"1,2,3",
    "no-members.npz": zipped(),
    "text-member.npz": zipped(images="no numbers"),
    "objects.npy": OBJECTS,
    "objects.npz": zipped(**{"images.npy": OBJECTS}),
    "complex.npy": saved(IMAGES * 1j),
    "dates.npy": saved(IMAGES.astype("M8[s]")),
    "fields.npy": saved(np.zeros(3, [("a", "f4"), ("b", "i4")])),
    "fields.npz": zipped(**{"images.npy": saved(np.zeros(3, [("ä", "f4"), ("b", "i4")]))}),
    "words.npy": saved(np.array([[["a"]]])),
    "no-axis.npy": saved(np.float64(3)),
    "five-axes.npy": saved(np.zeros((2, 2, 2, 2, 2))),
    "no-images.npy": saved(np.zeros((0, 32, 32))),
    "terabytes.npy": header((10**9, 64, 64)),
    "terabytes.npz": zipped(**{"images.npy": header((10**9, 64, 64))}),
    "overflow.npy": header((10**30, 10**30)),
    "overflow.npz": zipped(**{"images.npy": header((10**30, 10**30))}),
    "beyond-64-bits.npy": header((2**63 - 1, 2**63 - 1), "|S0"),
    "no-bytes-each.npy": header((10**18, 32), "|S0"),
    "negative.npy": header((-5, 32, 32)),
    "negative.npz": zipped(**{"images.npy": header((-5, 32, 32))}),
    "code.npy": b"\x93NUMPY\x01\x00\x10\x00__import__('os')",
    "nested.npy": b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000,
    "flipped.npz": flipped(IMAGES),
    "cut.npy": saved(IMAGES)[:500],
    "cut.npz": zipped(**{"images.npy": saved(IMAGES)})[:200],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_raise_a_one_line_error(tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(DataError) as refused:
        from_path(tmp_path / name)
    assert name.split(".")[0] in str(refused.value)


@pytest.mark.parametrize("ending", READERS)
def test_pipes_and_devices_do_not_hang(tmp_path, ending):
    os.mkfifo(tmp_path / f"pipe{ending}")
    (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(DataError, match=f"{name}{ending}"):
            from_path(tmp_path / f"{name}{ending}")


def test_a_decompression_bomb_is_rejected_before_allocation(tmp_path, monkeypatch):
    for count, name in ((2_000, "black"), (20_000, "bomb")):
        content = header((count, 64, 64), "|u1") + bytes(count * 64 * 64)
        (tmp_path / f"{name}.npz").write_bytes(zipped(**{"images.npy": content}))
    assert from_path(tmp_path / "black.npz").shape == (64, 64, 1)  # 8 MB of zeros are fine
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path) as archive:
        stored = archive.getinfo("images.npy").compress_size
    with pytest.raises(DataError, check=about(path, stored)):
        from_path(path)
    monkeypatch.setattr(array_files, "free_memory", lambda: 10**6)
    with pytest.raises(DataError, check=about(path, 20_000 * 64 * 64)):
        from_path(path)


def test_a_sparse_file_is_rejected_before_it_is_read(tmp_path):
    for count, refused in ((10_000, False), (2_000_000, True)):
        with (tmp_path / "a.npy").open("wb") as file:
            file.write(header((count, 64, 64), "|u1"))
            file.truncate(file.tell() + count * 64 * 64)
        if refused:
            with pytest.raises(DataError, check=about(tmp_path / "a.npy")):
                read_numpy(tmp_path / "a.npy", min)
        else:
            assert read_numpy(tmp_path / "a.npy", min).shape == (count, 64, 64)


def test_valid_files_are_read_unchanged(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    np.savez_compressed(tmp_path / "a.npz", images=IMAGES, other=np.zeros(3))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("images", data=IMAGES, compression="gzip")
    for ending in (".npy", ".npz", ".h5"):
        np.testing.assert_array_equal(READERS[ending](tmp_path / f"a{ending}"), IMAGES)
    chosen = read_numpy(tmp_path / "a.npz", lambda names: sorted(names)[1])
    np.testing.assert_array_equal(chosen, np.zeros(3))


class TestHdf5:
    """HDF5 files that refer to other files or claim more data than they have."""

    def refuse(self, path, value):
        with pytest.raises(DataError, check=about(path, value)):
            from_path(path)

    def test_sparse(self, tmp_path):
        for count, value in ((10**9, 10**9 * 32 * 32), (100_000, 0)):
            with h5py.File(tmp_path / "a.h5", "w") as file:
                file.create_dataset("images", (count, 32, 32), "u1", chunks=(1, 32, 32))
            self.refuse(tmp_path / "a.h5", value)

    def test_too_many_groups(self, tmp_path):
        with h5py.File(tmp_path / "deep.h5", "w") as file:
            file["/".join("a" * 30)] = IMAGES
        with h5py.File(tmp_path / "wide.h5", "w") as file:
            for number in range(1_001):
                file.create_group(str(number))
        for name, objects in (("deep.h5", 22), ("wide.h5", 1_001)):
            self.refuse(tmp_path / name, objects)

    def test_arrays_in_groups_and_under_two_names(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["inner/more/pictures"] = IMAGES
            file["other"] = file["inner/more/pictures"]
            file["inner/circle"] = file["inner"]
        np.testing.assert_array_equal(READERS[".h5"](tmp_path / "a.h5"), IMAGES)

    def test_data_in_other_files_is_not_read(self, tmp_path):
        IMAGES.tofile(tmp_path / "secret.bin")
        with h5py.File(tmp_path / "secret.h5", "w") as file:
            file["images"] = IMAGES
        with h5py.File(tmp_path / "stored.h5", "w") as file:
            place = [(str(tmp_path / "secret.bin"), 0, IMAGES.size)]
            file.create_dataset("images", IMAGES.shape, "u1", external=place)
        layout = h5py.VirtualLayout(IMAGES.shape, "u1")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "images", IMAGES.shape)
        with h5py.File(tmp_path / "virtual.h5", "w") as file:
            file.create_virtual_dataset("images", layout)
        with h5py.File(tmp_path / "linked.h5", "w") as file:
            file["images"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "images")
        for name in ("stored", "virtual"):
            self.refuse(tmp_path / f"{name}.h5", "/images")
        self.refuse(tmp_path / "linked.h5", [])

    def test_non_numeric_arrays(self, tmp_path):
        with h5py.File(tmp_path / "refs.h5", "w") as file:
            file["group/a"] = IMAGES
            file["images"] = np.array([[[file["group/a"].ref]]], dtype=h5py.ref_dtype)
        self.refuse(tmp_path / "refs.h5", np.dtype(object))
        with h5py.File(tmp_path / "words.h5", "w") as file:
            file["images"] = np.array([[["a"]]], dtype=h5py.string_dtype())
        self.refuse(tmp_path / "words.h5", np.dtype(object))

    def test_damaged(self, tmp_path):
        with h5py.File(tmp_path / "whole.h5", "w") as file:
            file.create_dataset("images", data=IMAGES, compression="gzip", chunks=IMAGES.shape)
        whole = (tmp_path / "whole.h5").read_bytes()
        for name, content in {
            "empty": b"",
            "text": b"no HDF5",
            "cut": whole[: len(whole) // 2],
            "chunk": whole[:-200] + bytes(200),
        }.items():
            (tmp_path / f"{name}.h5").write_bytes(content)
            self.refuse(tmp_path / f"{name}.h5", None)
