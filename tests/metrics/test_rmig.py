"""RMIG; the parts shared with JEMMIG are tested there."""

import numpy as np
import pytest

from unweave.metrics import rmig


def test_nats_are_the_gap_before_division():
    factors = np.indices((4, 8)).reshape(2, -1).T
    scores = rmig(factors, factors)
    assert scores["rmig"] == pytest.approx(1)
    assert scores["rmig_nats"] == pytest.approx((np.log(4) + np.log(8)) / 2)


def test_a_duplicated_code_leaves_no_gap():
    factors = np.indices((4, 8)).reshape(2, -1).T
    assert rmig(factors[:, [0, 0, 1]], factors)["rmig"] == pytest.approx(0.5)


def test_drawn_rows_take_their_log_variances_along():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (10_001, 2))
    logvars = np.where(factors > 1, -6.0, 1.0)
    drawn = np.random.default_rng(3).integers(10_001, size=10_000)
    expected = rmig(factors[drawn] - 1.5, factors[drawn], logvars=logvars[drawn])
    assert rmig(factors - 1.5, factors, seed=3, logvars=logvars) == expected
