"""Active units by both rules, at their thresholds."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, active_units


def codes_with_variances(variances):
    """±√variance, half and half: the population variance is exact."""
    return np.outer(np.tile([-1.0, 1.0], 500), np.sqrt(variances))


def test_burdas_rule_is_variance_above_a_hundredth():
    scores = active_units(codes_with_variances([1, 0.0101, 0.0099, 1e-6, 0]))
    assert scores["active_units"] == 2
    assert scores["active_fraction"] == 0.4


def test_the_rule_of_the_factor_vae_score_is_a_standard_deviation_of_a_twentieth():
    scores = active_units(codes_with_variances([1, 0.0099, 0.051**2, 0.049**2, 0]))
    assert scores["active_units_std"] == 3


def test_the_threshold_is_an_option():
    codes = codes_with_variances([1, 0.5, 0.1])
    assert active_units(codes, variance=0.2)["active_units"] == 2


def test_all_rows_count_whatever_the_seed():
    codes = np.zeros((20_000, 1))
    codes[0] = 1e3
    assert {active_units(codes, seed=seed)["active_units"] for seed in range(5)} == {1.0}


def test_one_row_has_no_active_unit_and_nan_is_an_error():
    assert active_units([[1.0, 2.0]])["active_units_std"] == 0
    with pytest.raises(MetricError, check=about("codes", (0, 0))):
        active_units([[np.nan]])
