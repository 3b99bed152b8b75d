"""PIPE: separable and equal sets of images, and invalid inputs."""

import numpy as np
import pytest
import torch

from tests.raising import about
from unweave.metrics import MetricError, pipe
from unweave.quality.two_sample import discriminator

ROWS = 320


def bars(codes):
    """Images of two bars, one above the other, whose lengths are the codes in [0, 1]."""
    column = np.arange(16) / 16
    lengths = np.repeat(codes, 8, axis=1)
    return (column < lengths[..., None]).astype(np.float32)[..., None]


def score(real, mixed, **options):
    codes = np.zeros((len(real), 2))
    return pipe(codes, reconstructions=real, factorised=mixed, **options)


@pytest.fixture(scope="module")
def independent():
    return np.random.default_rng(0).random((2, ROWS, 2))


def test_independent_latents_score_1(independent):
    found = score(bars(independent[0]), bars(independent[1]))
    assert found["pipe"] > 0.85
    assert found["images"] == ROWS
    assert found["pipe"] == pytest.approx(min(1, 2 * (1 - found["accuracy"])))


def test_separable_images_score_0(independent):
    found = score(bars(independent[0] / 2), bars(independent[1] / 2 + 0.5))
    assert found["pipe"] < 0.05


def test_latents_that_are_copies_of_each_other_score_little(independent):
    copies = np.repeat(independent[0, :, :1], 2, axis=1)
    found = score(bars(copies), bars(independent[1]))
    assert found["pipe"] < 0.5


def test_the_score_depends_on_the_seed_only(independent):
    sets = bars(independent[0]), bars(independent[1])
    once = score(*sets, training_images=64)
    assert once == score(*sets, training_images=64)
    assert once != score(*sets, training_images=64, seed=1)
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        assert score(*sets, training_images=64) == once
    finally:
        torch.set_num_threads(threads)


def test_bytes_and_batches_are_the_same_images(independent):
    floats = [bars(codes) for codes in independent]
    expected = score(*floats, training_images=64)
    whole = [(images * 255).astype(np.uint8) for images in floats]
    assert score(*whole, training_images=64) == expected
    parts = [iter((images[:150], images[150:])) for images in floats]
    codes = np.zeros((ROWS, 2))
    found = pipe(codes, reconstructions=parts[0], factorised=parts[1], training_images=64)
    assert found == expected


def test_the_discriminator_is_that_of_the_paper():
    """ConvDiscriminator(1, 3) of the authors' code."""
    convolutions = 3 * 16 * 32 + 32 * 16 * 32 + 32 * 16 * 64 + 64 * 16 * 64 + 64 * 16 * 512
    biases_and_norms = 3 * (32 + 32 + 64 + 64 + 512)
    assert len(discriminator((64, 64, 3))) == convolutions + biases_and_norms + 512 + 1


def test_invalid_inputs(independent):
    real, mixed = bars(independent[0]), bars(independent[1])
    with pytest.raises(MetricError, check=about("factorised")):
        pipe(np.zeros((ROWS, 1)), reconstructions=real)
    with pytest.raises(MetricError, check=about("factorised", ROWS - 1)):
        score(real, mixed[1:])
    with pytest.raises(MetricError, check=about("factorised", [ROWS, 16, 8, 1])):
        score(real, mixed[:, :, :8])
    with pytest.raises(MetricError, check=about("codes", 3)):
        score(real[:3], mixed[:3])
