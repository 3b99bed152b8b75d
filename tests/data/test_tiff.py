"""TIFF files with several images: pages, OME-TIFF and ImageJ stacks, and malicious metadata."""

import sys

import numpy as np
import pytest
import tifffile
from PIL import Image

import unweave as uw
from tests.raising import about
from unweave.data import tiff
from unweave.data.custom import from_path
from unweave.data.pictures import scaled_bytes
from unweave.errors import DataError, UnweaveError


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save_pages(path, pages, **options):
    first, *others = [page if hasattr(page, "save") else Image.fromarray(page) for page in pages]
    first.save(path, save_all=True, append_images=others, **options)
    return path


@pytest.mark.parametrize("shape", [(32, 32), (32, 32, 3)], ids=["grey", "colour"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate"])
def test_every_page_is_an_image(tmp_path, shape, compression, monkeypatch):
    images = noise(7, *shape)
    monkeypatch.setattr(tiff, "IMAGES_AT_ONCE", 3)
    monkeypatch.setitem(sys.modules, "tifffile", None)  # Pillow suffices
    path = save_pages(tmp_path / "a.tif", images, compression=compression)
    data = from_path(path, size=32)
    assert np.array_equal(data[:].squeeze(), images)
    assert data.files == tuple(f"a.tif[{k}]" for k in range(7))
    assert (data.name, data.notes) == ("a", ())


@pytest.mark.parametrize("options", [{"bigtiff": True}, {"tile": (16, 16)}, {"byteorder": ">"}])
def test_large_tiled_and_big_endian_files_are_read(tmp_path, options):
    images = noise(4, 32, 32)
    options |= {"photometric": "minisblack", "metadata": None}
    tifffile.imwrite(tmp_path / "a.tif", images, **options)
    assert np.array_equal(from_path(tmp_path / "a.tif", size=32)[:].squeeze(), images)


def test_pages_of_a_folder_are_between_its_other_files(tmp_path):
    images = noise(6, 32, 32)
    Image.fromarray(images[0]).save(tmp_path / "a.png")
    save_pages(tmp_path / "b.tif", images[1:4])
    Image.fromarray(images[4]).save(tmp_path / "c.TIFF", "tiff")
    Image.fromarray(images[5]).save(tmp_path / "d.tif", "png")  # whatever the name says
    data = from_path(tmp_path, size=32)
    assert data.files == ("a.png", "b.tif[0]", "b.tif[1]", "b.tif[2]", "c.TIFF", "d.tif")
    assert np.array_equal(data[:].squeeze(), images)
    factors = {"file": [*data.files], "k": range(6)}
    assert uw.data.load(tmp_path, factors=factors).labels is None  # a grid of one factor


def test_pages_share_a_scale_and_keep_their_own_rotation(tmp_path):
    deep = noise(3, 64, 64).astype(np.uint16) * np.array([2, 4, 15], np.uint16)[:, None, None]
    data = from_path(save_pages(tmp_path / "a.tif", deep))
    assert data.bits == 12
    assert np.array_equal(data[:].squeeze(), scaled_bytes(deep, 4095))
    assert "3 images" in data.notes[0]
    images = noise(2, 64, 64)
    path = save_pages(tmp_path / "b.tif", images, tiffinfo={0x0112: 6})
    expected = np.stack([np.rot90(one, -1) for one in images])
    found = from_path(path)
    assert np.array_equal(found[:].squeeze(), expected)
    assert np.array_equal(from_path(path)[:], found[:])


def test_pages_of_another_size_are_left_out_and_noted(tmp_path):
    images, thumbnail = noise(3, 64, 64), noise(16, 16)
    data = from_path(save_pages(tmp_path / "a.tif", [images[0], thumbnail, *images[1:]]))
    assert np.array_equal(data[:].squeeze(), images)
    assert "3 of 3 images" in data.notes[0]
    (tmp_path / "one").mkdir()
    save_pages(tmp_path / "one" / "a.tif", [images[0], thumbnail])
    save_pages(tmp_path / "one" / "b.tif", [images[1]])
    data = from_path(tmp_path / "one")
    assert np.array_equal(data[:].squeeze(), images[:2])
    assert len(data.notes) == 1


STACK = {"TZCYX": (2, 3, 2, 32, 32), "ZCYX": (5, 3, 32, 32), "TCZYX": (2, 4, 3, 32, 32)}


def as_images(stack, axes):
    """`[N, H, W, C]` from axes in any order."""
    outer = [axis for axis in axes if axis not in "CSYX"]
    order = [*outer, "Y", "X", *(axis for axis in "CS" if axis in axes)]
    moved = np.transpose(stack, [axes.index(axis) for axis in order])
    sizes = [stack.shape[axes.index(axis)] for axis in outer]
    height, width = moved.shape[len(outer) : len(outer) + 2]
    return moved.reshape(int(np.prod(sizes)), height, width, -1)


@pytest.mark.parametrize("axes", STACK)
@pytest.mark.parametrize(
    "options", [{}, {"compression": "zlib"}, {"compression": "lzw"}, {"tile": (16, 16)}], ids=str
)
def test_channels_of_ome_tiff_are_channels(tmp_path, axes, options, monkeypatch):
    stack = noise(*STACK[axes]).astype(np.uint16) * 16
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, stack, metadata={"axes": axes}, **options)
    monkeypatch.setattr(tiff, "IMAGES_AT_ONCE", 4)
    data = from_path(path, size=32)
    expected = as_images(stack, axes)
    assert data.bits == 12
    assert np.array_equal(data[:], scaled_bytes(expected, 4095))
    assert data.files == tuple(f"a.ome.tif[{k}]" for k in range(len(expected)))


@pytest.mark.parametrize("axes", ["TZCYX", "ZCYX"])
def test_channels_of_imagej_stacks_are_channels(tmp_path, axes):
    stack = noise(*STACK[axes])
    tifffile.imwrite(tmp_path / "a.tif", stack, imagej=True, metadata={"axes": axes})
    data = from_path(tmp_path / "a.tif", size=32)
    assert np.array_equal(data[:], as_images(stack, axes))


def test_colours_and_floats_of_stacks(tmp_path):
    colour = noise(4, 32, 32, 3)
    metadata = {"axes": "TYXS"}
    tifffile.imwrite(tmp_path / "a.ome.tif", colour, metadata=metadata, photometric="rgb")
    assert np.array_equal(from_path(tmp_path / "a.ome.tif", size=32)[:], colour)
    floats = (noise(3, 2, 32, 32) / 255).astype(np.float32)
    tifffile.imwrite(tmp_path / "b.ome.tif", floats, metadata={"axes": "TCYX"})
    data = from_path(tmp_path / "b.ome.tif", size=32)
    assert np.array_equal(data[:], np.rint(as_images(floats, "TCYX") * 255))
    assert data.bits is None


def test_files_of_many_channels_are_read_alone_and_in_folders(tmp_path):
    images = noise(3, 48, 40, 5)
    for k, image in enumerate(images):
        options = {"photometric": "minisblack", "planarconfig": "contig"}
        tifffile.imwrite(tmp_path / f"{k}.tif", image, **options)
    data = from_path(tmp_path, size=40)
    assert data.files == ("0.tif", "1.tif", "2.tif")
    assert np.array_equal(data[:], images[:, 4:44])
    grey = from_path(tmp_path / "0.tif", min_images=1)
    assert grey.shape == (64, 64, 5)
    with pytest.raises(DataError, check=about(tmp_path, 0)):
        from_path(tmp_path, channels=1)
    tifffile.imwrite(tmp_path / "3.tif", images[0, ..., :2], planarconfig="separate", **{})
    Image.fromarray(images[0, ..., 0]).save(tmp_path / "4.png")
    with pytest.raises(DataError, check=about(tmp_path)):
        from_path(tmp_path)


def test_a_model_of_two_channels_encodes_another_stack(tmp_path):
    for name in "ab":
        stack = noise(6, 2, 32, 32, seed=ord(name))
        tifffile.imwrite(tmp_path / f"{name}.ome.tif", stack, metadata={"axes": "TCYX"})
    options = {"steps": 2, "batch": 4, "latents": 2, "progress": False}
    fleet = uw.train("vae", tmp_path / "a.ome.tif", size=32, **options)
    assert fleet[0].shape == (32, 32, 2)
    codes = uw.encode(fleet[0], tmp_path / "b.ome.tif", progress=False)
    assert codes["file"].tolist() == [f"b.ome.tif[{k}]" for k in range(6)]
    save_pages(tmp_path / "grey.tif", noise(3, 32, 32))
    with pytest.raises(UnweaveError):
        uw.encode(fleet[0], tmp_path / "grey.tif", progress=False)


def test_a_missing_library_is_an_error_with_its_command(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    path = tmp_path / "images" / "a.ome.tif"
    tifffile.imwrite(path, noise(3, 2, 32, 32), metadata={"axes": "TCYX"})
    monkeypatch.setitem(sys.modules, "tifffile", None)
    for source in (path, path.parent):
        with pytest.raises(UnweaveError, match=r"pip install 'unweave\[tiff\]'") as raised:
            from_path(source)
        assert "a.ome.tif" in str(raised.value)
    options = {"photometric": "minisblack", "planarconfig": "contig"}
    monkeypatch.undo()
    tifffile.imwrite(path, noise(32, 32, 5), **options)
    save_pages(path.parent / "b.tif", noise(2, 32, 32))
    monkeypatch.setitem(sys.modules, "tifffile", None)
    (reason,) = from_path(path.parent).skipped
    assert "pip install 'unweave[tiff]'" in reason


def description(path):
    with tifffile.TiffFile(path) as file:
        return file.pages[0].description


def with_description(path, text):
    with tifffile.TiffFile(path) as file:
        pages = file.asarray()
    options = {"metadata": None, "description": text.encode(), "photometric": "minisblack"}
    tifffile.imwrite(path, pages, **options)


BOMB = '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><OME>&b;</OME>'


def test_xml_that_defines_entities_is_not_parsed(tmp_path, monkeypatch):
    path = save_pages(tmp_path / "a.ome.tif", noise(4, 32, 32))
    with_description(path, BOMB)
    from xml.etree import ElementTree

    def refuse(*args):
        raise AssertionError("the XML was parsed")

    monkeypatch.setattr(ElementTree, "fromstring", refuse)
    with pytest.raises(DataError, match="its XML defines entities"):
        from_path(path)


def test_metadata_cannot_name_other_files(tmp_path):
    stack = noise(2, 2, 32, 32)
    for name in ("a", "secret"):
        tifffile.imwrite(tmp_path / f"{name}.ome.tif", stack, metadata={"axes": "TCYX"})
    path = tmp_path / "a.ome.tif"
    with_description(path, description(path))
    uuid = description(tmp_path / "secret.ome.tif").partition('UUID="')[2].partition('"')[0]
    name = f'><UUID FileName="secret.ome.tif">{uuid}</UUID></TiffData></Pixels>'
    foreign = description(path).replace("/></Pixels>", name)
    assert "secret" in foreign
    with_description(path, foreign)
    opened = []

    def note(event, arguments):
        if event == "open" and active:
            opened.append(str(arguments[0]))

    active = True
    sys.addaudithook(note)
    try:
        from_path(path, min_images=1)
    except DataError:
        pass
    finally:
        active = False
    assert any("a.ome.tif" in name for name in opened)
    assert not any("secret" in name for name in opened)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["pages", "ome", "imagej"])
def test_truncated_files_are_skipped_or_errors(tmp_path, kind, share):
    path = tmp_path / "a.tif"
    if kind == "pages":
        save_pages(path, noise(6, 32, 32))
    else:
        options = {"imagej": True} if kind == "imagej" else {"ome": True}
        tifffile.imwrite(path, noise(6, 2, 32, 32), metadata={"axes": "TCYX"}, **options)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    try:
        assert from_path(path).skipped
    except DataError:
        assert share < 0.9 or kind != "pages"
    Image.fromarray(noise(64, 64)).save(tmp_path / "b.png")
    Image.fromarray(noise(64, 64)).save(tmp_path / "c.png")
    assert {"b.png", "c.png"} <= {*from_path(tmp_path, channels=1).files} or kind != "pages"


def test_huge_claims_are_rejected(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, noise(2, 2, 32, 32), imagej=True, metadata={"axes": "TCYX"})
    text = description(path)
    for images, frames in ((4, 4_000_000), (4_000_000_000, 2_000_000_000)):
        claims = text.replace("images=4", f"images={images}").replace("es=2", f"es={frames}")
        with_description(path, claims)
        assert len(from_path(path)) <= 4
