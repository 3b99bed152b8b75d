import zipfile

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from unweave.errors import DataError
from unweave.quality import Statistics, fid, frechet_distance


def gaussian(rng, count, mean, covariance):
    """Features with exactly this mean and covariance."""
    draws = rng.normal(size=(count, len(mean)))
    draws -= draws.mean(0)
    white = np.linalg.inv(np.linalg.cholesky(np.cov(draws.T)))
    return mean + draws @ white.T @ np.linalg.cholesky(covariance).T


def law(rng, d=6):
    factor = rng.normal(size=(d, d))
    return rng.normal(size=d), factor @ factor.T + 0.1 * np.eye(d)


def test_the_distance_is_the_closed_form_on_gaussian_features():
    rng = np.random.default_rng(0)
    (mean_1, covariance_1), (mean_2, covariance_2) = law(rng), law(rng)
    first = Statistics.of(gaussian(rng, 50, mean_1, covariance_1))
    second = Statistics.of(gaussian(rng, 70, mean_2, covariance_2))
    expected = ((mean_1 - mean_2) ** 2).sum() + np.trace(
        covariance_1 + covariance_2 - 2 * sqrtm(covariance_1 @ covariance_2).real
    )
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-10)
    assert frechet_distance(second, first) == pytest.approx(expected, rel=1e-10)


def test_independent_features_differ_by_their_deviations():
    first = Statistics(np.array([0.0, 1.0]), np.diag([4.0, 9.0]))
    second = Statistics(np.array([1.0, 1.0]), np.diag([1.0, 0.0]))
    assert frechet_distance(first, second) == pytest.approx(1 + (2 - 1) ** 2 + (3 - 0) ** 2)


@pytest.mark.parametrize("count", [5, 500])
def test_a_set_has_no_distance_to_itself(count):
    """Be there fewer or more images than features."""
    features = np.random.default_rng(0).lognormal(size=(count, 64))
    statistics = Statistics.of(features)
    assert frechet_distance(statistics, statistics) < 1e-11 * np.trace(statistics.covariance)


def test_singular_covariances():
    """Of rank one the root of a aᵀ b bᵀ has the trace |aᵀb|."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 40))
    zero = np.zeros(40)
    expected = a @ a + b @ b - 2 * abs(a @ b)
    found = frechet_distance(Statistics(zero, np.outer(a, a)), Statistics(zero, np.outer(b, b)))
    assert found == pytest.approx(expected, rel=1e-12)


def test_sets_of_one_image_many_times_differ_by_its_features():
    same = Statistics.of(np.tile([1.0, 2.0], (3, 1)))
    assert frechet_distance(same, Statistics.of(np.tile([4.0, 6.0], (5, 1)))) == 25


def test_statistics_come_batch_by_batch():
    """Also where the mean is so large that squares would lose all digits."""
    features = np.random.default_rng(2).normal(1e6, [1, 2, 3], (30, 3)).astype(np.float32)
    whole = features.astype(np.float64)
    streamed = Statistics.of_batches(torch.from_numpy(features).split([1, 9, 13, 7]))
    np.testing.assert_allclose(streamed.mean, whole.mean(0), rtol=1e-14)
    np.testing.assert_allclose(streamed.covariance, np.cov(whole.T), rtol=1e-9)


def test_statistics_are_kept_in_the_usual_file(tmp_path):
    rng = np.random.default_rng(3)
    first, second = Statistics(*law(rng)), Statistics(*law(rng))
    first.save(tmp_path / "first.npz")
    np.savez(tmp_path / "theirs.npz", mu=second.mean, sigma=second.covariance)
    read = [Statistics.load(tmp_path / name) for name in ("first.npz", "theirs.npz")]
    # Statistics need no network, so that nobody looks for weights.
    found = fid(*read, weights=tmp_path / "there are none")
    assert found == frechet_distance(first, second)
    (tmp_path / "first.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"first.npz cannot be read"):
        Statistics.load(tmp_path / "first.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"mu": np.zeros(3), "sigma": np.zeros((2, 2))},
        {"mu": np.zeros((3, 3)), "sigma": np.zeros((3, 3))},
        {"mu": np.full(2, np.nan), "sigma": np.eye(2)},
        {"mu": np.zeros(2, complex), "sigma": np.eye(2)},
        {"mu": np.array(["a", "b"]), "sigma": np.eye(2)},
        {"mu": np.array([None, None]), "sigma": np.eye(2)},
        {"mu": np.zeros(2)},
    ],
)
def test_other_arrays_are_no_statistics(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match="cannot be read"):
        Statistics.load(tmp_path / "a.npz")


def test_statistics_that_claim_terabytes(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("mu", "sigma"):
            with archive.open(f"{name}.npy", "w") as file:
                header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
                np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(DataError, match="claims to have"):
        Statistics.load(tmp_path / "a.npz")


def test_statistics_in_fortran_order(tmp_path):
    sigma = np.asfortranarray([[2.0, 1.0], [1.0, 3.0]])
    np.savez(tmp_path / "a.npz", mu=np.zeros(2), sigma=sigma)
    np.testing.assert_array_equal(Statistics.load(tmp_path / "a.npz").covariance, sigma)


def test_what_cannot_be_compared():
    with pytest.raises(DataError, match="at least two images, but got 1"):
        Statistics.of(np.zeros((1, 3)))
    with pytest.raises(DataError, match="at least two images, but got 0"):
        Statistics.of_batches([])
    three, two = Statistics.of(np.eye(3)), Statistics.of(np.eye(2))
    with pytest.raises(DataError, match="3 of one set and 2 of the other"):
        frechet_distance(three, two)


@pytest.mark.parametrize(
    ("mu", "sigma"),
    [
        (np.zeros(3), np.zeros(3)),
        (np.zeros((3, 3)), np.zeros((3, 3))),
        (np.zeros(3), np.zeros((3, 4))),
        (np.full(3, np.nan), np.eye(3)),
        (np.zeros(3), np.full((3, 3), np.inf)),
        (np.array(["a", "b"]), np.eye(2)),
    ],
)
def test_statistics_that_are_none_are_refused(tmp_path, mu, sigma):
    np.savez(tmp_path / "x.npz", mu=mu, sigma=sigma)
    with pytest.raises(DataError):
        Statistics.load(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", mu)
    with pytest.raises(DataError):
        Statistics.load(tmp_path / "x.npy")
