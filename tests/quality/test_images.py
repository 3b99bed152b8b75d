from itertools import pairwise
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d

import unweave as uw
from tests.raising import about
from unweave.errors import DataError
from unweave.quality import l1, l2, ssim
from unweave.quality.images import batches


@pytest.fixture
def two():
    return np.random.default_rng(0).random((2, 3, 14, 12, 3))


def test_l1_and_l2_are_means_over_pixels_and_channels(two):
    x, y = two
    for image in range(3):
        differences = [abs(a - b) for a, b in zip(x[image].flat, y[image].flat, strict=True)]
        assert l1(x, y)[image] == pytest.approx(sum(differences) / 504, rel=1e-6)
        assert l2(x, y)[image] == pytest.approx(sum(d * d for d in differences) / 504, rel=1e-6)


def test_bytes_count_as_fractions_of_255():
    black, grey = np.zeros((1, 4, 4, 1), np.uint8), np.full((1, 4, 4, 1), 51, np.uint8)
    assert l1(black, grey) == pytest.approx(0.2)
    assert l2(black, torch.full((1, 4, 4, 1), 0.2)) == pytest.approx(0.04)


def ssim_by_hand(x, y):
    """The definition for one channel `[H, W]`, with a window around one position at a time."""
    offsets = np.arange(-5, 6)
    window = np.exp(-(offsets[:, None] ** 2 + offsets**2) / (2 * 1.5**2))
    window /= window.sum()
    values = []
    for row in range(5, x.shape[0] - 5):
        for column in range(5, x.shape[1] - 5):
            place = np.s_[row - 5 : row + 6, column - 5 : column + 6]
            mean_x, mean_y = (window * x[place]).sum(), (window * y[place]).sum()
            variance_x = (window * (x[place] - mean_x) ** 2).sum()
            variance_y = (window * (y[place] - mean_y) ** 2).sum()
            covariance = (window * (x[place] - mean_x) * (y[place] - mean_y)).sum()
            values.append(
                (2 * mean_x * mean_y + 1e-4)
                * (2 * covariance + 9e-4)
                / ((mean_x**2 + mean_y**2 + 1e-4) * (variance_x + variance_y + 9e-4))
            )
    return np.mean(values)


def test_ssim_is_the_definition_window_by_window(two):
    x, y = two[0], np.clip(two[0] * 0.8 + two[1] * 0.15, 0, 1)
    expected = [
        np.mean([ssim_by_hand(x[k, :, :, c], y[k, :, :, c]) for c in range(3)]) for k in range(3)
    ]
    assert min(expected) < 0.98
    np.testing.assert_allclose(ssim(x, y), expected, rtol=1e-6)


def test_ssim_of_blurred_sprites_equals_a_convolution():
    """Flat regions, where variances nearly cancel, in more images than one batch."""
    places, radii = np.random.default_rng(0).integers(3, (29, 14), (36, 2)).T
    rows, columns = np.indices((32, 48))
    distances = np.hypot(rows - places[:, None, None], columns - 20)
    images = np.where(distances < radii[:, None, None], 255, 0).astype(np.uint8)[..., None]
    images = np.concatenate([images, 200 + images // 8, np.full_like(images, 255)], axis=3)
    blurred = (images / 255 + np.roll(images, 2, 1) / 255) / 2
    offsets = torch.arange(-5.0, 6, dtype=torch.float64)
    window = torch.exp(-(offsets[:, None] ** 2 + offsets**2) / (2 * 1.5**2))
    window = (window / window.sum()).expand(3, 1, 11, 11)
    # What decoders give are floats of 32 bits, and so are bytes when they are divided.
    x = torch.as_tensor(images).float().div(255).double().permute(0, 3, 1, 2)
    y = torch.as_tensor(blurred).float().double().permute(0, 3, 1, 2)

    def average(maps):
        return conv2d(maps, window, groups=3)

    mean_x, mean_y = average(x), average(y)
    variances = average(x * x) - mean_x**2 + average(y * y) - mean_y**2
    luminance = (2 * mean_x * mean_y + 1e-4) / (mean_x**2 + mean_y**2 + 1e-4)
    structure = (2 * (average(x * y) - mean_x * mean_y) + 9e-4) / (variances + 9e-4)
    expected = (luminance * structure).mean((1, 2, 3)).numpy()
    assert expected.max() < 0.999
    np.testing.assert_allclose(ssim(images, blurred), expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(ssim(images[7:8], blurred[7:8]), ssim(images, blurred)[7:8])


def test_ssim_of_an_image_with_itself_is_one(two):
    np.testing.assert_allclose(ssim(two[0], two[0]), 1, rtol=1e-12)


def test_many_images_come_in_batches_in_their_order():
    data = uw.data.load(np.random.default_rng(0).integers(0, 256, (300, 8, 8, 1), np.uint8))
    images = data.images(np.arange(300))
    shifted = np.roll(images, 1, axis=2)
    expected = np.abs(images / 255 - shifted / 255).mean((1, 2, 3))
    np.testing.assert_allclose(l1(data, shifted), expected, rtol=1e-6)
    assert l1(images[:0], shifted[:0]).shape == (0,)


def test_parts_of_any_size_stay_aligned():
    rng = np.random.default_rng(1)
    images, others = rng.random((2, 600, 12, 12, 1))
    cut = [0, 1, 256, 257, 500, 600]
    parts = [images[start:stop] for start, stop in pairwise(cut)]
    np.testing.assert_array_equal(l1(iter(parts), others), l1(images, others))
    mixed = [np.zeros((3, 12, 12, 1), np.uint8), np.ones((2, 12, 12, 1))]
    assert [len(batch) for batch in batches(iter(mixed), 4)] == [3, 2]
    assert [len(batch) for batch in batches(iter(parts), 256)] == [256, 256, 88]


def test_sets_that_cannot_be_compared(two):
    with pytest.raises(DataError, check=about("images", ([6, 14, 12, 3], [3, 14, 12, 3]))):
        l1([two[0], two[0]], [two[0]])
    with pytest.raises(DataError, check=about("images", ([3, 14, 12, 3], [2, 14, 12, 3]))):
        l2(two[0], two[1][:2])
    with pytest.raises(DataError, check=about("images", (14, 10))):
        ssim(two[0][:, :, :10], two[1][:, :, :10])
    with pytest.raises(DataError, check=about("images", [14, 12, 3])):
        l1(two[0][0], two[1][0])
    with pytest.raises(DataError, check=about("images", [3, 3, 14, 12])):
        l1(two[0].transpose(0, 3, 1, 2), two[1])
    with pytest.raises(DataError, check=about("images", (2, 2))):
        l1(two[0] * 0 + 2, two[1])
    for wrong in (-0.1, 1.1):
        images = two[0].copy()
        images[1, 2, 3, 0] = wrong
        with pytest.raises(DataError, check=about("images", (images.min(), images.max()))):
            l1(images, two[1])
    with pytest.raises(DataError, check=about("images", (0, 0))):
        l1(np.zeros((1, 4, 4, 1), int), two[1])
    with pytest.raises(DataError, check=about("images", (ANY, ANY))):
        l1(two[0] * np.nan, two[1])
