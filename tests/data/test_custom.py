import csv
import logging
import mmap
import os
import struct
import subprocess
import sys
import time
import warnings
import zlib

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.raising import about
from unweave.data import arrays, picture_sources, pictures
from unweave.data import custom as own
from unweave.data.custom import from_array, from_path
from unweave.data.stores import Bits, Bytes
from unweave.errors import DataError


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(folder, **images):
    for name, image in images.items():
        picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
        picture.save(folder / f"{name}.png")


def png_header(width, height):
    """A PNG that claims a size and has no pixels."""

    def chunk(kind, body):
        crc = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def break_files(folder):
    """Write one broken file of each kind, called broken_*."""
    whole = (folder / "a.png").read_bytes()
    (folder / "broken_short.png").write_bytes(whole[: len(whole) // 2])
    (folder / "broken_text.png").write_text("this is no image")
    (folder / "broken_empty.jpg").write_bytes(b"")
    (folder / "broken_bomb.png").write_bytes(png_header(20_000, 20_000))
    (folder / "broken_link.png").symlink_to(folder / "nowhere.png")


class TestFolder:
    def test_images_of_the_right_size_come_through_unchanged(self, tmp_path):
        images = noise(3, 64, 64, 3)
        save(tmp_path, c=images[2], a=images[0], b=images[1])
        data = from_path(tmp_path)
        assert np.array_equal(data.images(np.arange(3)), images)
        assert data.files == ("a.png", "b.png", "c.png")
        assert data.skipped == ()
        assert data.name == tmp_path.name
        assert data.grid is None
        assert data.labels is None

    def test_subfolders_are_searched_and_sorted_and_hidden_files_are_not(self, tmp_path):
        for place in (
            "b/x.PNG",
            "a/deep/x.png",
            "a.png",
            ".hidden.png",
            ".git/x.png",
            "b/.t/x.png",
        ):
            (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8)).save(tmp_path / place, "PNG")
        (tmp_path / "notes.txt").write_text("not an image, and not called one")
        (tmp_path / "folder.png").mkdir()
        data = from_path(str(tmp_path), name="mine")
        assert data.files == ("a.png", "a/deep/x.png", "b/x.PNG")
        assert data.skipped == ()
        assert data.name == "mine"

    @pytest.mark.parametrize(("width", "height"), [(100, 50), (50, 100), (256, 256), (30, 60)])
    @pytest.mark.parametrize("size", [32, 64, 128])
    @pytest.mark.parametrize("kind", ["gradient", "noise"])
    def test_pixels_are_those_of_pillows_resize_and_crop(
        self, tmp_path, width, height, size, kind
    ):
        image = np.linspace(0, 255, width * height).reshape(height, width).astype(np.uint8)
        if kind == "noise":  # far from black and white, where the order of Pillow's passes shows
            image = noise(height, width) // 4 + 96
        save(tmp_path, a=image, b=image)
        short = min(width, height)
        whole = Image.fromarray(image).resize(
            (width * size // short, height * size // short), Image.Resampling.LANCZOS
        )
        left, top = (whole.width - size) // 2, (whole.height - size) // 2
        expected = np.asarray(whole.crop((left, top, left + size, top + size)))
        found = from_path(tmp_path, size=size)[0][..., 0]
        assert found.shape == (size, size)
        assert np.abs(found.astype(int) - expected).max() <= 2

    def test_cropping_alone_blurs_nothing(self, tmp_path):
        image = noise(64, 97, 3)
        save(tmp_path, a=image, b=image)
        assert np.array_equal(from_path(tmp_path)[0], image[:, 16:80])

    def test_large_jpegs_are_decoded_small_and_look_the_same(self, tmp_path, monkeypatch):
        image = Image.fromarray(noise(8, 10, 3)).resize((1000, 800))
        for name in "ab":
            image.save(tmp_path / f"{name}.jpg", quality=95)
        seen = []
        square = pictures.square
        monkeypatch.setattr(
            pictures, "square", lambda i, *args: seen.append(i.size) or square(i, *args)
        )
        found = from_path(tmp_path)[0]
        expected = image.crop((100, 0, 900, 800)).resize((64, 64), Image.Resampling.LANCZOS)
        assert seen == [(250, 200)] * 2
        assert np.abs(found.astype(int) - np.asarray(expected)).mean() < 2

    @pytest.mark.parametrize(
        ("orientation", "undo"),
        [
            (3, Image.Transpose.ROTATE_180),
            (6, Image.Transpose.ROTATE_90),
            (8, Image.Transpose.ROTATE_270),
        ],
    )
    def test_exif_orientation_is_respected(self, tmp_path, orientation, undo):
        upright = Image.fromarray(noise(64, 64, 3))
        exif = Image.Exif()
        exif[0x0112] = orientation
        for name in "ab":
            upright.transpose(undo).save(tmp_path / f"{name}.png", exif=exif)
        assert np.array_equal(from_path(tmp_path)[0], np.asarray(upright))

    @pytest.mark.parametrize("kind", ["webp", "bmp", "gif", "tiff", "jpeg", "tif", "jpg"])
    def test_other_formats_are_read(self, tmp_path, kind):
        colours = Image.new("RGB", (64, 64), (250, 120, 10))
        for name in "ab":
            extra = Image.new("RGB", (64, 64))
            frames = {"save_all": True, "append_images": [extra]} if kind == "gif" else {}
            colours.save(tmp_path / f"{name}.{kind}", **frames)
        data = from_path(tmp_path)
        assert data.shape == (64, 64, 3)
        assert np.abs(data[1].astype(int) - [250, 120, 10]).max() <= 4

    def test_another_format_in_disguise_is_not_opened(self, tmp_path):
        save(tmp_path, a=noise(64, 64), b=noise(64, 64))
        Image.new("L", (8, 8)).save(tmp_path / "c.png", "EPS")
        assert from_path(tmp_path).skipped == ("c.png: not an image",)


class TestModes:
    def test_sixteen_bits_become_eight(self, tmp_path):
        levels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) * 16
        save(tmp_path, a=levels, b=levels)
        data = from_path(tmp_path)
        assert np.array_equal(data[0][..., 0], np.rint(levels / 257))
        assert data.shape == (64, 64, 1)

    def test_floats_and_32_bits_are_scaled_or_rejected(self, tmp_path):
        ramp = np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
        Image.fromarray(ramp).save(tmp_path / "a.tif")
        Image.fromarray(np.rint(ramp * 65535).astype(np.int32)).save(tmp_path / "b.tif")
        Image.fromarray(ramp * 2).save(tmp_path / "c.tif")
        Image.fromarray(np.full((64, 64), np.nan, dtype=np.float32)).save(tmp_path / "d.tif")
        Image.fromarray(np.full((64, 64), 70_000, dtype=np.int32)).save(tmp_path / "e.tif")
        data = from_path(tmp_path)
        assert data.files == ("a.tif", "b.tif")
        assert np.array_equal(data[0][..., 0], np.rint(ramp * 255))
        assert np.array_equal(data[0], data[1])
        assert data.skipped[0] == "c.tif: grey values must be 0 … 1, got 0.0 … 2.0"
        assert data.skipped[2] == "e.tif: grey values must be 0 … 65535, got 70000 … 70000"

    def test_transparent_images_are_placed_on_white(self, tmp_path):
        pixels = np.zeros((64, 64, 4), dtype=np.uint8)
        pixels[..., 0], pixels[:32, :, 3], pixels[32, :, 3] = 200, 255, 51
        save(tmp_path, a=pixels, b=pixels)
        image = from_path(tmp_path)[0]
        assert image[0, 0].tolist() == [200, 0, 0]
        assert image[32, 0].tolist() == [244, 204, 204]
        assert image[63, 0].tolist() == [255, 255, 255]

    def test_grey_with_transparency_stays_grey(self, tmp_path):
        clear = Image.merge("LA", [Image.new("L", (64, 64), 10), Image.new("L", (64, 64), 0)])
        save(tmp_path, a=clear, b=Image.new("L", (64, 64), 10))
        data = from_path(tmp_path)
        assert data.shape == (64, 64, 1)
        assert data[0].min() == 255
        assert data[1].max() == 10

    def test_palette_and_cmyk_are_colour(self, tmp_path):
        teal = Image.new("RGB", (64, 64), (0, 128, 128))
        save(tmp_path, a=teal.quantize(4))
        teal.convert("CMYK").save(tmp_path / "b.tif")
        Image.new("P", (64, 64)).save(tmp_path / "c.png", transparency=0)
        data = from_path(tmp_path)
        assert [image[0, 0].tolist() for image in data[:]] == [
            [0, 128, 128],
            [0, 128, 128],
            [255, 255, 255],
        ]

    def test_black_and_white_files_are_packed(self, tmp_path):
        bits = noise(3, 64, 64) > 127
        save(tmp_path, **dict(zip("abc", bits, strict=True)))
        data = from_path(tmp_path)
        assert isinstance(data.store, Bits)
        assert np.array_equal(data.images([0, 1, 2])[..., 0], bits * 255)

    def test_a_mix_is_an_error_that_names_one_of_each(self, tmp_path):
        save(tmp_path, a=noise(64, 64), b=noise(64, 64), c=noise(64, 64, 3))
        with pytest.raises(DataError, check=about(tmp_path, ("a.png", "c.png"))):
            from_path(tmp_path)
        (tmp_path / "a.png").rename(tmp_path / "z.png")
        (tmp_path / "b.png").unlink()
        with pytest.raises(DataError, check=about(tmp_path, ("z.png", "c.png"))):
            from_path(tmp_path)

    def test_a_mix_is_converted_when_channels_are_given(self, tmp_path):
        grey, colour = noise(64, 64), noise(64, 64, 3)
        save(tmp_path, a=grey, b=colour)
        as_grey, as_colour = from_path(tmp_path, channels=1), from_path(tmp_path, channels=3)
        assert np.array_equal(as_grey[0][..., 0], grey)
        assert np.array_equal(as_grey[1][..., 0], Image.fromarray(colour).convert("L"))
        assert np.array_equal(as_colour[0], np.repeat(grey[..., None], 3, -1))
        assert np.array_equal(as_colour[1], colour)

    def test_grey_pixels_in_a_coloured_file_are_colour(self, tmp_path):
        save(tmp_path, a=Image.new("RGB", (64, 64), "grey"), b=Image.new("RGB", (64, 64)))
        assert from_path(tmp_path).shape == (64, 64, 3)

    def test_a_mix_stops_reading_and_restores_warning_filters(self, tmp_path, monkeypatch):
        for k in range(400):
            (tmp_path / f"{k:03}.png").write_bytes(b"x")
        before, calls = list(warnings.filters), []

        def read(path, *options):
            calls.append(path)
            time.sleep(0.002)
            channels = 1 + 2 * (path.name == "001.png")
            return np.zeros((64, 64, channels), dtype=np.uint8), pictures.Original(64, 64)

        monkeypatch.setattr(picture_sources, "read_picture", read)
        monkeypatch.setattr(own.os, "cpu_count", lambda: 1)
        with pytest.raises(DataError, check=about(tmp_path, ("000.png", "001.png"))):
            from_path(tmp_path)
        assert len(calls) < 100
        assert warnings.filters == before


class TestBroken:
    def test_broken_files_are_skipped_and_listed(self, tmp_path, caplog):
        images = noise(3, 64, 64, 3)
        save(tmp_path, a=images[0], b=images[1], z=images[2])
        break_files(tmp_path)
        with caplog.at_level(logging.WARNING, logger="unweave"):
            data = from_path(tmp_path)
        assert np.array_equal(data[:], images)
        assert data.files == ("a.png", "b.png", "z.png")
        reasons = dict(entry.split(": ", 1) for entry in data.skipped)
        assert list(reasons) == [
            "broken_bomb.png",
            "broken_empty.jpg",
            "broken_link.png",
            "broken_short.png",
            "broken_text.png",
        ]
        assert "pixels" in reasons["broken_bomb.png"]
        assert reasons["broken_empty.jpg"] == "the file is empty"
        assert reasons["broken_link.png"] == "No such file or directory"
        assert "truncated" in reasons["broken_short.png"]
        assert reasons["broken_text.png"] == "not an image"
        (record,) = caplog.records
        assert "5 of 8 files" in record.getMessage()
        assert "broken_bomb.png" in record.getMessage()
        assert "5 of 8 files" in data.notes[0]
        assert "broken_bomb.png" in data.notes[0]
        assert data.notes[0] in repr(data)

    @pytest.mark.parametrize("by_name", [True, False])
    def test_factor_rows_of_skipped_files_are_dropped(self, tmp_path, by_name):
        save(tmp_path, a=noise(64, 64), z=noise(64, 64))
        break_files(tmp_path)
        files = sorted(file.name for file in tmp_path.iterdir())
        levels = {"a.png": 7, "z.png": 9}
        table = {"level": [levels.get(file, -1) for file in files]}
        if by_name:
            table = {"file": files[::-1], "level": table["level"][::-1]}
        data = from_path(tmp_path, factors=table)
        assert data.grid.axes[0].values == (7, 9)
        assert data.files == ("a.png", "z.png")

    def test_a_file_that_cannot_be_opened_is_skipped(self, tmp_path):
        save(tmp_path, a=noise(64, 64), c=noise(64, 64))
        (tmp_path / "b.png").symlink_to("nowhere.png")
        assert from_path(tmp_path).skipped == ("b.png: No such file or directory",)

    def test_only_broken_files_is_an_error(self, tmp_path):
        for name in "ab":
            (tmp_path / f"{name}.png").write_text("no")
        with pytest.raises(DataError, check=about(tmp_path, 0)):
            from_path(tmp_path)

    def test_pipes_devices_and_links_are_skipped(self, tmp_path):
        save(tmp_path, a=noise(64, 64), b=noise(64, 64))
        os.mkfifo(tmp_path / "c.png")
        (tmp_path / "d.png").symlink_to("/dev/zero")
        (tmp_path / "e.png").symlink_to("e.png")
        (tmp_path / "f").symlink_to(".")
        data = from_path(tmp_path)
        assert data.files == ("a.png", "b.png")
        assert [line.split(":")[0] for line in data.skipped] == ["c.png", "d.png", "e.png"]
        assert data.skipped[0] == "c.png: not a regular file"

    @pytest.mark.parametrize("side", [7_100, 13_300, 20_000])
    def test_an_image_with_too_many_pixels_is_skipped(self, tmp_path, side):
        save(tmp_path, a=noise(64, 64), b=noise(64, 64))
        (tmp_path / "c.png").write_bytes(png_header(side, side))
        data = from_path(tmp_path)
        assert data.files == ("a.png", "b.png")
        assert data.skipped == ("c.png: more than 50 million pixels; make it smaller",)

    def test_camera_sized_images_are_accepted(self, tmp_path):
        Image.new("L", (7_000, 7_000)).save(tmp_path / "a.png")
        assert pictures.read_square(tmp_path / "a.png", 32, None).shape == (32, 32, 1)

    def test_large_images_are_decoded_one_at_a_time(self, tmp_path):
        """Each image takes 100 MB or more, so the others have to wait."""
        for name in "abcd":
            Image.new("RGBA", (5_000, 4_500), "#12345678").save(tmp_path / f"{name}.png")
        code = (
            "import resource\n"
            "from unweave.data.custom import from_path\n"
            "first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            f"from_path({str(tmp_path)!r})\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert int(done.stdout) << 10 < 650e6

    def test_no_images_is_an_error(self, tmp_path):
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(DataError, check=about(tmp_path, None)):
            from_path(tmp_path)

    def test_one_image_is_an_error(self, tmp_path):
        save(tmp_path, a=noise(64, 64))
        with pytest.raises(DataError, check=about(tmp_path, 1)):
            from_path(tmp_path)

    def test_wrong_paths_and_options_are_errors(self, tmp_path):
        save(tmp_path, a=noise(64, 64))
        with pytest.raises(DataError, check=about(tmp_path / "nowhere")):
            from_path(tmp_path / "nowhere")
        with pytest.raises(DataError, check=about(tmp_path / "a.png", ".png")):
            from_path(tmp_path / "a.png")
        for size in (15, 257, 64.0):
            with pytest.raises(DataError, check=about("size", size)):
                from_path(tmp_path, size=size)
        with pytest.raises(DataError, check=about("channels", 4)):
            from_path(tmp_path, channels=4)


class TestFiles:
    def test_npy_is_memory_mapped(self, tmp_path):
        images = noise(5, 64, 64, 3)
        np.save(tmp_path / "mine.npy", images)
        data = from_path(tmp_path / "mine.npy")
        assert np.array_equal(data[:], images)
        assert data.name == "mine"
        base = data.store.array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, mmap.mmap)

    def test_npy_in_grid_order_stays_memory_mapped_and_on_disk_unchanged(self, tmp_path):
        images = noise(4, 3, 64, 64)
        np.save(tmp_path / "mine.npy", images)
        before = (tmp_path / "mine.npy").read_bytes()
        mapped = from_path(tmp_path / "mine.npy", factors={"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]})
        assert mapped.grid.sizes == (2, 2)
        assert not mapped.store.array.flags.owndata
        assert torch.equal(mapped.to("cpu").images([3])[0, ..., 2], torch.tensor(images[3, 2]))
        mapped.store.array[:] = 0
        assert (tmp_path / "mine.npy").read_bytes() == before

    @pytest.mark.parametrize("name", ["images", "imgs", "data", "x"])
    def test_npz_by_name(self, tmp_path, name):
        images = noise(4, 32, 32)
        np.savez(tmp_path / "a.npz", labels=np.arange(4), **{name: images})
        assert np.array_equal(from_path(tmp_path / "a.npz")[:][..., 0], images)

    def test_npz_with_one_array(self, tmp_path):
        images = noise(4, 32, 32)
        np.savez_compressed(tmp_path / "a.npz", whatever=images)
        assert np.array_equal(from_path(tmp_path / "a.npz")[:][..., 0], images)

    def test_npz_with_several_arrays_is_an_error(self, tmp_path):
        np.savez(tmp_path / "a.npz", one=noise(4, 32, 32), two=noise(4, 32, 32))
        with pytest.raises(DataError, check=about(tmp_path / "a.npz", ["one", "two"])):
            from_path(tmp_path / "a.npz")

    def test_objects_are_never_unpickled(self, tmp_path):
        objects = np.array([{"a": 1}, None], dtype=object)
        np.save(tmp_path / "a.npy", objects)
        np.savez(tmp_path / "a.npz", images=objects)
        for name in ("a.npy", "a.npz"):
            with pytest.raises(DataError, check=about(tmp_path / name, None)):
                from_path(tmp_path / name)
        with pytest.raises(DataError, check=about("images", np.dtype(object))):
            from_array(np.full((4, 32, 32), None))

    @pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
    @pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5"])
    def test_broken_files_are_errors(self, tmp_path, suffix, content):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(content)
        with pytest.raises(DataError, check=about(path, None)):
            from_path(path)

    def test_a_truncated_npz_is_an_error(self, tmp_path):
        np.savez_compressed(tmp_path / "a.npz", images=noise(9, 32, 32))
        whole = bytearray((tmp_path / "a.npz").read_bytes())
        whole[2000:4000] = bytes(2000)
        (tmp_path / "a.npz").write_bytes(whole)
        with pytest.raises(DataError, check=about(tmp_path / "a.npz", None)):
            from_path(tmp_path / "a.npz")

    @pytest.mark.parametrize("suffix", [".h5", ".hdf5", ".H5"])
    @pytest.mark.parametrize("name", ["images", "imgs", "data", "deep/pictures"])
    def test_hdf5(self, tmp_path, suffix, name):
        images = noise(4, 64, 64, 3)
        with h5py.File(tmp_path / f"a{suffix}", "w") as file:
            file["labels"] = np.zeros((4, 6))
            file[name] = images
        assert np.array_equal(from_path(tmp_path / f"a{suffix}")[:], images)

    def test_hdf5_with_several_arrays_is_an_error(self, tmp_path):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["one"] = file["two"] = noise(4, 32, 32)
            file["labels"] = np.zeros(4)
        with pytest.raises(DataError, check=about(tmp_path / "a.h5", ["labels", "one", "two"])):
            from_path(tmp_path / "a.h5")


class TestArray:
    @settings(max_examples=40, deadline=None)
    @given(
        count=st.integers(2, 4),
        side=st.sampled_from([32, 64, 128]),
        layout=st.sampled_from(["nhw", "nhwc", "nchw"]),
        channels=st.sampled_from([1, 3]),
        dtype=st.sampled_from(
            ["uint8", "int16", "int64", "uint16", "float16", "float32", "float64", "torch"]
        ),
    )
    def test_every_layout_and_type_round_trips(self, count, side, layout, channels, dtype):
        channels = 1 if layout == "nhw" else channels
        images = noise(count, side, side, channels)
        images[0, 0, 0], images[0, 0, 1] = 0, 255
        array = images / 255 if dtype.startswith("float") else images
        array = array.astype("float32" if dtype == "torch" else dtype)
        array = {"nhw": array[..., 0], "nhwc": array, "nchw": np.moveaxis(array, 3, 1)}[layout]
        data = from_array(torch.tensor(array / 255) if dtype == "torch" else array)
        assert data.shape == (side, side, channels)
        assert np.array_equal(data[:], images)

    def test_axes_of_1_or_3_hold_the_channels(self):
        assert from_array(noise(2, 1, 64, 64)).shape == (64, 64, 1)
        assert from_array(noise(2, 3, 64, 20)).shape == (64, 20, 3)
        assert from_array(noise(2, 20, 64, 3)).shape == (20, 64, 3)
        assert from_array(noise(2, 20, 30, 20)).shape == (20, 30, 20)

    @pytest.mark.parametrize("shape", [(16, 16, 1), (28, 28, 1), (48, 80, 3), (256, 64, 40)])
    @pytest.mark.parametrize("first", [False, True])
    def test_images_of_16_to_256_pixels_are_kept(self, shape, first):
        images = noise(2, *shape)
        given = np.moveaxis(images, 3, 1)[:, ::-1, ::-1] if first else images
        data = from_array(given)
        assert data.shape == shape
        expected = images[:, ::-1, :, ::-1] if first else images
        assert np.array_equal(data[:], expected)
        assert np.array_equal(data.to("cpu").images(torch.arange(2)), expected)

    def test_each_of_many_channels_is_resized_like_a_grey_image(self):
        images = noise(2, 300, 280, 5)
        found = from_array(images, size=40)
        assert found.shape == (40, 40, 5)
        for channel in range(5):
            alone = from_array(images[..., channel], size=40)
            assert np.array_equal(found[:][..., channel], alone[:][..., 0])
        with pytest.raises(DataError, check=about("channels", 5)):
            from_array(images, channels=1)

    @pytest.mark.parametrize("shape", [(64, 64), (4, 5), (1, 2) * 3])
    def test_other_shapes_are_errors(self, shape):
        with pytest.raises(DataError, check=about("images", shape)):
            from_array(noise(*shape))

    def test_images_without_pixels_are_an_error(self):
        with pytest.raises(DataError, check=about("images", (0, 64, 1))):
            from_array(noise(4, 0, 64))

    @pytest.mark.parametrize("count", [0, 1])
    @pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
    def test_too_few_images_are_an_error(self, count, dtype):
        with pytest.raises(DataError, check=about("images", count)):
            from_array(np.zeros((count, 64, 64), dtype))

    def test_other_sizes_are_resized_like_files(self, tmp_path):
        images = noise(3, 10, 40, 3)
        save(tmp_path, **dict(zip("abc", images, strict=True)))
        assert np.array_equal(from_array(images)[:], from_path(tmp_path)[:])
        assert np.array_equal(from_array(images, size=32)[:], from_path(tmp_path, size=32)[:])

    def test_size_changes_images_that_could_stay(self):
        images = noise(3, 128, 128)
        assert from_array(images).shape == (128, 128, 1)
        assert from_array(images, size=128).store.array.base is not None
        assert from_array(images, size=100).shape == (100, 100, 1)
        with pytest.raises(DataError, check=about("size", 300)):
            from_array(images, size=300)

    def test_channels_are_converted(self):
        images = noise(3, 128, 128, 3)
        grey = from_array(images, channels=1)
        assert grey.shape == (128, 128, 1)
        assert np.array_equal(grey[2][..., 0], Image.fromarray(images[2]).convert("L"))
        assert from_array(images[:, 20:], channels=1).shape == (108, 128, 1)
        assert np.array_equal(from_array(grey[:], channels=3)[1], np.repeat(grey[1], 3, -1))

    def test_bytes_are_shared_not_copied(self):
        images = noise(3, 64, 64)
        assert np.shares_memory(from_array(images).store.array, images)

    @pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
    def test_binary_images_are_packed(self, dtype):
        bits = noise(5, 64, 64) > 127
        data = from_array(bits.astype(dtype))
        assert isinstance(data.store, Bits)
        assert data.store.nbytes == 5 * 64 * 64 // 8
        assert np.array_equal(data[:][..., 0], bits * 255)

    def test_binary_colour_images_of_0_and_255_are_packed(self):
        images = (noise(5, 32, 32, 3) > 127) * np.uint8(255)
        data = from_array(images)
        assert isinstance(data.store, Bits)
        assert np.array_equal(data[:], images)

    def test_binary_images_are_scaled_before_they_are_resized(self):
        images = np.zeros((2, 100, 100), dtype=np.uint8)
        images[1] = 1
        assert from_array(images)[1].min() == 255

    def test_a_constant_image_is_not_binary(self):
        assert from_array(np.ones((2, 64, 64), dtype=np.uint8))[0].max() == 1
        assert from_array(np.zeros((2, 64, 64), dtype=np.uint8))[0].max() == 0
        assert isinstance(from_array(noise(2, 64, 64) % 3).store, Bytes)

    def test_large_arrays_are_converted_in_pieces(self, monkeypatch):
        images = noise(7, 64, 64)
        whole = [from_array(images / 255)[:], from_array(images > 99)[:]]
        sizes = []
        parts = arrays.parts

        def smaller(array):
            for start in range(0, len(array), 3):
                sizes.append(len(array[start : start + 3]))
                yield start, array[start : start + 3]

        assert [len(part) for _, part in parts(np.zeros((5000, 64, 64)))] == [4096, 904]
        monkeypatch.setattr(arrays, "parts", smaller)
        assert np.array_equal(from_array(images / 255)[:], whole[0])
        assert np.array_equal(from_array(images > 99)[:], whole[1])
        assert set(sizes) == {3, 1}
        with pytest.raises(DataError, check=about("images", (5, 7, 9))):
            from_array(np.where(np.arange(7)[:, None, None] == 5, spot(7, 9), 0.5))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("axis", [1, 3])
    def test_nan_and_infinite_values_are_counted_and_located(self, bad, axis):
        images = np.zeros((4, 64, 64, 3), dtype=np.float32)
        images[2, 5, 7, 1] = images[3, 0, 0, 0] = bad
        with pytest.raises(DataError, check=about("images", (2, 5, 7))):
            from_array(np.moveaxis(images, 3, axis))

    @pytest.mark.parametrize(("low", "high"), [(-0.5, 1), (0, 255), (0, 1.001)])
    def test_floats_outside_0_to_1_are_an_error(self, low, high):
        images = np.linspace(low, high, 2 * 64 * 64).reshape(2, 64, 64)
        with pytest.raises(DataError, check=about("images", (low, high))):
            from_array(images)

    @pytest.mark.parametrize("bad", [-1, 256])
    def test_integers_outside_0_to_255_are_an_error(self, bad):
        images = noise(2, 64, 64).astype(int)
        images[0, 0, 0] = bad
        with pytest.raises(DataError, check=about("mine")):
            from_array(images, name="mine")

    @pytest.mark.parametrize("array", [np.zeros((2, 64, 64), complex), np.full((2, 64, 64), "a")])
    def test_other_types_are_an_error(self, array):
        with pytest.raises(DataError, check=about("images", array.dtype)):
            from_array(array)

    def test_ragged_lists_are_an_error(self):
        with pytest.raises(DataError, check=about("images", "list")):
            from_array([[1, 2], [3]])

    @pytest.mark.parametrize(
        "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16]
    )
    def test_tensors_with_gradients_are_accepted(self, dtype):
        tensor = torch.rand(2, 3, 64, 64, dtype=dtype, requires_grad=True)
        data = from_array(tensor)
        expected = (tensor.detach().float() * 255).round().byte().permute(0, 2, 3, 1)
        assert np.array_equal(data[:], expected)
        assert tensor.requires_grad

    def test_byte_and_sparse_tensors(self):
        images = noise(2, 64, 64)
        assert np.array_equal(from_array(torch.tensor(images))[:][..., 0], images)
        with pytest.raises(DataError, check=about("images", "Tensor")):
            from_array(torch.tensor(images).to_sparse())


def spot(row, column):
    """One image `[64, 64]` with a NaN."""
    image = np.full((64, 64), 0.5)
    image[row, column] = np.nan
    return image


class TestFactors:
    def test_a_complete_grid_is_sorted(self, tmp_path):
        combinations = [(shape, size) for size in (3, 1, 2) for shape in ("disc", "cross")]
        rows = ["file,shape,size"]
        for k, (shape, size) in enumerate(combinations):
            level = 100 * ("cross", "disc").index(shape) + size
            save(tmp_path, **{f"im{k}": np.full((64, 64), level, dtype=np.uint8)})
            rows.append(f"im{k}.png,{shape},{size}")
        (tmp_path / "factors.csv").write_text("\n".join(rows[:1] + rows[:0:-1]))
        data = from_path(tmp_path, factors=tmp_path / "factors.csv")
        assert data.grid.names == ("shape", "size")
        assert data.grid.axes[0].values == ("cross", "disc")
        assert data.grid.axes[0].categorical
        assert not data.grid.axes[1].categorical
        assert data[:][:, 0, 0, 0].tolist() == [1, 2, 3, 101, 102, 103]
        assert data.files == ("im3.png", "im5.png", "im1.png", "im2.png", "im4.png", "im0.png")
        assert np.array_equal(data.index(data.factors(np.arange(6))), np.arange(6))
        assert data.factors(4).tolist() == [1, 1]

    def test_an_incomplete_grid_becomes_labels(self):
        images = noise(3, 64, 64)
        data = from_array(images, factors={"b": [1, 0, 1], "a": ["x", "x", "y"]})
        assert data.grid is None
        assert data.labels.names == ("b", "a")
        assert data.factors([0, 1, 2]).tolist() == [[1, 0], [0, 0], [1, 1]]
        assert np.array_equal(data[:][..., 0], images)

    def test_a_grid_with_a_duplicate_row_becomes_labels(self):
        table = np.array([[0, 0], [0, 1], [1, 0], [1, 0]])
        data = from_array(noise(4, 64, 64), factors=table)
        assert data.grid is None
        assert data.labels.names == ("factor_0", "factor_1")
        assert np.array_equal(data.factors([0, 1, 2, 3]), table)

    def test_packed_images_are_sorted(self):
        bits = noise(4, 64, 64) > 127
        data = from_array(bits, factors={"a": [3, 2, 1, 0]})
        assert isinstance(data.store, Bits)
        assert np.array_equal(data[:][..., 0], bits[::-1] * 255)


ODD_NAMES = {
    b"caf\xe9.png": r"caf\xe9.png",
    b"\xff\xfe.png": r"\xff\xfe.png",
    b"two\nlines.png": r"two\nlines.png",
    b"\x1b[31m.png": r"\x1b[31m.png",
    b"a,b.png": "a,b.png",
    b"it's \".png": "it's \".png",
    b"-dash.png": "-dash.png",
    b" space .png": " space .png",
    b"x" * 251 + b".png": "x" * 251 + ".png",
    "😀 שלום.png".encode(): "😀 שלום.png",
    b"back\\slash.png": "back\\slash.png",
}


class TestOddNames:
    """File names are bytes, but are displayed as text."""

    @pytest.fixture
    def folder(self, tmp_path):
        folder = tmp_path / os.fsdecode(b"im\xe9ges")
        folder.mkdir()
        for number, name in enumerate(ODD_NAMES):
            Image.fromarray(noise(64, 64, seed=number)).save(folder / os.fsdecode(name))
        (folder / os.fsdecode(b"bro\xe9ken.png")).write_text("no picture")
        return folder

    def test_images_are_read_and_listed_with_printable_names(self, folder, caplog):
        data = from_path(folder)
        assert data.name == r"im\xe9ges"
        assert sorted(data.files) == sorted(ODD_NAMES.values())
        assert data.skipped == (r"bro\xe9ken.png: not an image",)
        assert r"files in /" in caplog.text
        assert r"im\xe9ges could not be read" in caplog.text
        for number, shown in enumerate(ODD_NAMES.values()):
            expected = noise(64, 64, seed=number)
            np.testing.assert_array_equal(data[data.files.index(shown)][..., 0], expected)

    @pytest.mark.parametrize("raw", [False, True])
    def test_factor_tables_use_printable_names(self, folder, tmp_path, raw):
        names = [
            name.decode() if raw and name.isascii() else shown for name, shown in ODD_NAMES.items()
        ]
        with (tmp_path / "factors.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("file", "number"), *zip(names, range(99), strict=False)])
        data = from_path(folder, factors=tmp_path / "factors.csv")
        assert data.files == tuple(ODD_NAMES.values())  # in the order of the factor
