"""Vector-valued latents: exact properties of one principal component per group."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA

import unweave as uw
from tests.raising import about
from unweave.metrics import MetricError, grouped


@pytest.fixture(scope="module")
def codes():
    return np.random.default_rng(0).normal(size=(200, 6)) * [1, 5, 2, 0.1, 3, 1] + 7


def test_groups_of_one_latent_are_the_centred_codes(codes):
    centred = codes - codes.mean(0)
    assert_allclose(grouped(codes, [[k] for k in range(6)]), centred, atol=1e-12)
    assert_allclose(grouped(codes, 6), centred, atol=1e-12)


def test_components_are_those_of_scikit_learn(codes):
    groups = [[0, 3, 5], [1, 2]]
    for column, chosen in zip(grouped(codes, groups).T, groups, strict=True):
        expected = PCA(1).fit_transform(codes[:, chosen])[:, 0]
        assert_allclose(abs(column), abs(expected), atol=1e-9)


def test_a_rotation_within_a_group_changes_nothing_but_the_sign(codes):
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))
    turned = np.hstack([codes[:, :3] @ turn, codes[:, 3:]])
    before, after = grouped(codes, 2), grouped(turned, 2)
    assert_allclose(abs(after), abs(before), atol=1e-9)
    assert_allclose(after[:, 1], before[:, 1], atol=1e-9)


def test_a_factor_along_any_direction_is_recovered():
    factors = np.indices((4, 5)).reshape(2, -1).T.astype(float)
    directions = np.array([[0.6, 0.8, 0.0], [0.0, -0.6, 0.8]])
    found = grouped(factors[:, :, None] * directions)
    assert_allclose(found, factors - factors.mean(0), atol=1e-12)  # the largest weight is positive
    assert uw.metrics.mig(found, factors) == uw.metrics.mig(factors, factors)


def test_vectors_groups_and_lists_agree(codes):
    expected = grouped(codes, 3)
    assert expected.shape == (200, 3)
    assert (grouped(codes, [[0, 1], [2, 3], [4, 5]]) == expected).all()
    assert (grouped(codes.reshape(200, 3, 2)) == expected).all()
    assert (grouped(torch.tensor(codes).reshape(200, 3, 2)) == expected).all()
    assert (grouped(codes, [[4, 5], [0, 1]]) == expected[:, [2, 0]]).all()


def test_constant_groups_are_zeros(codes):
    constant = np.hstack([codes[:, :2], np.full((200, 2), 3.0)])
    assert_allclose(grouped(constant, 2)[:, 1], 0, atol=1e-12)


@pytest.mark.parametrize(
    "groups", [4, 0, [], [[]], [[0], []], [[0, 0]], [[0], [0]], [[6]], [[-1]], [[0.5]], [["a"]]]
)
def test_invalid_groups(codes, groups):
    with pytest.raises(MetricError, check=about("groups", groups)):
        grouped(codes, groups)


def test_invalid_codes(codes):
    with pytest.raises(MetricError, check=about("groups")):
        grouped(codes)
    broken = codes.copy()
    broken[3, 1] = np.nan
    with pytest.raises(MetricError, check=about("codes", (3, 1))):
        grouped(broken, 2)
