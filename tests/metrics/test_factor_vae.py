"""The FactorVAE score."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, factor_vae, vote_matrix

SIZES = (3, 6, 10, 8, 8)


def test_golden(golden):
    reference = np.array([scores["factor_vae"] for scores in golden.sampled])
    found = [factor_vae(golden.codes, golden.factors, seed)["factor_vae"] for seed in range(3)]
    # 5,000 votes have a standard error of 0.006 at 0.8.
    assert abs(np.mean(found) - reference.mean()) < 0.01


def textbook(codes, sizes, generator, train=2000, test=2000, batch=64):
    """Protocol of the reference, one vote at a time."""
    variances = codes[generator.integers(len(codes), size=10_000)].var(0, ddof=1)
    active = np.sqrt(variances) >= 0.05
    votes = np.zeros((2, len(sizes), active.sum()), int)
    for number in range(train + test):
        factor = generator.integers(len(sizes))
        factors = generator.integers(0, sizes, (batch, len(sizes)))
        factors[:, factor] = factors[0, factor]
        local = codes[np.ravel_multi_index(tuple(factors.T), sizes)].var(0, ddof=1)
        vote = np.argmin(local[active] / variances[active])
        votes[int(number >= train), factor, vote] += 1
    majority = votes[0].argmax(0)
    return votes[1][majority, np.arange(votes.shape[2])].sum() / votes[1].sum()


def test_textbook(golden):
    noisy = golden.codes + np.random.default_rng(1).normal(0, 0.8, golden.codes.shape)
    expected = textbook(noisy, SIZES, np.random.default_rng(0))
    assert abs(factor_vae(noisy, golden.factors)["factor_vae"] - expected) < 0.04


def test_vote_matrix_gives_the_score(golden):
    votes = vote_matrix(golden.codes, golden.factors, seed=3)
    scores = factor_vae(golden.codes, golden.factors, seed=3)
    assert votes.shape == (10, 5)
    assert votes.sum() == 10_000
    assert votes.max(1).sum() / votes.sum() == scores["train_accuracy"]
    assert (golden.codes.std(0)[votes.sum(1) > 0] >= 0.05).all()


def test_votes_identify_the_code_of_each_factor():
    factors = np.random.default_rng(0).integers(0, 5, (3000, 3))
    codes = factors[:, [2, 0, 1]] + np.random.default_rng(1).normal(0, 0.1, (3000, 3))
    assert vote_matrix(codes, factors).argmax(1).tolist() == [2, 0, 1]


def test_no_active_code():
    factors = np.random.default_rng(0).integers(0, 5, (300, 3))
    assert factor_vae(0.01 * factors, factors) == {
        "factor_vae": 0,
        "train_accuracy": 0,
        "active": 0,
    }
    assert not vote_matrix(0.01 * factors, factors).any()


def test_without_threshold_constant_codes_are_still_left_out():
    factors = np.random.default_rng(0).integers(0, 5, (300, 2))
    codes = np.concatenate([0.01 * factors, np.ones((300, 1))], 1)
    scores = factor_vae(codes, factors, threshold=0)
    assert scores["active"] == 2
    assert scores["factor_vae"] == 1


def test_too_sparse():
    with pytest.raises(MetricError, check=about("factor 0", 50)):
        factor_vae(np.arange(50.0), np.arange(50))
