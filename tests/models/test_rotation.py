"""Rotations of codes: what they find, their inverse, and what they refuse."""

import numpy as np
import pytest

from tests.raising import about
from unweave.errors import UnknownNameError
from unweave.metrics import mcc
from unweave.models.rotation import RotationError, fit_rotation, varimax

ROWS = 10_000


def orthogonal(size, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


def sources(kind, size=6):
    rng = np.random.default_rng(1)
    if kind == "grid":
        return rng.integers(0, 8, (ROWS, size)).astype(float)
    return {"uniform": rng.uniform, "laplace": rng.laplace, "normal": rng.normal}[kind](
        size=(ROWS, size)
    )


def score(codes, factors):
    return mcc(codes, factors)["mcc"]


@pytest.mark.parametrize("kind", ["uniform", "grid", "laplace"])
def test_independent_components_undo_a_rotation(kind):
    factors = sources(kind)
    mixed = factors @ orthogonal(6)
    rotation = fit_rotation(mixed)
    assert rotation.converged
    assert rotation.kept == 6
    assert score(mixed, factors) < 0.85
    assert score(rotation.encode(mixed), factors) > 0.99
    assert score(fit_rotation(mixed, "random").encode(mixed), factors) < 0.9


def test_normal_codes_have_no_independent_components():
    with pytest.raises(RotationError) as caught:
        fit_rotation(sources("normal"))
    assert caught.value.subject == "codes"
    assert caught.value.value < 0.2


@pytest.mark.parametrize("kind", ["ica", "random"])
def test_components_are_white(kind):
    mixed = sources("uniform", 4) @ orthogonal(4) * [1, 2, 3, 4] + 5
    rotated = fit_rotation(mixed, kind).encode(mixed)
    np.testing.assert_allclose(np.cov(rotated.T, bias=True), np.eye(4), atol=1e-6)
    np.testing.assert_allclose(rotated.mean(0), 0, atol=1e-9)


@pytest.mark.parametrize("kind", ["ica", "pca", "varimax", "random"])
def test_decoding_inverts_encoding(kind):
    codes = sources("uniform", 4) @ orthogonal(4) + 3
    images = codes @ np.random.default_rng(2).normal(size=(4, 9))
    rotation = fit_rotation(codes, kind, images=images)
    np.testing.assert_allclose(rotation.decode(rotation.encode(codes)), codes, atol=1e-9)
    assert rotation.encode(codes.astype(np.float32)).dtype == np.float32


def test_narrow_components_are_dropped_and_stay_zero():
    factors = sources("uniform", 3)
    wide = np.hstack([factors, 0.02 * sources("laplace", 3)]) @ orthogonal(6)
    rotation = fit_rotation(wide)
    rotated = rotation.encode(wide)
    assert rotation.kept == 3
    assert rotated.shape == wide.shape
    assert (rotated[:, 3:] == 0).all()
    assert score(rotated[:, :3], factors) > 0.99
    # Decoding projects onto the kept components: the rest is small.
    assert np.abs(rotation.decode(rotated) - wide).std() < 0.05


def test_principal_components_are_uncorrelated_and_sorted():
    codes = (sources("normal", 3) * [1, 3, 2]) @ orthogonal(3)
    rotated = fit_rotation(codes, "pca").encode(codes)
    covariance = np.cov(rotated.T, bias=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), [3, 2, 1], rtol=0.05)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-9
    # Without whitening, distances between codes are unchanged.
    np.testing.assert_allclose(
        np.linalg.norm(rotated[1:] - rotated[0], axis=1),
        np.linalg.norm(codes[1:] - codes[0], axis=1),
    )


def test_varimax_finds_regions_of_images():
    codes = sources("normal", 3)
    regions = np.kron(np.eye(3), np.ones((1, 5)))  # each factor changes five pixels
    images = codes @ regions
    mixed = codes @ orthogonal(3)
    rotated = fit_rotation(mixed, "varimax", images=images).encode(mixed)
    assert score(rotated, codes) > 0.99
    with pytest.raises(RotationError, check=about("images", None)):
        fit_rotation(mixed, "varimax")


def test_varimax_maximises_its_criterion():
    def criterion(loadings):
        return ((loadings**4).mean(0) - (loadings**2).mean(0) ** 2).sum()

    loadings = np.random.default_rng(0).laplace(size=(40, 3))
    turn, converged = varimax(loadings)
    assert converged
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)
    best = criterion(loadings @ turn)
    for seed in range(20):
        step = 0.05 * np.random.default_rng(seed).normal(size=(3, 3))
        q, r = np.linalg.qr(np.eye(3) + step - step.T)
        assert criterion(loadings @ turn @ q * np.sign(np.diag(r))) < best
    assert criterion(loadings) < best


def test_the_seed_decides():
    mixed = sources("laplace", 3) @ orthogonal(3)
    one, same = fit_rotation(mixed, seed=3), fit_rotation(mixed, seed=3)
    assert np.array_equal(one.forward, same.forward)


def test_what_cannot_be_rotated():
    with pytest.raises(UnknownNameError):
        fit_rotation(sources("uniform"), "other")
    for codes in (np.zeros((3, 3)), np.zeros(5)):
        with pytest.raises(RotationError, check=about("codes", codes.shape)):
            fit_rotation(codes)
    with pytest.raises(RotationError, check=about("codes", None)):
        fit_rotation(np.ones((10, 3)))
