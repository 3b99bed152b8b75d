"""OMES: all pairs in plain loops, exact values, and invalid inputs."""

from itertools import permutations

import numpy as np
import pytest

from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.arguments import numpy_rng
from unweave.metrics import MetricError, omes
from unweave.metrics.base import table
from unweave.metrics.omes import pairs_that_differ

SIZES = (3, 4, 5)


def grid(*sizes):
    return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), 1)


def textbook(codes, factors, alpha, pooling):
    """The authors' definition, from every pair of rows that differs in one factor only."""
    num_factors, d = factors.shape[1], codes.shape[1]
    association = np.zeros((d, num_factors))
    for k in range(num_factors):
        pairs = [
            (a, b)
            for a, b in permutations(range(len(factors)), 2)
            if (factors[a] != factors[b]).nonzero()[0].tolist() == [k]
        ]
        for j in range(d):
            x, y = (np.array([codes[pair[side], j] for pair in pairs]) for side in (0, 1))
            association[j, k] = 1 - abs(np.corrcoef(x, y)[0, 1])
    scores = []
    for k in range(num_factors):
        overlaps, encodings = [], []
        for j in range(d):
            only_k = np.zeros(num_factors)
            only_k[k] = 1
            overlaps.append(1 - np.abs(only_k - association[j]).mean())
            only_j = np.zeros(d)
            only_j[j] = 1
            encodings.append(1 - np.abs(only_j - association[:, k]).mean())
        own = association[:, k]
        if pooling == "max":
            terms = [max(np.array(part) * own) for part in (overlaps, encodings)]
        else:
            terms = [np.average(part * own, weights=own) for part in (overlaps, encodings)]
        scores.append(alpha * terms[0] + (1 - alpha) * terms[1])
    return np.mean(scores)


@pytest.fixture(scope="module")
def mixed():
    """Codes of which none is perfect, and one follows two factors."""
    factors = grid(*SIZES)
    turn = np.array([[1.0, 0.3, 0.0, 0.2], [0.0, 1.0, 0.1, 0.0], [0.4, 0.0, 1.0, 0.0]])
    noise = np.random.default_rng(0).normal(0, 0.3, (len(factors), 4))
    return factors @ turn + noise, factors


@pytest.mark.parametrize("pooling", ["average", "max"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_all_pairs_in_plain_loops(mixed, alpha, pooling):
    found = omes(*mixed, alpha=alpha, pooling=pooling)["omes"]
    assert found == pytest.approx(textbook(*mixed, alpha, pooling), abs=0.005)


def test_the_two_terms(mixed):
    found = omes(*mixed)
    assert found["overlap"] == omes(*mixed, alpha=1)["omes"]
    assert found["multiple_encoding"] == omes(*mixed, alpha=0)["omes"]
    assert found["omes"] == (found["overlap"] + found["multiple_encoding"]) / 2
    assert found["active"] == 4


def test_perfect_codes_score_less_than_1_by_the_number_of_values():
    """Two different values of s are correlated by -1 / (s - 1)."""
    factors = grid(*SIZES)
    own = 1 - 1 / (np.array(SIZES) - 1)
    expected = np.mean(own * (1 - (1 - own) / 3))
    assert omes(factors, factors)["omes"] == pytest.approx(expected, abs=0.005)
    assert omes(factors, factors)["omes"] == pytest.approx(
        textbook(factors, factors, 0.5, "average"), abs=0.005
    )


def test_two_values_determine_each_other():
    factors = grid(2, 2, 2)
    assert omes(factors, factors)["omes"] == pytest.approx(0, abs=1e-9)


def test_copies_lower_the_multiple_encoding_score_only():
    factors = grid(6, 6)
    once, twice = (omes(np.tile(factors, (1, times)), factors) for times in (1, 2))
    assert twice["overlap"] == pytest.approx(once["overlap"], abs=0.01)
    assert twice["multiple_encoding"] < once["multiple_encoding"] - 0.1


def test_noise_scores_the_share_of_one_factor_and_of_one_code():
    factors = grid(6, 6, 6, 6)
    noise = np.random.default_rng(0).normal(size=(len(factors), 10))
    found = omes(noise, factors)
    assert found["overlap"] == pytest.approx(1 / 4, abs=0.02)
    assert found["multiple_encoding"] == pytest.approx(1 / 10, abs=0.02)


def test_inactive_codes_are_ignored(mixed):
    codes, factors = mixed
    passive = 1e-3 * np.random.default_rng(1).normal(size=(len(codes), 3))
    assert omes(np.hstack([codes, passive]), factors) == omes(codes, factors)
    assert set(omes(passive, factors).values()) == {0.0}


def test_pairs_differ_in_one_factor_and_are_uniform():
    factors = np.repeat(grid(*SIZES), 2, axis=0)  # several rows with the same factors
    rows = table(np.zeros(len(factors)), factors)
    for factor in range(3):
        first, second = pairs_that_differ(rows, factor, 20_000, numpy_rng(0))
        differ = factors[first] != factors[second]
        assert differ[:, factor].all()
        assert not np.delete(differ, factor, 1).any()
        counts = np.bincount(second, minlength=len(factors))
        assert counts.min() > 0.6 * counts.mean()
        assert counts.max() < 1.4 * counts.mean()


def test_invalid_inputs(mixed):
    with pytest.raises(MetricError, check=about("alpha", 1.5)):
        omes(*mixed, alpha=1.5)
    with pytest.raises(UnknownNameError, check=about("pooling", "median")):
        omes(*mixed, pooling="median")
    with pytest.raises(UnweaveError, match="pairs"):
        omes(*mixed, pairs=1)
    factors = np.random.default_rng(0).integers(0, 1000, (50, 3))
    with pytest.raises(MetricError):
        omes(factors, factors)
