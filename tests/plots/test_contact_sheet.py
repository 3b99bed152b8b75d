"""Contact sheets show each factor in its own row."""

import numpy as np

import unweave as uw
from unweave.data.dataset import Dataset
from unweave.data.stores import Bytes
from unweave.plots.contact_sheet import contact_sheet, traversal


def test_a_traversal_changes_one_factor_from_end_to_end():
    data = uw.data.load("dsprites")
    classes, indices = traversal(data, "posX", 10)
    factors = data.factors(indices)
    assert classes[0] == 0
    assert classes[-1] == 31
    assert len(classes) == 10
    np.testing.assert_array_equal(factors[:, 3], classes)
    assert (factors[:, [0, 1, 2, 4]] == [1, 3, 20, 16]).all()


def test_each_row_of_the_sheet_is_its_factor():
    data = uw.data.load("dsprites")
    sheet = contact_sheet(data, columns=10)
    for row, axis in enumerate(data.grid.axes):
        _, indices = traversal(data, axis.name, 10)
        for column, image in enumerate(data.images(indices)):
            np.testing.assert_array_equal(sheet.part(row, column), image.repeat(3, axis=-1))
    assert [len(row) for row in sheet.boxes] == [3, 6, 10, 10, 10]


def test_colour_and_seed_reach_the_sheet():
    data = uw.data.load("color-dsprites")
    sheet = np.asarray(contact_sheet(data, columns=4, seed=1))
    assert (sheet != np.asarray(contact_sheet(data, columns=4, seed=2))).any()
    _, indices = traversal(data, "scale", 4)
    np.testing.assert_array_equal(contact_sheet(data, 4, 1).part(1, 2), data.images(indices, 1)[2])


def test_without_factors_the_sheet_shows_random_images():
    images = np.random.default_rng(0).integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)
    data = Dataset("mine", Bytes(images))
    sheet = contact_sheet(data, columns=6, seed=3)
    drawn = data.draw(30, seed=3).images
    np.testing.assert_array_equal(sheet.part(2, 4)[::2, ::2], drawn[2 * 6 + 4])


def test_curves_are_drawn_as_lines():
    sheet = contact_sheet(uw.data.load("pendulum"))
    assert (sheet.part(1, 0) < 128).sum() > 50
