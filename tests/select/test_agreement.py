"""CKA, MCC and DtO: closed forms, slow implementations and invariances."""

from itertools import permutations

import numpy as np
import pytest

import unweave as uw
from tests.select.planted import rotation, whitened
from unweave.select import (
    Latents,
    cka,
    cka_pairs,
    distance_to_orthogonality,
    dto,
    dto_pairs,
    mcc,
    mcc_pairs,
)
from unweave.select.ranking import DIVERGED

PAIRS = {"cka": cka_pairs, "mcc": mcc_pairs, "dto": dto_pairs}
RANKINGS = {"cka": cka, "mcc": mcc, "dto": dto}
PERFECT = {"cka": 1, "mcc": 1, "dto": 0}


def test_cka_equals_centred_kernels(models):
    """Compares with the definition, using Gram matrices of rows `[n, n]`."""
    centring = np.eye(400) - 1 / 400
    kernels = [centring @ z @ z.T @ centring for z in models]
    slow = [
        [(a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()) for b in kernels] for a in kernels
    ]
    np.testing.assert_allclose(cka_pairs(Latents(models)), slow, atol=1e-10)


def test_cka_is_invariant_to_rotation_but_mcc_and_dto_are_not():
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
def test_rankings_are_medians_with_the_outlier_last(name):
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
    assert ranking["reason"][4] == DIVERGED


def test_linear_maps_are_those_of_least_squares(models):
    scaled = (models - models.mean(1, keepdims=True)) / models.std(1, keepdims=True)
    A = np.linalg.lstsq(scaled[0], scaled[3], rcond=None)[0].T
    expected = distance_to_orthogonality(A)["frobenius"] / 2
    assert dto_pairs(Latents(models))[0, 3] == pytest.approx(expected)
