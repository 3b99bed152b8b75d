"""CKA, MCC and DtO: closed forms, slow versions, and what must not matter."""

from itertools import permutations, product

import numpy as np
import pytest

import unweave as uw
from tests.select.planted import rotation, whitened
from unweave.analysis.maps import SOLVERS, nearest_signed_permutation
from unweave.errors import UnknownNameError
from unweave.select import (
    Latents,
    SelectionError,
    cka,
    cka_pairs,
    distance_to_orthogonality,
    dto,
    dto_pairs,
    mcc,
    mcc_pairs,
)

PAIRS = {"cka": cka_pairs, "mcc": mcc_pairs, "dto": dto_pairs}
RANKINGS = {"cka": cka, "mcc": mcc, "dto": dto}
PERFECT = {"cka": 1, "mcc": 1, "dto": 0}


def test_cka_is_that_of_centred_kernels(models):
    """By the definition with Gram matrices of rows, `[n, n]`."""
    centring = np.eye(400) - 1 / 400
    kernels = [centring @ z @ z.T @ centring for z in models]
    slow = [
        [(a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()) for b in kernels] for a in kernels
    ]
    np.testing.assert_allclose(cka_pairs(Latents(models)), slow, atol=1e-10)


def test_cka_does_not_see_rotations_but_mcc_and_dto_do():
    z = whitened(800, 5)
    latents = Latents(np.stack([z, 3 * z @ rotation(5, 1)]))
    assert cka_pairs(latents)[0, 1] == pytest.approx(1)
    assert mcc_pairs(latents)[0, 1] < 0.8
    assert dto_pairs(latents)[0, 1] > 0.5


def test_mcc_is_the_metric_with_one_model_as_the_factors(models):
    pairs = mcc_pairs(Latents(models))
    for i, j in permutations(range(5), 2):
        assert pairs[i, j] == pytest.approx(uw.metrics.mcc(models[i], models[j])["mcc"], abs=1e-12)


def test_a_latent_without_partner_counts_0_in_mcc_and_1_in_dto():
    z = whitened(600, 4)
    kl = np.ones((2, 4))
    kl[1, 0] = 0
    latents = Latents(np.stack([z, z]), kl=kl)
    ranks = mcc_pairs(latents)
    assert ranks[0, 1] == pytest.approx(0.75)
    np.testing.assert_allclose(dto_pairs(latents), [[0, 0.5], [0.5, 0]], atol=1e-10)
    np.testing.assert_allclose(cka_pairs(latents)[0, 1], np.sqrt(3 / 4))


@pytest.mark.parametrize("name", PAIRS)
def test_signed_permutations_are_perfect_and_their_order_does_not_matter(name, models, kl):
    z = models[0]
    copies = np.stack([z, -z, z[:, [2, 0, 3, 1]] * [1, -1, 1, -1]])
    np.testing.assert_allclose(PAIRS[name](Latents(copies)), PERFECT[name], atol=1e-7)
    pairs = PAIRS[name](Latents(models, kl=kl))
    order, places = np.array([4, 2, 0, 1, 3]), np.array([2, 0, 3, 1])
    changed = models[order][:, ::-1, places] * [1, -1, -1, 1] + 3
    moved = PAIRS[name](Latents(changed, kl=kl[order][:, places]))
    np.testing.assert_allclose(moved, pairs[np.ix_(order, order)], atol=1e-9)


@pytest.mark.parametrize("name", ["mcc", "dto"])
def test_scales_of_latents_do_not_matter(name, models):
    scaled = models * np.random.default_rng(0).uniform(0.1, 9, size=(5, 1, 4))
    pairs = PAIRS[name](Latents(models))
    np.testing.assert_allclose(PAIRS[name](Latents(scaled)), pairs, atol=1e-9)


@pytest.mark.parametrize("name", PAIRS)
def test_rankings_are_medians_and_put_the_odd_model_last(name):
    z = np.random.default_rng(0).normal(size=(500, 4))
    odd = np.random.default_rng(1).normal(size=(500, 4))
    lost = np.full_like(z, np.nan)
    codes = np.stack([odd, z, lost, -z, z[:, ::-1]])
    ranking = RANKINGS[name](codes)
    assert ranking["model"].tolist()[3:] == [0, 2]
    pairs = PAIRS[name](Latents(codes))
    assert ranking["score"][3] == pytest.approx(np.median(pairs[[1, 3, 4], 0]))
    assert f"{ranking['score'][3]:.2f}" in ranking["reason"][3]
    assert "3 other models" in ranking["reason"][3]
    assert "diverged" in ranking["reason"][4]


def all_signed_permutations(d):
    for places in permutations(range(d)):
        for signs in product((-1, 1), repeat=d):
            P = np.zeros((d, d))
            P[np.arange(d), places] = signs
            yield P


def test_the_nearest_signed_permutation_is_that_of_a_full_search():
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
    # Halves everywhere are where the program without integers would say 0.
    halves = np.full((2, 2), 0.5)
    assert np.abs(halves - nearest_signed_permutation(halves, "milp")).sum() == 2
    with pytest.raises(UnknownNameError, match="no solver is called 'simplex'"):
        nearest_signed_permutation(A, "simplex")


def test_distances_of_zeros_and_of_random_rotations():
    zeros = distance_to_orthogonality(np.zeros((10, 10)))
    assert zeros == pytest.approx({"frobenius": np.sqrt(10), "mean_l1": 0.1})
    turned = [distance_to_orthogonality(rotation(10, seed)) for seed in range(60)]
    assert np.mean([each["mean_l1"] for each in turned]) == pytest.approx(0.240, abs=0.005)
    assert np.mean([each["frobenius"] for each in turned]) == pytest.approx(2.85, abs=0.05)


def test_linear_maps_are_those_of_least_squares(models):
    scaled = (models - models.mean(1, keepdims=True)) / models.std(1, keepdims=True)
    A = np.linalg.lstsq(scaled[0], scaled[3], rcond=None)[0].T
    expected = distance_to_orthogonality(A)["frobenius"] / 2
    assert dto_pairs(Latents(models))[0, 3] == pytest.approx(expected)


def test_only_square_matrices_have_a_nearest_one():
    with pytest.raises(SelectionError, match="square"):
        nearest_signed_permutation(np.zeros((2, 3)))
