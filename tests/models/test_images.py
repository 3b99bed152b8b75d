"""Images for models: their shape, and a sample of a data set."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.analysis.latents import SelectionError
from unweave.models.images import ShapeError, check_shape, sample_rows, shape_mismatch

TAKES = (32, 32, 1)


def test_shape_errors_contain_both_shapes():
    check_shape(TAKES, [32, 32, 1], "images")
    assert shape_mismatch(TAKES, [32, 32, 1], "images") == ""
    with pytest.raises(ShapeError) as caught:
        check_shape(TAKES, [64, 64, 3], "images")
    assert (caught.value.expected, caught.value.found) == (TAKES, (64, 64, 3))
    assert str(caught.value).startswith(shape_mismatch(TAKES, [64, 64, 3], "images"))


def test_models_refuse_arrays_and_data_sets_of_another_shape():
    images = np.zeros((8, 32, 32, 1), np.uint8)
    fleet = uw.train(
        uw.methods.VAE(), uw.data.load(images, size=32), steps=0, latents=2, progress=False
    )
    wide = np.zeros((8, 32, 64, 1), np.uint8)
    for wrong in (wide, wide[0], images[..., 0], images[0, 0, 0, 0], uw.data.load("dsprites")):
        for models in (fleet, fleet[0]):
            with pytest.raises(ShapeError):
                models.encode(wrong)
    assert fleet[0].encode(images[0])[0].shape == (1, 2)


def test_fewer_rows_are_the_first_of_more(sprites):
    more, fewer = sample_rows(sprites, 100, 3), sample_rows(sprites, 10, 3)
    np.testing.assert_array_equal(more[:10], fewer)
    assert len(np.unique(more)) == 100
    assert len(sample_rows(sprites, 10**6, 3)) == len(sprites)
    with pytest.raises(SelectionError, check=about("rows", 1)):
        sample_rows(sprites, 1, 0)
