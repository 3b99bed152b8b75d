"""dSprites from formulas: published checksums, an independent rasteriser, and the cache."""

import hashlib
import json
import math
import os
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.data import dsprites
from unweave.data.catalog import RENDERED
from unweave.data.export import export
from unweave.errors import DataError

# The sum of all pixels is that of the published images; the digest is of a rendering that agreed
# with 10,000 of 10,000 published images bit for bit.
PIXEL_SUM = 128_328_864
SHA256 = "3a228f4037ef3d42a42588e0e01f1078aa2df13cfa17584e88c95ed9fb5672da"


@pytest.fixture(scope="module")
def data():
    return uw.data.load("dsprites")


def test_images_are_bit_identical_to_the_published_ones(data):
    digest, total = hashlib.sha256(), 0
    for start in range(0, len(data), 40_960):
        rows = data.store.array[start : start + 40_960]
        digest.update(rows.tobytes())
        total += int(np.bitwise_count(rows).sum())
    assert total == PIXEL_SUM
    assert digest.hexdigest() == SHA256


def slow_image(shape, scale, turn, x, y):
    """One image, one pixel at a time, straight from the definition."""

    def angles(count):
        return [2 * math.pi * k / count for k in range(count)]

    if shape == 0:
        outline = [(9.6 * a, 9.6 * b) for a, b in [(-1, -1), (1, -1), (1, 1), (-1, 1)]]
    elif shape == 1:
        outline = [(9.6 * 1.33 * math.cos(t), 9.6 / 1.33 * math.sin(t)) for t in angles(100)]
    else:
        outline = [
            (
                9.6 * math.sin(t) ** 3,
                -19.2
                / 29
                * (13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t))
                - 1.44,
            )
            for t in angles(150)
        ]
    size, theta = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0][scale], 2 * math.pi * turn / 39
    vertices = [
        (
            round(256 * (16 + 32 * x / 31 + size * (math.cos(theta) * u + math.sin(theta) * v))),
            round(256 * (16 + 32 * y / 31 + size * (-math.sin(theta) * u + math.cos(theta) * v))),
        )
        for u, v in outline
    ]
    image = np.zeros((64, 64), dtype=np.uint8)
    for row in range(64):
        centre = 256 * row + 128
        for (x1, y1), (x2, y2) in zip(vertices, vertices[1:] + vertices[:1], strict=True):
            if (y1 >= centre) != (y2 >= centre):
                crossing = x1 + (centre - y1) * (x2 - x1) / (y2 - y1)
                for column in range(64):
                    if 256 * column + 128 < crossing:
                        image[row, column] ^= 255
    return image


def test_images_agree_with_a_pixel_by_pixel_rasteriser(data):
    for index in np.random.default_rng(1).integers(0, len(data), 60):
        expected = slow_image(*data.factors([index])[0])
        np.testing.assert_array_equal(data.images([index])[0, :, :, 0], expected)


def test_index_order_is_that_of_the_published_file(data):
    assert data.grid.names == ("shape", "scale", "orientation", "posX", "posY")
    assert data.grid.sizes == (3, 6, 40, 32, 32)
    shape, scale, turn, x, y = 2, 3, 17, 30, 5
    index = (((shape * 6 + scale) * 40 + turn) * 32 + x) * 32 + y
    assert data.index([[shape, scale, turn, x, y]]).tolist() == [index]
    unturned = data.index([[shape, 2, 0, 9, 9] for shape in range(3)])
    turned_once = data.index([[shape, 2, 39, 9, 9] for shape in range(3)])
    np.testing.assert_array_equal(data.images(unturned), data.images(turned_once))


RENDER = """
import json, re, time
from pathlib import Path
from unweave.data import dsprites
start = time.process_time()
data = dsprites.load()
seconds = time.process_time() - start
# Not ru_maxrss, which begins with what the parent had when it started this process.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps({"seconds": seconds, "peak": peak}))
"""


