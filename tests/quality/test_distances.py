"""FID, KID and the random-network distance."""

import zipfile

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits

from tests.raising import about
from unweave.errors import DataError
from unweave.quality import (
    Statistics,
    fid,
    frechet_distance,
    kid_of_features,
    random_network_distance,
    squared_mmd,
)


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
def test_the_distance_of_a_set_to_itself_is_zero(count):
    """With fewer or more images than features."""
    features = np.random.default_rng(0).lognormal(size=(count, 64))
    statistics = Statistics.of(features)
    assert frechet_distance(statistics, statistics) < 1e-11 * np.trace(statistics.covariance)


def test_singular_covariances():
    """For rank one, the root of a aᵀ b bᵀ has the trace |aᵀb|."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 40))
    zero = np.zeros(40)
    expected = a @ a + b @ b - 2 * abs(a @ b)
    found = frechet_distance(Statistics(zero, np.outer(a, a)), Statistics(zero, np.outer(b, b)))
    assert found == pytest.approx(expected, rel=1e-12)


def test_sets_of_one_image_many_times_differ_by_its_features():
    same = Statistics.of(np.tile([1.0, 2.0], (3, 1)))
    assert frechet_distance(same, Statistics.of(np.tile([4.0, 6.0], (5, 1)))) == 25


def test_statistics_of_batches():
    """Includes means so large that squares would lose all digits."""
    features = np.random.default_rng(2).normal(1e6, [1, 2, 3], (30, 3)).astype(np.float32)
    whole = features.astype(np.float64)
    streamed = Statistics.of_batches(torch.from_numpy(features).split([1, 9, 13, 7]))
    np.testing.assert_allclose(streamed.mean, whole.mean(0), rtol=1e-14)
    np.testing.assert_allclose(streamed.covariance, np.cov(whole.T), rtol=1e-9)


def test_statistics_are_saved_in_the_usual_format(tmp_path):
    rng = np.random.default_rng(3)
    first, second = Statistics(*law(rng)), Statistics(*law(rng))
    first.save(tmp_path / "first.npz")
    np.savez(tmp_path / "theirs.npz", mu=second.mean, sigma=second.covariance)
    read = [Statistics.load(tmp_path / name) for name in ("first.npz", "theirs.npz")]
    # Statistics need no network, so that nobody looks for weights.
    found = fid(*read, weights=tmp_path / "there are none")
    assert found == frechet_distance(first, second)
    (tmp_path / "first.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"first\.npz"):
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
def test_other_arrays_are_rejected(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=r"a\.npz"):
        Statistics.load(tmp_path / "a.npz")


def test_statistics_that_claim_terabytes(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("mu", "sigma"):
            with archive.open(f"{name}.npy", "w") as file:
                header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
                np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(DataError, match=f"{8 << 40:,}"):
        Statistics.load(tmp_path / "a.npz")


def test_statistics_in_fortran_order(tmp_path):
    sigma = np.asfortranarray([[2.0, 1.0], [1.0, 3.0]])
    np.savez(tmp_path / "a.npz", mu=np.zeros(2), sigma=sigma)
    np.testing.assert_array_equal(Statistics.load(tmp_path / "a.npz").covariance, sigma)


def test_sets_that_cannot_be_compared():
    with pytest.raises(DataError, check=about("images", 1)):
        Statistics.of(np.zeros((1, 3)))
    with pytest.raises(DataError, check=about("images", 0)):
        Statistics.of_batches([])
    three, two = Statistics.of(np.eye(3)), Statistics.of(np.eye(2))
    with pytest.raises(DataError, check=about("features", (3, 2))):
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
def test_invalid_statistics_are_rejected(tmp_path, mu, sigma):
    np.savez(tmp_path / "x.npz", mu=mu, sigma=sigma)
    with pytest.raises(DataError):
        Statistics.load(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", mu)
    with pytest.raises(DataError):
        Statistics.load(tmp_path / "x.npy")


def literal(x, y):
    """The definition, pair by pair."""

    def kernel(a, b):
        return (sum(p * q for p, q in zip(a, b, strict=True)) / len(a) + 1) ** 3

    n = len(x)
    value = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                value += (kernel(x[i], x[j]) + kernel(y[i], y[j])) / (n * (n - 1))
            value -= 2 * kernel(x[i], y[j]) / n**2
    return value


def drawn_features(seed, count, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1, (count, 5))


def test_squared_mmd_equals_the_double_loop():
    x, y = drawn_features(0, 7), drawn_features(1, 7, 0.5)
    assert squared_mmd(x, y) == pytest.approx(literal(x, y), rel=1e-12)


def test_squared_mmd_is_unbiased():
    """For two samples of one distribution, the mean is zero within its error."""
    values = [
        squared_mmd(drawn_features(2 * k, 6), drawn_features(2 * k + 1, 6)) for k in range(2_000)
    ]
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(2_000)


def test_kid_of_one_full_subset_is_squared_mmd():
    x, y = drawn_features(0, 9), drawn_features(1, 9, 1.0)
    found = kid_of_features(x, y, subsets=3, subset_size=9)
    assert found.mean == pytest.approx(squared_mmd(x, y), rel=1e-12)
    assert found.std == pytest.approx(0, abs=1e-12)


def test_subsets_depend_on_the_seed_and_are_without_replacement():
    x, y = drawn_features(0, 12), drawn_features(1, 15, 1.0)
    found = kid_of_features(x, y, subsets=400, subset_size=4)
    assert found == kid_of_features(x, y, subsets=400, subset_size=4, seed=0)
    assert found != kid_of_features(x, y, subsets=400, subset_size=4, seed=1)
    whole = np.mean([squared_mmd(x, y[[*range(k), *range(k + 3, 15)]]) for k in range(12)])
    assert found.mean == pytest.approx(whole, abs=3 * found.std / np.sqrt(400))


@pytest.mark.parametrize("size", [1, 13])
def test_subsets_larger_than_the_sets(size):
    with pytest.raises(DataError, check=about("subset_size", size)):
        kid_of_features(drawn_features(0, 12), drawn_features(1, 20), subset_size=size)


@pytest.fixture(scope="module")
def digits():
    images = load_digits().images[:400] / 16
    return images.repeat(3, 1).repeat(3, 2)[..., None]


def test_the_distance_grows_with_blur_and_noise(digits):
    half, other = digits[::2], digits[1::2]
    alike = random_network_distance(half, other)
    blurred = [
        random_network_distance(half, gaussian_filter(other, (0, sigma, sigma, 0)))
        for sigma in (0.5, 1, 2)
    ]
    rng = np.random.default_rng(0)
    noisy = [
        random_network_distance(half, np.clip(other + rng.normal(0, sigma, other.shape), 0, 1))
        for sigma in (0.05, 0.1, 0.2)
    ]
    assert random_network_distance(half, half) < 1e-9
    assert 0 < alike < blurred[0] < blurred[1] < blurred[2]
    assert alike < noisy[0] < noisy[1] < noisy[2]


def test_the_distance_depends_on_the_seed(digits):
    half, other = digits[::2], digits[1::2]
    assert random_network_distance(half, other) == random_network_distance(half, other, seed=0)
    assert random_network_distance(half, other) != random_network_distance(half, other, seed=1)


def test_images_that_are_too_small(digits):
    with pytest.raises(DataError, check=about("images", (24, 15))):
        random_network_distance(digits[:, :, :15], digits)
