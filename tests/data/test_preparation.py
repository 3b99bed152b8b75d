"""How custom images were prepared is recorded, with counts and examples."""

import logging
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.data.custom import from_array, from_path
from unweave.data.dataset import MAX_NOTES
from unweave.data.pictures import BIT_DEPTHS, Original, read_picture
from unweave.data.preparation import LONGEST_NAME, file_notes, find_copies
from unweave.errors import DataError


def noise(*shape, seed=0, high=256):
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.uint16)


def save(folder, suffix=".png", **images):
    for name, image in images.items():
        picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
        picture.save(folder / f"{name}{suffix}")


def deep_png(pixels):
    """A PNG of 16 bits per channel, which Pillow cannot write, from pixels `[H, W, C]`."""

    def chunk(kind, body):
        crc = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)

    height, width, channels = pixels.shape
    kind = {2: 4, 3: 2, 4: 6}[channels]
    head = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def about_file(notes, name):
    """The notes that name a file."""
    return [note for note in notes if name in note]


class TestBitDepth:
    @pytest.mark.parametrize("suffix", [".png", ".tif"])
    @pytest.mark.parametrize(
        ("largest", "bits"), [(255, 8), (256, 10), (4_095, 12), (4_096, 14), (16_384, 16)]
    )
    def test_white_is_the_largest_value_of_the_depth_of_all_files(
        self, tmp_path, suffix, largest, bits
    ):
        dim, bright = noise(64, 64, high=100), noise(64, 64, high=largest, seed=1)
        bright[5, 6] = largest
        save(tmp_path, suffix, a=dim, b=bright, c=dim // 2)
        data = from_path(tmp_path)
        assert data.bits == bits
        expected = np.rint(np.stack([dim, bright, dim // 2]) / ((2**bits - 1) / 255))
        assert np.array_equal(data[:][..., 0], expected)
        (note,) = about_file(data.notes, f"b{suffix}")
        assert f"from {bits} bits" in note
        assert f"{largest:,}" in note

    def test_brightness_differs_between_images_as_in_the_files(self, tmp_path):
        levels = noise(64, 64, high=1_000)
        save(tmp_path, a=levels, b=levels * 4)
        one, four = (image.astype(float) for image in from_path(tmp_path)[:])
        assert np.abs(four - 4 * one).max() <= 2.5

    def test_files_of_8_bits_are_unchanged_among_others(self, tmp_path):
        plain, deep = noise(64, 64).astype(np.uint8), noise(64, 64, high=4_000)
        save(tmp_path, a=plain, b=deep, z=plain[::-1])
        (tmp_path / "broken.png").write_text("no")
        data = from_path(tmp_path)
        assert data.files == ("a.png", "b.png", "z.png")
        assert np.array_equal(data[0][..., 0], plain)
        assert np.array_equal(data[1][..., 0], np.rint(deep / (4_095 / 255)))
        assert np.array_equal(data[2][..., 0], plain[::-1])
        assert "1 file" in about_file(data.notes, "b.png")[0]

    def test_a_given_depth_is_used_and_brighter_values_become_white(self, tmp_path, caplog):
        levels = noise(64, 64, high=1_024)
        hot = levels.copy()
        hot[0, 0] = 60_000
        save(tmp_path, a=levels, b=hot)
        with caplog.at_level(logging.WARNING, logger="unweave"):
            data = from_path(tmp_path, bits=10)
        assert data.bits == 10
        assert data[1][0, 0, 0] == 255
        assert np.array_equal(data[0][..., 0], np.rint(levels / (1_023 / 255)))
        note = data.notes[0]
        assert "1 of 2 images" in note
        assert "1,023" in note
        assert "b.png" in note
        assert note in caplog.text
        assert from_path(tmp_path).bits == 16

    @pytest.mark.parametrize("bits", [0, 11, 32, 12.0, "12"])
    def test_other_depths_are_errors(self, tmp_path, bits):
        save(tmp_path, a=noise(64, 64), b=noise(64, 64))
        for load in (lambda: from_path(tmp_path, bits=bits), lambda: from_array([], bits=bits)):
            with pytest.raises(DataError, check=about("bits", bits)):
                load()

    def test_ordinary_files_and_floats_have_no_depth(self, tmp_path):
        save(tmp_path, ".tif", a=noise(64, 64).astype(np.uint8), b=np.eye(64, dtype=np.float32))
        data = from_path(tmp_path, bits=12)
        assert data.bits is None
        assert data.notes == ()
        assert data[1].max() == 255

    def test_a_file_that_changes_while_the_folder_is_read_is_an_error(self, tmp_path, monkeypatch):
        from unweave.data import custom

        save(tmp_path, a=noise(64, 64, high=4_000), b=noise(64, 64, high=300))
        rescale = custom._rescale

        def change_first(*args):
            save(tmp_path, a=noise(64, 64, high=5_000, seed=1))
            rescale(*args)

        monkeypatch.setattr(custom, "_rescale", change_first)
        with pytest.raises(DataError, check=about(tmp_path, "a.png")):
            from_path(tmp_path)

    @pytest.mark.parametrize("channels", [2, 3, 4])
    def test_upper_bits_of_16_bit_colours_are_used_and_said(self, tmp_path, channels):
        for name, top in (("bright", 65_536), ("dark", 4_096)):
            folder = tmp_path / name
            folder.mkdir()
            for k in range(2):
                pixels = noise(64, 64, channels, high=top, seed=k)
                if channels != 3:
                    pixels[..., -1] = 65_535
                (folder / f"{k}.png").write_bytes(deep_png(pixels))
            data = from_path(folder)
            colours = pixels[..., :-1] if channels != 3 else pixels
            assert np.array_equal(data[1], np.broadcast_to(colours >> 8, (64, 64, 3)))
            (note,) = about_file(data.notes, "0.png")
            assert "2 of 2 files" in note
            assert ("15 of 255" in note) == (name == "dark")
            assert data.bits is None


class TestArrayDepth:
    @pytest.mark.parametrize("dtype", ["<u2", ">u2"])
    def test_uint16_is_scaled_by_its_depth(self, dtype):
        array = noise(3, 32, 40, high=4_000)
        array[1, 2, 3] = 4_010
        data = from_array(array.astype(dtype))
        assert data.bits == 12
        assert np.array_equal(data[:][..., 0], np.rint(array / (4_095 / 255)))
        (note,) = data.notes
        assert "from 12 bits" in note
        assert "4,010" in note
        assert "image 1" in note

    def test_uint16_up_to_255_is_bytes(self):
        array = noise(3, 32, 40)
        data = from_array(array)
        assert data.bits is None
        assert data.notes == ()
        assert np.array_equal(data[:][..., 0], array)

    @pytest.mark.parametrize("dtype", ["int16", "int64", "uint32"])
    def test_other_integers_need_a_depth(self, dtype):
        array = noise(3, 32, 40, high=4_000).astype(dtype)
        with pytest.raises(DataError, check=about("images", (array.min(), array.max()))):
            from_array(array)
        assert np.array_equal(from_array(array, bits=12)[:], from_array(array.astype("u2"))[:])

    def test_a_given_depth_clips_and_limits(self):
        array = noise(3, 32, 40, high=1_000)
        array[2, 0, 0] = 1_024
        data = from_array(array, bits=10)
        assert data[2].max() == 255
        assert "1 of 3 images" in data.notes[-1]
        assert "image 2" in data.notes[-1]
        for bad in (-1, 65_536):
            wrong = array.astype(int)
            wrong[0, 0, 0] = bad
            with pytest.raises(DataError, check=about("images")):
                from_array(wrong, bits=10)
        plain = noise(3, 32, 40).astype(np.uint8)
        assert np.array_equal(from_array(plain, bits=12)[:][..., 0], plain)


class TestNotes:
    def test_plain_images_have_no_notes(self, tmp_path):
        save(tmp_path, a=noise(64, 64).astype(np.uint8), b=noise(64, 64, seed=1).astype(np.uint8))
        assert from_path(tmp_path).notes == ()
        assert from_array(noise(4, 64, 64).astype(np.uint8)).notes == ()
        assert uw.data.load("pendulum").notes == ()

    def test_crops_and_sizes_are_counted(self, tmp_path):
        for name, (width, height) in {"a": (64, 64), "b": (128, 64), "c": (80, 100)}.items():
            Image.fromarray(noise(height, width).astype(np.uint8)).save(tmp_path / f"{name}.png")
        cropped, resized = from_path(tmp_path).notes
        assert "2 of 3 files" in cropped
        assert "50%" in cropped
        assert "b.png" in cropped
        assert "64 × 64 to 128 × 64" in resized
        enlarged = from_path(tmp_path, size=70).notes[-1]
        assert "2 of 3 files" in enlarged
        assert "a.png" in enlarged

    def test_cropping_alone_is_not_resizing(self, tmp_path):
        save(tmp_path, a=noise(64, 90).astype(np.uint8), b=noise(90, 64).astype(np.uint8))
        (note,) = from_path(tmp_path).notes
        assert "29%" in note

    def test_sizes_of_large_jpegs_are_those_of_the_files(self, tmp_path):
        for name in "ab":
            Image.effect_noise((800, 600), 50 + ord(name)).save(tmp_path / f"{name}.jpg")
        notes = from_path(tmp_path).notes
        assert "25%" in notes[0]
        assert "800 × 600" in notes[1]

    @pytest.mark.parametrize(
        ("kind", "field"),
        [
            ("rgba", "transparent"),
            ("la", "transparent"),
            ("palette", "transparent"),
            ("colour key", "transparent"),
            ("cmyk", "cmyk"),
            ("rotated", "rotated"),
            ("gif", "several"),
            ("opaque", None),
            ("unused", None),
            ("single", None),
            ("upright", None),
        ],
    )
    def test_unusual_files_are_counted_and_named(self, tmp_path, kind, field):
        plain = Image.fromarray(noise(64, 64, 3).astype(np.uint8))
        other = Image.fromarray(noise(64, 64, 3, seed=1).astype(np.uint8))
        exif = Image.Exif()
        exif[0x0112] = 1 if kind == "upright" else 6
        frames = {"save_all": True, "append_images": [plain]}
        odd = tmp_path / "odd.png"
        match kind:
            case "rgba" | "opaque":
                other.putalpha(200 if kind == "rgba" else 255)
                other.save(odd)
            case "la":
                grey = other.convert("L")
                Image.merge("LA", [grey, grey]).save(odd)
            case "palette" | "unused":
                few = other.quantize(16)
                few.save(odd, transparency=3 if kind == "palette" else 200)
            case "colour key":
                other.save(odd, transparency=(1, 2, 3))
            case "cmyk":
                other.convert("CMYK").save(odd.with_suffix(".jpg"))
            case "rotated" | "upright":
                other.save(odd, exif=exif)
            case "gif":
                other.save(odd.with_suffix(".gif"), **frames)
            case "single":
                other.save(odd.with_suffix(".gif"))
        save(tmp_path, a=plain, b=plain.transpose(Image.Transpose.ROTATE_90))
        data = from_path(tmp_path, channels=3)
        assert len(data) == 3
        name = next(file for file in data.files if file.startswith("odd"))
        original = read_picture(tmp_path / name, 64, None)[1]
        fields = ("transparent", "cmyk", "rotated", "several")
        assert [one for one in fields if getattr(original, one)] == ([field] if field else [])
        notes = about_file(data.notes, name)
        assert len(notes) == len(data.notes) == (field is not None)
        assert all("1 of 3 files" in note for note in notes)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_the_size_is_that_of_the_upright_image(self, tmp_path, orientation):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.new("L", (90, 70)).save(tmp_path / "a.jpg", exif=exif)
        original = read_picture(tmp_path / "a.jpg", 32, None)[1]
        assert (original.width, original.height) == ((70, 90) if orientation > 4 else (90, 70))
        assert original.rotated == (orientation > 1)

    def test_arrays_say_what_was_resized_and_cropped(self):
        (enlarged,) = from_array(noise(3, 8, 8).astype(np.uint8)).notes
        assert "8 × 8 to 64 × 64" in enlarged
        resized, cropped = from_array(noise(3, 40, 80).astype(np.uint8), size=32).notes
        assert "40 × 80 to 32 × 32" in resized
        assert "50%" in cropped

    def test_print_shows_the_first_notes(self):
        data = from_array(noise(3, 8, 12).astype(np.uint8))
        assert all(note in repr(data) for note in data.notes)
        many = uw.data.Dataset("many", data.store, notes=tuple(f"note {k}" for k in range(9)))
        shown = repr(many)
        assert f"note {MAX_NOTES - 1}" in shown
        assert f"note {MAX_NOTES}" not in shown
        assert f"{9 - MAX_NOTES} more notes" in shown

    def test_long_names_are_shortened(self):
        names = ["x" * 300 + "end.png", "b.png"]
        (note,) = file_notes(names, [Original(64, 64, cmyk=True)] * 2, 64, "crop", None)
        assert "end.png" in note
        assert len(note) < 2 * LONGEST_NAME


class TestCopies:
    def test_duplicates_are_counted_and_the_first_is_named(self, tmp_path, caplog):
        one, two = noise(64, 64).astype(np.uint8), noise(64, 64, seed=1).astype(np.uint8)
        save(tmp_path, a=one, b=two, c=two, d=one, e=two)
        with caplog.at_level(logging.WARNING, logger="unweave"):
            data = from_path(tmp_path)
        assert len(data) == 5
        (note,) = data.notes
        assert "3 of 5 images" in note
        assert "c.png" in note
        assert "b.png" in note
        (record,) = caplog.records
        assert note in record.getMessage()

    def test_few_duplicates_are_noted_without_a_warning(self, caplog):
        images = noise(200, 16, 16).astype(np.uint8)
        images[150] = images[20]
        with caplog.at_level(logging.WARNING, logger="unweave"):
            data = from_array(images)
        assert "1 of 200 images" in data.notes[0]
        assert "image 150, equal to image 20" in data.notes[0]
        assert not caplog.records

    def test_black_and_white_images_are_compared_too(self):
        bits = noise(4, 32, 32) > 127
        bits[3] = bits[1]
        assert "1 of 4 images" in from_array(bits).notes[0]

    @pytest.mark.parametrize("seed", range(5))
    def test_copies_agree_with_comparing_all_pairs(self, seed):
        images = noise(30, 2, 2, 1, seed=seed, high=2)
        pairs = [(i, j) for i in range(30) for j in range(i) if (images[i] == images[j]).all()]
        copies = find_copies(images)
        assert copies.num_copies == len({i for i, _ in pairs})
        assert (copies.copy, copies.of) == min(pairs)
        assert find_copies(noise(30, 8, 8, 1, seed=seed)) is None


class TestNonSquare:
    @pytest.mark.parametrize(("width", "height"), [(100, 50), (50, 100), (300, 2), (70, 69)])
    @pytest.mark.parametrize("mode", ["L", "RGB"])
    def test_padding_keeps_the_whole_image(self, tmp_path, width, height, mode):
        image = Image.new(mode, (width, height), "black" if mode == "L" else (10, 200, 30))
        save(tmp_path, a=image, b=image)
        pixels = from_path(tmp_path, size=32, non_square="pad")[0]
        assert np.array_equal(pixels, np.full_like(pixels, pixels[0, 0]))
        wide = np.full((height, width), 100, np.uint8)
        wide[:, : width // 2] = 50
        save(tmp_path, a=wide, b=wide)
        data = from_path(tmp_path, size=32, non_square="pad")
        assert data.non_square == "pad"
        assert {50, 100} <= set(np.unique(data[0]))
        assert "2 of 2 files" in data.notes[1]

    def test_margins_have_the_median_colour_of_the_border(self, tmp_path):
        image = np.full((32, 64, 3), (9, 80, 200), np.uint8)
        image[8:24, 8:56] = 255
        image[0, :5] = 0
        save(tmp_path, a=image, b=image)
        data = from_path(tmp_path, non_square="pad")
        assert np.array_equal(data[0][16:48], image)
        assert (data[0][:16] == (9, 80, 200)).all()
        assert (data[0][48:] == (9, 80, 200)).all()

    def test_square_images_are_the_same(self, tmp_path):
        save(tmp_path, a=noise(90, 90).astype(np.uint8), b=noise(64, 64).astype(np.uint8))
        assert np.array_equal(from_path(tmp_path)[:], from_path(tmp_path, non_square="pad")[:])

    @pytest.mark.parametrize("channels", [1, 2, 3])
    def test_arrays_are_padded_like_files(self, channels):
        images = noise(2, 40, 80, channels).astype(np.uint8)
        data = from_array(images, size=80, non_square="pad")
        assert np.array_equal(data[:][:, 20:60], images)
        assert "40 × 80 to 80 × 80" in data.notes[0]

    def test_other_words_are_errors(self):
        with pytest.raises(DataError, check=about("non_square", "stretch")):
            from_array(noise(2, 40, 80), non_square="stretch")


class TestNotImages:
    @pytest.mark.parametrize(
        "shape",
        [
            (500, 20),
            (100, 64),
            (64, 64),
            (9,),
            (64, 64, 3),
            (64, 64, 4),
            (100, 128, 2),
            (100, 128, 12),
            (2, 3, 64, 3),
            (100, 64, 3, 64),
            (4, 8, 8, 8, 3),
        ],
    )
    def test_tables_series_and_single_images_are_errors(self, shape, tmp_path):
        array = np.random.default_rng(0).random(shape)
        np.save(tmp_path / "array.npy", array)
        for source in (array, tmp_path / "array.npy"):
            name = "images" if source is array else "array"
            with pytest.raises(DataError, check=about(name, shape)):
                uw.data.load(source)
        with pytest.raises(DataError, check=about("images", shape)):
            uw.fit(array)

    @pytest.mark.parametrize("source", [{"images": np.zeros((9, 32, 32))}, 3, None, iter([1])])
    def test_what_is_not_an_array_is_named(self, source):
        with pytest.raises(DataError, check=about("images", type(source).__name__)):
            uw.data.load(source)

    @pytest.mark.parametrize("shape", [(9, 8, 8), (9, 8, 32), (9, 16, 200), (9, 2, 20, 30)])
    def test_small_images_are_accepted(self, shape):
        assert len(from_array(np.random.default_rng(0).random(shape))) == 9

    @pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
    def test_tables_are_not_images(self, tmp_path, suffix):
        path = tmp_path / f"table{suffix}"
        path.write_text("a,b\n1,2\n")
        with pytest.raises(DataError, match="Unweaver", check=about(path, suffix)):
            uw.fit(path)

    def test_hdf5_without_images_is_an_error(self, tmp_path):
        import h5py

        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["rows"] = np.zeros((50, 7))
        with pytest.raises(DataError, match="Unweaver", check=about(tmp_path / "a.h5", ["rows"])):
            uw.data.load(tmp_path / "a.h5")


def test_depths_hold_their_own_largest_value():
    from unweave.data.pictures import bit_depth

    for bits in BIT_DEPTHS:
        assert bit_depth(2**bits - 1) == bits
