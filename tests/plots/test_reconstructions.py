"""Reconstructions stand below their images; samples come from the prior."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnweaveError
from unweave.random import Stream


def test_images_are_above_their_reconstructions(model, sprites, shown):
    sheet = uw.show.reconstructions(model, sprites, indices=[4, 300, 17], columns=2)
    assert [len(row) for row in sheet.boxes] == [2, 2, 1, 1]
    images = sprites.images([4, 300, 17])
    decoded = shown(model.decode(model.encode(images)[0]))
    for k, (row, column) in enumerate([(0, 0), (0, 1), (2, 0)]):
        np.testing.assert_array_equal(sheet.part(row, column), shown(images)[k])
        np.testing.assert_array_equal(sheet.part(row + 1, column), decoded[k])


def test_images_are_sampled_without_replacement_by_seed(model, sprites):
    sheet = uw.show.reconstructions(model, sprites, count=6, seed=3)
    pictures = {sheet.part(0, k).tobytes() for k in range(6)}
    assert len(pictures) == 6
    again, other = (uw.show.reconstructions(model, sprites, count=6, seed=s) for s in (3, 4))
    np.testing.assert_array_equal(np.asarray(sheet), np.asarray(again))
    assert sheet.size == other.size
    assert (np.asarray(sheet) != np.asarray(other)).any()


def test_samples_are_decoded_from_the_prior(model, shown):
    sheet = uw.show.samples(model, 5, seed=9, columns=3)
    codes = Stream(9, "samples").normal(5, 4).numpy()
    decoded = shown(model.decode(codes))
    assert [len(row) for row in sheet.boxes] == [3, 2]
    np.testing.assert_array_equal(sheet.part(0, 1), decoded[1])
    np.testing.assert_array_equal(sheet.part(1, 1), decoded[4])
    more = uw.show.samples(model, 9, seed=9, columns=3)
    np.testing.assert_array_equal(more.part(1, 1), sheet.part(1, 1))
    assert (uw.show.samples(model, 5, seed=8, columns=3).part(0, 1) != decoded[1]).any()


def test_colour_stays_colour():
    data = uw.data.load("color-dsprites").only(shape=0, scale=5, orientation=0, posX=range(4))
    (model,) = uw.train(uw.methods.VAE(), data, steps=1, batch=4, progress=False)
    index = int(data.support[3])
    sheet = uw.show.reconstructions(model, data, indices=[index], seed=5)
    np.testing.assert_array_equal(sheet.part(0, 0), data.images([index], 5)[0])
    assert np.ptp(sheet.part(0, 0).astype(int), axis=-1).max() > 0


def test_invalid_arguments_are_rejected(model, sprites, lost):
    with pytest.raises(DataError, check=about("indices", [3, 400])):
        uw.show.reconstructions(model, sprites, indices=[3, 400])
    with pytest.raises(DataError, check=about("indices", [])):
        uw.show.reconstructions(model, sprites, indices=[])
    with pytest.raises(UnweaveError, match="count"):
        uw.show.reconstructions(model, sprites, count=0)
    with pytest.raises(UnweaveError, match="columns"):
        uw.show.samples(model, columns=0)
    with pytest.raises(UnweaveError, check=about("model", 2)):
        uw.show.samples(lost)
    rows = np.random.default_rng(0).random((9, 4))
    numbers = uw.Unweaver(steps=1, seeds=1, strengths=1, batch=2).fit(rows).model_
    with pytest.raises(UnweaveError, check=about("model", numbers.shape)):
        uw.show.samples(numbers)
