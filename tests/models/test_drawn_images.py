"""Which images models are compared on."""

import numpy as np
import pytest

import unweave as uw
from unweave.analysis.latents import SelectionError
from unweave.models.drawn_images import drawn_rows


@pytest.fixture(scope="module")
def data():
    return uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)


def test_fewer_rows_are_the_first_of_more(data):
    more, fewer = drawn_rows(data, 100, 3), drawn_rows(data, 10, 3)
    np.testing.assert_array_equal(more[:10], fewer)
    assert len(np.unique(more)) == 100
    assert len(drawn_rows(data, 10**6, 3)) == len(data)
    with pytest.raises(SelectionError, match="at least 2"):
        drawn_rows(data, 1, 0)
