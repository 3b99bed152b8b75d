"""Whole numbers that users give."""

import numpy as np
import pytest

from unweave.errors import UnweaveError
from unweave.io.arguments import LARGEST_SEED, check_count, check_seed, numpy_rng


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), np.uint8(7), LARGEST_SEED])
def test_seeds(seed):
    assert check_seed(seed) == seed
    assert type(check_seed(seed)) is int
    assert numpy_rng(seed).random() == np.random.default_rng(int(seed)).random()


@pytest.mark.parametrize("bad", [-1, 2**63, 10**30, 0.5, float("nan"), "1", None, True])
def test_what_is_no_seed(bad):
    with pytest.raises(UnweaveError, match=r"seed must be a whole number from 0 to 2\*\*63 - 1"):
        check_seed(bad)


def test_counts_lie_within_their_bounds():
    assert [check_count("columns", value, 1, 3) for value in (1, 3)] == [1, 3]
    for bad in (0, 4, 10**5000, -(10**5000)):
        with pytest.raises(UnweaveError, match="columns must be a whole number from 1 to 3"):
            check_count("columns", bad, 1, 3)