def render_in(folder):
    environment = {**os.environ, "UNWEAVE_CACHE": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", RENDER], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_rendering_is_fast_and_small_and_cached(tmp_path):
    first = json.loads(render_in(tmp_path).communicate()[0])
    assert first["seconds"] < 60
    assert first["peak"] < 1000
    file = tmp_path / "dsprites" / "bits.npy"
    assert file.stat().st_size < 400e6
    stamp = file.stat().st_mtime_ns
    second = json.loads(render_in(tmp_path).communicate()[0])
    assert second["seconds"] < 1
    assert file.stat().st_mtime_ns == stamp


def test_killing_the_renderer_leaves_no_partial_file(tmp_path, monkeypatch, data):
    process = render_in(tmp_path)
    folder = tmp_path / "dsprites"
    deadline = time.time() + 60
    while not (folder.exists() and any(folder.iterdir())) and time.time() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert not (folder / "bits.npy").exists()
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path))
    again = uw.data.load("dsprites")
    assert sorted(path.name for path in folder.iterdir()) == [".bits.npy.sum", "bits.npy"]
    np.testing.assert_array_equal(again.images([737_279]), data.images([737_279]))


def test_a_truncated_cache_is_rendered_again(tmp_path, monkeypatch, data):
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path))
    file = tmp_path / "dsprites" / "bits.npy"
    file.parent.mkdir()
    start = np.lib.format.open_memmap(file, "w+", np.uint8, data.store.array.shape)
    del start
    os.truncate(file, file.stat().st_size // 2)
    again = uw.data.load("dsprites")
    np.testing.assert_array_equal(again.images([5]), data.images([5]))


def test_wrong_images_in_a_cache_of_version_0_1_are_found(tmp_path, monkeypatch):
    """Caches of unweave 0.1 have no checksums, but the hash of the images is known."""
    monkeypatch.setenv("UNWEAVE_CACHE", str(tmp_path))
    file = tmp_path / "dsprites" / "bits.npy"
    file.parent.mkdir()
    np.lib.format.open_memmap(file, "w+", np.uint8, dsprites.PACKED_SHAPE)
    monkeypatch.setattr(dsprites, "render", lambda *pose: 7)  # this is quicker
    assert uw.data.load("dsprites").store.array[300_000].tolist() == [7] * 512


def test_the_digest_in_the_catalogue_is_that_of_the_images(data, cache):
    with (cache / "dsprites" / "bits.npy").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == RENDERED["dsprites/bits.npy"]


def test_the_published_file_is_read_and_other_orders_are_rejected(tmp_path, data):
    """Write a file of the published layout and read it back; then one in another order."""
    path = export(data, tmp_path / "dsprites.npz")
    read = uw.data.load("dsprites", path=path)
    for start in range(0, len(data), 61_440):
        part = slice(start, start + 61_440)
        np.testing.assert_array_equal(read.store.array[part], data.store.array[part])
    classes = read.factors(np.arange(len(read)))
    shuffled = tmp_path / "shuffled.npz"
    np.savez(shuffled, latents_classes=np.hstack([classes[:, :1] * 0, classes[::-1]]))
    with pytest.raises(DataError, check=about(shuffled, None)):
        uw.data.load("dsprites", path=shuffled)


def claiming(path, shape, descr="<i8"):
    """Write a file in the published layout whose classes claim a shape."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("latents_classes.npy", "w") as file:
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(file, header)
        file.write(bytes(1000))
    return path


@pytest.mark.parametrize("shape", [(1 << 45, 6), (1 << 62, 1 << 62), (737_280, 6), (0,)])
def test_headers_that_claim_terabytes_raise_a_one_line_error(tmp_path, shape):
    with pytest.raises(DataError, check=about(tmp_path / "a.npz", None)):
        uw.data.load("dsprites", path=claiming(tmp_path / "a.npz", shape))
