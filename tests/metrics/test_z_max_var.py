"""Z-max variance: perfect, rotated and noisy codes, and samples that are too sparse."""

import numpy as np
import pytest

from tests.raising import about
from unweave.metrics import MetricError, z_max_var


@pytest.fixture
def grid():
    return np.indices((3, 4, 5)).reshape(3, -1).T.astype(float)


def test_perfect_codes_score_one_and_rotated_codes_less(grid):
    assert z_max_var(grid[:, [2, 0, 1]] * [-1, 2, 3], grid)["z_max_var"] == 1
    standard = (grid - grid.mean(0)) / grid.std(0)
    turned = standard @ [[1, 1, 0], [1, -1, 0], [0, 0, 1]]
    assert z_max_var(turned, grid)["z_max_var"] < 0.9


def test_a_missing_factor_is_guessed(grid):
    """Two of three factors: when the third is varied no code moves, and the vote is for code 0."""
    assert z_max_var(grid[:, :2], grid)["z_max_var"] == pytest.approx(2 / 3, abs=0.02)


def test_votes_follow_the_definition(grid):
    """Votes use batch variance relative to global variance; here code 1 varies more."""
    codes = np.column_stack([grid[:, 0] + grid[:, 1], 100 * grid[:, 2] + 0.1 * grid[:, 0]])
    scores = z_max_var(codes, grid)
    # Codes 0 and 1 are the votes of factors 0, 1 and of factor 2: one of the first two is lost.
    assert scores["z_max_var"] == pytest.approx(2 / 3, abs=0.02)


def test_noise_dominates_votes(grid):
    noise = np.random.default_rng(0).normal(size=(60, 7))
    assert z_max_var(np.hstack([grid, noise]), grid)["z_max_var"] < 0.7


def test_inactive_codes_do_not_vote(grid):
    noise = 0.01 * np.random.default_rng(0).normal(size=(60, 1))
    scores = z_max_var(np.hstack([grid, noise]), grid)
    assert scores == {"z_max_var": 1.0, "train_accuracy": 1.0, "active": 3.0}
    assert z_max_var(np.ones((60, 2)), grid)["z_max_var"] == 0


def test_seed_changes_score_and_sparse_samples_are_rejected(golden):
    codes, factors = golden.codes, golden.factors
    assert z_max_var(codes, factors, seed=1) == z_max_var(codes, factors, seed=1)
    chosen = np.random.default_rng(0).integers(len(codes), size=1000)
    with pytest.raises(MetricError, check=about("factor 0")):
        z_max_var(codes[chosen], factors[chosen])
