"""Principal axes: Lemma 1, Theorem 1, linear autoencoders and modified data, at known values."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tests.raising import about
from unweave.papers.inductive_biases.theory import pca_alignment as pca
from unweave.papers.inductive_biases.theory.pca_alignment import minimise
from unweave.papers.isa_vae.theory import factor_analysis as fa
from unweave.papers.theory import TheoryError


def scale_loss(c, x, y):
    """What Lemma 1 minimises over the scale c of a latent: mean of c² x² - log c² y²."""
    return float(np.mean(c**2 * x**2 - np.log(c**2 * y**2)))


@pytest.fixture(scope="module")
def autoencoders():
    return pca.linear_autoencoders(range(2)).groupby("kind")


def test_lemma_1_as_corrected_is_the_minimum_and_as_printed_is_not():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 20))
    best = minimize_scalar(scale_loss, bounds=(1e-3, 50), args=(x, y), method="bounded")
    assert pca.best_scale(x) == pytest.approx(best.x, rel=1e-4)
    assert np.mean((pca.best_scale(x) * x) ** 2) == pytest.approx(1)
    printed = np.sqrt((x**2).sum())
    assert scale_loss(printed, x, y) > scale_loss(pca.best_scale(x), x, y) + 0.5


def test_the_best_rotation_is_that_of_principal_axes():
    table = pca.rotations(range(2))
    assert (table["alignment"] >= 0.99996).all()
    assert (table["loss"] / table["bound"]).to_numpy() == pytest.approx(1, abs=3e-4)
    assert (table["loss"] >= table["bound"] * (1 - 1e-9)).all()
    assert (table["identity"] < 1e-10).all()


def test_fixed_variances_reach_the_rearrangement_bound():
    table = pca.rotations(range(2), fixed=True)
    assert table["alignment"].to_numpy() == pytest.approx(1, abs=1e-6)
    assert table["loss"].to_numpy() == pytest.approx(table["bound"].to_numpy())
    free = pca.rotations(range(2))
    assert (table["bound"] > free["bound"]).all()


def test_a_linear_vae_finds_principal_axes(autoencoders):
    table = autoencoders.get_group("vae")
    assert table["principal"].to_numpy() == pytest.approx(1, abs=1e-4)
    assert table["factors"].to_numpy() == pytest.approx(1, abs=1e-4)


def test_a_linear_autoencoder_finds_any_basis(autoencoders):
    table = autoencoders.get_group("autoencoder")
    assert (table["principal"] < 0.9).all()
    assert (table["loss"] < 1e-8).all()


def test_without_principal_axes_a_vae_finds_any_basis_for_the_same_loss(autoencoders):
    table = autoencoders.get_group("equal")
    assert table["factors"].between(0.49, 0.85).all()
    assert np.ptp(table["loss"]) < 1e-6
    assert table["factors"].nunique() == len(table)


def test_the_weights_of_a_linear_vae_are_those_of_factor_analysis():
    B = pca.mixing()
    found = pca.fit_linear(B, 0)
    best = fa.best_weights(B @ B.T, pca.NOISE, latents=4)
    lengths = np.sort(np.linalg.norm(found.decoder, axis=0))[::-1]
    assert lengths == pytest.approx(np.linalg.norm(best, axis=0), abs=1e-4)
    noise = np.full(len(B), pca.NOISE)
    constant = len(B) / 2 * np.log(2 * np.pi * pca.NOISE)
    assert found.loss + constant == pytest.approx(
        -fa.free_energy(best, noise, B @ B.T).value, abs=1e-6
    )


def test_a_modification_rotates_a_vae_by_the_predicted_angle():
    table = pca.modified_data(seeds=[0])
    assert table["predicted"].round(3).tolist() == [1.0, 0.981, 0.931, 0.826]
    assert table["factors"].to_numpy() == pytest.approx(table["predicted"].to_numpy(), abs=1e-3)
    assert (table["principal"] >= 0.999).all()


@pytest.mark.parametrize("delta", [0.2, 0.5])
def test_the_predicted_angle_is_that_of_the_eigenvectors(delta):
    B = pca.mixing(pca.NEAR_SCALES, delta, seed=3)
    axes = np.linalg.svd(B, full_matrices=False)[2]
    angle = np.arccos(np.abs(axes[:2, :2]).max())
    assert pca.predicted_rotation(delta) == pytest.approx(angle)
    unmodified = pca.mixing(pca.NEAR_SCALES, 0, seed=3)
    added = B - unmodified
    assert np.linalg.norm(added) == pytest.approx(delta)
    assert added.T @ unmodified == pytest.approx(0, abs=1e-12)


def test_too_few_dimensions_are_rejected():
    with pytest.raises(TheoryError, check=about("observed", 4)):
        pca.mixing(observed=4)


def test_minimise_solves_the_rosenbrock_valley():
    def rosenbrock(x, y):
        return ((1 - x) ** 2).sum() + 100 * ((y - x**2) ** 2).sum()

    x, y = minimise(rosenbrock, [np.full((2, 1), -1.2), np.ones((2, 1))])
    assert x.shape == y.shape == (2, 1)
    assert np.stack([x, y]) == pytest.approx(1, abs=1e-5)
