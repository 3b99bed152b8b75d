"""Integer arguments."""

import numpy as np
import pytest

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.io.arguments import MAX_SEED, check_count, check_seed, numpy_rng


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), np.uint8(7), MAX_SEED])
def test_seeds(seed):
    assert check_seed(seed) == seed
    assert type(check_seed(seed)) is int
    assert numpy_rng(seed).random() == np.random.default_rng(int(seed)).random()


@pytest.mark.parametrize("bad", [-1, 2**63, 10**30, 0.5, float("nan"), "1", None, True])
def test_invalid_seeds_are_errors(bad):
    with pytest.raises(UnweaveError, check=about("seed")) as raised:
        check_seed(bad)
    assert raised.value.value is bad


def test_counts_must_be_within_their_bounds():
    assert [check_count("columns", value, 1, 3) for value in (1, 3)] == [1, 3]
    for bad in (0, 4, 10**5000, -(10**5000)):
        with pytest.raises(UnweaveError, check=about("columns", bad)):
            check_count("columns", bad, 1, 3)
