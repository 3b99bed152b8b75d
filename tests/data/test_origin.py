"""A data set can be made again from what it remembers of itself."""

import json

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.data.origin import check_origin, rebuild
from unweave.errors import DataError, DownloadError, UnweaveError


def through_json(origin):
    return json.loads(json.dumps(origin))


def test_every_step_is_remembered_and_repeated():
    data = uw.data.load("color-dsprites").slice(scale=[0, 5], orientation=range(0, 40, 8))
    data = data.correlate("posX", "posY", 0.5).leave_out(shape=1, posX=[0, 1]).only(scale=1)
    again = rebuild(through_json(data.origin))
    assert again.grid.sizes == data.grid.sizes
    np.testing.assert_array_equal(again.weights, data.weights)
    np.testing.assert_array_equal(again.images([5, 7], seed=2), data.images([5, 7], seed=2))
    assert len(data.origin) == 5


def test_own_images_are_known_by_their_pixels_and_factors_not_by_their_place(tmp_path):
    rng = np.random.default_rng(0)
    first = tmp_path / "first"
    first.mkdir()
    for k in range(4):
        Image.fromarray(rng.integers(0, 256, (40, 40), dtype=np.uint8)).save(first / f"{k}.png")
    data = uw.data.load(first, size=32, name="mine")
    moved = first.rename(tmp_path / "moved")
    again = rebuild(through_json(data.origin), moved, size=32, name="mine")
    np.testing.assert_array_equal(again[:], data[:])
    assert again.origin == data.origin
    tables = [{"a": [0, 0, 1, 1]}, {"a": [0, 1, 1, 0]}, {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1]}]
    origins = [str(uw.data.load(moved, size=32, factors=table).origin) for table in tables]
    assert len(set(origins)) == 3
    Image.new("L", (40, 40)).save(moved / "1.png")
    with pytest.raises(DataError, match="not the images that 'mine' had"):
        rebuild(data.origin, moved, size=32)


def test_a_picture_counts_by_its_content(tmp_path):
    for name, level in [("a.png", 10), ("b.png", 10), ("c.png", 20)]:
        Image.new("RGB", (300, 300), (level, 0, 0)).save(tmp_path / name)
    a, b, c = (
        uw.data.load("scream-dsprites", picture=tmp_path / name).origin
        for name in ("a.png", "b.png", "c.png")
    )
    assert a == b != c


def test_arrays_are_told_apart_but_cannot_be_made_again():
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32), dtype=np.uint8)
    one, same, other = (uw.data.load(a) for a in (images, images.copy(), images[::-1]))
    assert one.origin == same.origin
    assert one.origin != other.origin
    with pytest.raises(DataError, match="say where they are"):
        rebuild(one.origin)


@pytest.mark.parametrize(
    "origin",
    [
        None,
        7,
        "load",
        [7],
        [[]],
        [["load"]],
        [["load", "dsprites"]],
        [["load", "dsprites", []]],
        [["load", ["dsprites"], {}]],
        [["load", "../private", {}]],
        [["load", "dsprites", {"packed": 1}]],
        [["load", "dsprites_noise", {"base": "rooms3d"}]],
        [["load", "celeba", {"size": "64"}]],
        [["own", "mine"]],
        [["own", 7, "0123456789abcdef"]],
        [["slice", {"shape": 0}]],
        [["load", "cars3d", {}], ["slice", {"shape": 0}]],
        [["load", "cars3d", {}], ["__class__", 3]],
    ],
)
def test_what_is_no_origin_is_refused_before_anything_is_loaded(origin):
    with pytest.raises(UnweaveError) as caught:
        check_origin(origin)
    assert not isinstance(caught.value, DownloadError)
    with pytest.raises(UnweaveError) as caught:
        rebuild(origin)
    assert not isinstance(caught.value, DownloadError)


def test_no_path_is_opened_because_an_origin_names_it(tmp_path):
    with pytest.raises(DataError, match="load celeba yourself with that path"):
        rebuild([["load", "celeba", {"path": str(tmp_path)}]])
    with pytest.raises(DataError, match="load scream_dsprites yourself with that picture"):
        rebuild([["load", "scream_dsprites", {"picture": "/dev/zero"}]])
    with pytest.raises(DataError, match="yourself with that path"):
        rebuild([["load", "dsprites_modified", {"path": "/dev/zero"}]])
    with pytest.raises(DataError, match="is not at hand"):
        rebuild([["load", "dsprites_modified", {"path": "file 0123456789abcdef"}]])
