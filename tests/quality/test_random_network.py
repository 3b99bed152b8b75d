import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from scipy.signal import correlate
from sklearn.datasets import load_digits

from unweave.errors import DataError
from unweave.quality import random_network_distance
from unweave.quality.random_network import random_features, random_weights


@pytest.fixture(scope="module")
def digits():
    images = load_digits().images[:400] / 16
    return images.repeat(3, 1).repeat(3, 2)[..., None]


def test_features_are_averages_of_convolutions():
    image = np.random.default_rng(0).random((16, 18, 3))
    weights = random_weights(3)
    maps = 2 * image.transpose(2, 0, 1) - 1
    expected = []
    for weight in weights:
        padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
        maps = np.stack([correlate(padded, kernel, "valid")[0] for kernel in weight.numpy()])
        maps = np.maximum(maps[:, ::2, ::2], 0)
        expected.append(maps.mean((1, 2)))
    found = random_features(torch.from_numpy(image)[None].float(), weights)
    np.testing.assert_allclose(found[0], np.concatenate(expected), rtol=1e-4, atol=1e-6)


def test_weights_keep_the_scale_of_maps():
    for weight in random_weights(0):
        assert weight.var() * weight[0].numel() == pytest.approx(2, rel=0.1)


def test_blur_and_noise_show_the_more_the_stronger_they_are(digits):
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


def test_a_value_belongs_to_its_seed(digits):
    half, other = digits[::2], digits[1::2]
    assert random_network_distance(half, other) == random_network_distance(half, other, seed=0)
    assert random_network_distance(half, other) != random_network_distance(half, other, seed=1)


def test_images_that_are_too_small(digits):
    with pytest.raises(DataError, match="at least 16 × 16 pixels, but got 24 × 15"):
        random_network_distance(digits[:, :, :15], digits)
