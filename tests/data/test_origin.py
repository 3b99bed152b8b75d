"""A data set can be made again from what it remembers of itself."""

import json

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from unweave.data.origin import rebuild
from unweave.errors import DataError


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


def test_own_images_are_known_by_their_pixels(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(3):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(
            tmp_path / f"{k}.png"
        )
    data = uw.data.load(tmp_path, size=32)
    again = rebuild(through_json(data.origin))
    np.testing.assert_array_equal(again[:], data[:])
    Image.new("RGB", (40, 40)).save(tmp_path / "1.png")
    with pytest.raises(DataError, match="not those that the model was trained on"):
        rebuild(data.origin)


def test_arrays_are_told_apart_but_cannot_be_made_again():
    images = np.random.default_rng(0).integers(0, 256, (4, 32, 32), dtype=np.uint8)
    one, same, other = (uw.data.load(a) for a in (images, images.copy(), images[::-1]))
    assert one.origin == same.origin
    assert one.origin != other.origin
    with pytest.raises(DataError, match="an array, which is not kept"):
        rebuild(one.origin)
