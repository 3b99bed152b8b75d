"""Codes of several models: shapes and informative latents."""

import numpy as np
import pytest

from tests.raising import about
from unweave.analysis.latents import Latents, SelectionError


def test_kl_is_computed_from_log_variances():
    means = np.array([[[0.0, 2.0, 0.1], [0.0, -2.0, -0.1]]])
    latents = Latents(means, np.log(np.array([[[1.0, 0.5, 1.0], [1.0, 0.5, 1.0]]])))
    expected = [0, (4 + 0.5 + np.log(2) - 1) / 2, 0.005]
    np.testing.assert_allclose(latents.kl[0], expected, atol=1e-12)
    assert latents.informative.tolist() == [[False, True, False]]


def test_threshold_of_the_paper_is_the_default():
    codes = np.random.default_rng(0).normal(size=(1, 50, 3))
    kl = [[0.01, 0.0101, 0.5]]
    assert Latents(codes, kl=kl).informative.tolist() == [[False, True, True]]
    assert Latents(codes, kl=kl, informative_kl=0.1).informative.tolist() == [[False, False, True]]


def test_standardised_codes_have_mean_0_and_variance_1():
    codes = np.random.default_rng(0).gamma(2.0, size=(5, 400, 4))
    codes[0, :, 1] = 4.2
    latents = Latents(codes)
    for codes in (latents.standardised, latents.ranked):
        np.testing.assert_allclose(codes.mean(1), 0, atol=1e-12)
        deviation = np.ones((5, 4))
        deviation[0, 1] = 0
        np.testing.assert_allclose(codes.std(1), deviation, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "subject", "value"),
    [
        ({"means": np.zeros((3, 4))}, "means", [3, 4]),
        ({"means": np.zeros((2, 9, 4)), "kl": np.zeros((2, 3))}, "kl", [2, 3]),
        ({"means": np.zeros((2, 9, 4)), "logvars": np.zeros((2, 9, 3))}, "logvars", [2, 9, 3]),
        ({"means": np.zeros((2, 9, 4)), "runs": ["a"]}, "runs", 1),
    ],
)
def test_wrong_shapes_are_named(arguments, subject, value):
    with pytest.raises(SelectionError, check=about(subject, value)):
        Latents(**arguments)
