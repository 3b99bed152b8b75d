"""Aligned codes of ensemble members and their agreement."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.analysis.maps import nearest_signed_permutation
from unweave.errors import UnweaveError
from unweave.methods import VAE, VAEEnsemble
from unweave.random import Stream
from unweave.select import aligned_codes, aligned_posteriors, member_agreement

SETTINGS = {
    "batch": 8,
    "latents": 3,
    "architecture": "small_mlp",
    "steps": 30,
    "progress": False,
    "optimiser": uw.Adam(lr=3e-3),
}


@pytest.fixture(scope="module")
def data():
    pixels = Stream(0, "test").integers(256, 40, 64).byte().reshape(40, 8, 8, 1)
    return uw.data.load(pixels.numpy())


@pytest.fixture(scope="module")
def model(data):
    return uw.train(VAEEnsemble(members=3), data, **SETTINGS)[0]


def test_latents_of_members_are_permuted_flipped_or_mixed(model, data):
    by_permutation, by_map = (
        aligned_codes(model, data, by=way) for way in ("permutations", "maps")
    )
    assert by_permutation.shape == by_map.shape == (3, 40, 3)
    np.testing.assert_array_equal(by_permutation[0], model.encode(data)[0])
    np.testing.assert_array_equal(by_map[0], model.encode(data)[0])
    for member in (1, 2):
        codes, M = model.encode(data, member=member)[0], model.maps[member, 0]
        for row in range(5):
            np.testing.assert_allclose(by_map[member, row], M @ codes[row], atol=1e-6)
            P = nearest_signed_permutation(M)
            np.testing.assert_allclose(by_permutation[member, row], P @ codes[row], atol=1e-6)


def test_agreement_is_the_mean_correlation_with_the_first_member():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(3, 500, 4)).astype(np.float32)
    codes[1:, :, 0] = codes[0, :, 0] * 3 + 1  # agreed on
    codes[1:, :, 1] = -codes[0, :, 1]  # the opposite
    codes[1, :, 2] = 5.0  # says nothing
    found = member_agreement(codes)
    expected = [
        np.mean([np.corrcoef(codes[0, :, latent], codes[i, :, latent])[0, 1] for i in (1, 2)])
        for latent in (0, 1, 3)
    ]
    np.testing.assert_allclose(found[[0, 1, 3]], expected, atol=1e-6)
    assert found[0] == pytest.approx(1)
    assert found[1] == pytest.approx(-1)
    alone = np.corrcoef(codes[0, :, 2], codes[2, :, 2])[0, 1]
    assert found[2] == pytest.approx(alone / 2)


def test_members_are_aligned_with_the_first(planted, data):
    quick = {**SETTINGS, "steps": 3, "latents": 4}
    trained = uw.train(VAEEnsemble(members=3), data, **quick)[0]
    ensemble, ways = planted(trained, data)
    found = aligned_posteriors(ensemble, data)
    np.testing.assert_array_equal(found.permutations, ways)
    assert found.latents.tolist() == [[0, 1, 2, 3], [1, 0, 2, 3], [3, 1, 0, 2]]
    assert found.signs.tolist() == [[1, 1, 1, 1], [1, -1, 1, 1], [1, 1, -1, -1]]
    first = ensemble.encode(data)[0]
    for member in (1, 2):
        np.testing.assert_allclose(found.means[member, :, :3], first[:, :3], atol=1e-5)
        own = ensemble.encode(data, member=member)[0]
        np.testing.assert_array_equal(found.own(member, found.means[member]), own)
        assert np.abs(found.means[member, :, 3] - first[:, 3]).max() > 0.1
    np.testing.assert_allclose(found.agreement[:3], [1, 1, 0], atol=1e-5)
    assert found.verdicts == ["agree", "agree", "unused", "disagree"]
    assert found.varies.tolist() == [[True, True, False, True]] * 3
    np.testing.assert_allclose(found.mean, found.means.sum(0) / 3, atol=1e-6)
    np.testing.assert_allclose(found.spread[:, :2], 0, atol=1e-5)
    mean_noise = np.log(np.exp([-4, -3, -2]).mean())
    np.testing.assert_allclose(found.logvar[0], [-4, -4, -1.5, mean_noise], atol=1e-5)


def test_what_cannot_be_aligned_is_one_sentence(model, data):
    with pytest.raises(UnweaveError, match="lasso"):
        aligned_codes(model, data, by="lasso")
    ring = uw.train(VAEEnsemble(members=3, neighbours=1), data, **{**SETTINGS, "steps": 1})[0]
    with pytest.raises(UnweaveError, check=about("maps")):
        aligned_codes(ring, data)
    vae = uw.train(VAE(), data, **{**SETTINGS, "steps": 1})[0]
    with pytest.raises(UnweaveError, check=about("maps")):
        aligned_codes(vae, data)
    alone = uw.train(VAEEnsemble(members=1), data, **{**SETTINGS, "steps": 1})[0]
    with pytest.raises(UnweaveError, check=about("members", 1)):
        aligned_posteriors(alone, data)
    with pytest.raises(UnweaveError, check=about("aligned", (1, 5, 2))):
        member_agreement(np.zeros((1, 5, 2)))
