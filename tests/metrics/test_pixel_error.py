"""Pixel error: the mean of the errors in `unweave.quality`."""

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, UnweaveError
from unweave.metrics import MetricError, pixel_error


@pytest.fixture(scope="module")
def decoded():
    """600 images of bytes, with noisy and blurred versions."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (600, 12, 16, 3), dtype=np.uint8)
    blurred = (images / 255 + np.roll(images, 1, 1) / 255) / 2
    return images, (0.9 * blurred + 0.1 * rng.random(images.shape)).astype(np.float32)


def test_scores_equal_their_definitions(decoded):
    images, again = decoded
    found = pixel_error(np.zeros((600, 2)), images=images, reconstructions=again)
    difference = images / 255 - again.astype(float)
    assert list(found) == ["pixel_error", "l1", "l2", "ssim", "images"]
    assert found["l1"] == pytest.approx(np.abs(difference).mean(), abs=1e-8)
    assert found["l2"] == pytest.approx((difference**2).mean(), abs=1e-8)
    assert found["pixel_error"] == found["l2"]
    assert found["ssim"] == pytest.approx(uw.quality.ssim(images, again).mean(), abs=1e-12)
    assert found["images"] == 600


def test_images_may_come_in_chunks_of_different_sizes(decoded):
    images, again = decoded
    whole = pixel_error(np.zeros((600, 2)), images=images, reconstructions=again)
    parts = (again[start : start + 100] for start in range(0, 600, 100))
    streamed = pixel_error(np.zeros((600, 2)), images=images, reconstructions=parts)
    assert streamed == pytest.approx(whole, abs=1e-12)


def test_small_images_have_no_ssim(decoded):
    images, again = decoded
    found = pixel_error(np.zeros((600, 2)), images=images[:, :10], reconstructions=again[:, :10])
    assert list(found) == ["pixel_error", "l1", "l2", "images"]


def test_device_is_respected(decoded, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    images, again = decoded
    codes = np.zeros((600, 2))
    assert pixel_error(codes, images=images, reconstructions=again, device="cpu")["ssim"] < 1
    with pytest.raises(UnweaveError, match="GPU"):
        pixel_error(codes, images=images, reconstructions=again, device="cuda")


def test_mismatched_inputs_are_rejected(decoded):
    images, again = decoded
    codes = np.zeros((600, 2))
    with pytest.raises(MetricError, check=about("reconstructions", None)):
        pixel_error(codes, images=images)
    with pytest.raises(DataError, check=about("images", None)):
        pixel_error(codes, images=images, reconstructions=again[:256])
    with pytest.raises(MetricError, check=about("images", 600)):
        pixel_error(codes[1:], images=images, reconstructions=again)
