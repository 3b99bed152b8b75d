"""Maps between models: least squares, and distances with their controls."""

from itertools import permutations, product

import numpy as np
import pytest

from tests.raising import about
from tests.select.planted import rotation
from unweave.analysis.maps import (
    SOLVERS,
    distance_to_orthogonality,
    nearest_signed_permutation,
    random_distances,
)
from unweave.errors import UnknownNameError
from unweave.select import Latents, SelectionError, least_squares_maps, map_distances


def signed_permutation(d, seed):
    rng = np.random.default_rng(seed)
    return np.eye(d)[rng.permutation(d)] * rng.choice([-1, 1], d)[:, None]


def test_maps_transform_codes_of_one_model_into_another():
    z = np.random.default_rng(0).normal(size=(500, 4)) + 0.7
    turn = rotation(4, 1)
    maps = least_squares_maps(Latents(np.stack([z, z @ turn.T, np.full_like(z, np.nan)])))
    np.testing.assert_allclose(maps[0, 1], turn, atol=1e-10)
    np.testing.assert_allclose(maps[1, 0], turn.T, atol=1e-10)
    assert (maps[0, 0] == np.eye(4)).all()
    assert np.isnan(maps[2]).all()
    assert np.isnan(maps[:, 2]).all()


@pytest.mark.parametrize(
    ("d", "mean_l1", "frobenius"), [(10, 0.240, 2.85), (16, 0.201, 3.96), (32, 0.148, 6.19)]
)
def test_random_distances_equal_known_values(d, mean_l1, frobenius):
    assert random_distances(d)["mean_l1"] == pytest.approx(mean_l1, rel=0.03)
    assert random_distances(d)["frobenius"] == pytest.approx(frobenius, rel=0.03)


@pytest.mark.parametrize(
    ("d", "mean_l1", "frobenius"), [(10, 0.204, 2.81), (16, 0.159, 3.74), (32, 0.109, 5.65)]
)
def test_small_maps_without_alignment_have_small_distances(d, mean_l1, frobenius):
    """Uniform entries in ±1/√d, and zeros, which are closer than any rotation in one norm."""
    rng = np.random.default_rng(0)
    drawn = [distance_to_orthogonality(rng.uniform(-1, 1, (d, d)) / np.sqrt(d)) for _ in range(50)]
    assert np.mean([each["mean_l1"] for each in drawn]) == pytest.approx(mean_l1, rel=0.03)
    assert np.mean([each["frobenius"] for each in drawn]) == pytest.approx(frobenius, rel=0.03)
    zeros = distance_to_orthogonality(np.zeros((d, d)))
    assert zeros == pytest.approx({"mean_l1": 1 / d, "frobenius": np.sqrt(d)})
    assert zeros["mean_l1"] < random_distances(d)["mean_l1"]


def test_signed_permutations_have_distance_0_and_random_rotations_near_1():
    d = 6
    maps = np.zeros((3, 3, d, d))
    maps[0, 1], maps[1, 0] = signed_permutation(d, 0), signed_permutation(d, 1)
    maps[0, 2], maps[2, 0] = rotation(d, 0), rotation(d, 1)
    maps[1, 2], maps[2, 1] = rotation(d, 2), np.full((d, d), np.nan)
    table = map_distances(maps).set_index(["from", "to"])
    assert len(table) == 6
    assert (table.loc[[(0, 1), (1, 0)]] == 0).all(axis=None)
    turned = table.loc[[(0, 2), (2, 0), (1, 2)], ["relative_frobenius", "relative_mean_l1"]]
    assert ((turned > 0.75) & (turned < 1.25)).all(axis=None)
    assert table.loc[(2, 1)].isna().all()


def test_distances_are_invariant_to_order_and_sign():
    A = np.random.default_rng(0).normal(size=(5, 5))
    for seed in range(5):
        turned = signed_permutation(5, seed) @ A @ signed_permutation(5, seed + 10)
        assert distance_to_orthogonality(turned) == pytest.approx(distance_to_orthogonality(A))


def test_unused_latents_can_be_ignored():
    A = np.diag([1.0, -1.0, 0.0, 0.0])  # two of four latents are mapped, the others are nothing
    maps = np.stack([[np.eye(4), A], [A, np.eye(4)]])
    used = [[True, True, False, False], [True, True, False, False]]
    row = map_distances(maps, used).iloc[0]
    # Lower bounds with k of d latents in use: (d - k) / d² and √(d - k).
    assert row["mean_l1"] == pytest.approx(2 / 16)
    assert row["frobenius"] == pytest.approx(np.sqrt(2))
    assert (row["used_frobenius"], row["used_mean_l1"], row["latents"]) == (0, 0, 2)
    other = map_distances(maps, [[True, False, False, False], used[1]]).iloc[0]
    assert np.isnan(other["used_frobenius"])
    assert other["latents"] == -1


def test_invalid_arguments_are_rejected():
    with pytest.raises(SelectionError, check=about("maps", [2, 2, 3])):
        map_distances(np.zeros((2, 2, 3)))
    with pytest.raises(SelectionError, check=about("used", [3])):
        map_distances(np.zeros((2, 2, 3, 3)), [True] * 3)


def all_signed_permutations(d):
    for places in permutations(range(d)):
        for signs in product((-1, 1), repeat=d):
            P = np.zeros((d, d))
            P[np.arange(d), places] = signs
            yield P


def test_nearest_signed_permutation_equals_full_search():
    rng = np.random.default_rng(0)
    for d in (2, 3, 4):
        every = np.stack(list(all_signed_permutations(d)))
        for _ in range(40):
            A = rng.normal(size=(d, d)) * rng.choice([0.3, 1, 2])
            best = np.abs(A - every).sum((1, 2)).min()
            assert distance_to_orthogonality(A)["mean_l1"] * d * d == pytest.approx(best)
        for P in every[::7]:
            assert distance_to_orthogonality(P) == {"frobenius": 0, "mean_l1": 0}


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 12])
def test_the_integer_program_of_the_paper_finds_the_same_distance(d):
    rng = np.random.default_rng(d)
    for scale in (0.3, 1.0, 2.0) if d < 12 else (1.0,):
        A = scale * rng.normal(size=(d, d))
        by_program, by_assignment = (nearest_signed_permutation(A, s) for s in SOLVERS)
        assert np.abs(A - by_program).sum() == pytest.approx(np.abs(A - by_assignment).sum())
        assert (np.abs(by_program).sum(0) == 1).all()
        assert (np.abs(by_program).sum(1) == 1).all()
    # For halves everywhere, the program without integer constraints would give 0.
    halves = np.full((2, 2), 0.5)
    assert np.abs(halves - nearest_signed_permutation(halves, "milp")).sum() == 2
    with pytest.raises(UnknownNameError, check=about("solver", "simplex")):
        nearest_signed_permutation(A, "simplex")


def test_only_square_matrices_have_a_nearest_one():
    with pytest.raises(SelectionError, check=about("matrix", [2, 3])):
        nearest_signed_permutation(np.zeros((2, 3)))
