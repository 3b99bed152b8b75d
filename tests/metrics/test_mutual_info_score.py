"""The mutual-information score against the reference and scikit-learn's mutual information."""

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score as information

from unweave.metrics import mutual_info_score


def score(codes):
    return mutual_info_score(codes)["mutual_info_score"]


def test_equals_the_reference(golden):
    expected = golden.fixed["mutual_info_score"]
    assert score(golden.train[0]) == pytest.approx(expected, abs=1e-6)


def test_equals_the_mean_over_pairs():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4))
    binned = [np.digitize(z, np.histogram(z, 20)[1][:-1]) for z in codes.T]
    pairs = [(i, j) for i in range(4) for j in range(i)]
    expected = np.mean([information(binned[i], binned[j]) for i, j in pairs])
    assert score(codes) == pytest.approx(expected, abs=1e-12)


def test_degenerate_codes():
    code = np.repeat(np.arange(20.0), 10)
    assert score(code) == 0
    assert score(np.column_stack([code, np.ones(200)])) == 0
    assert score(np.column_stack([code, -3 * code])) == pytest.approx(np.log(20))
