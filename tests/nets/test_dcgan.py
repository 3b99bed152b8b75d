"""The networks of the DCGAN: their sizes, and how they normalise."""

import pytest
import torch

from unweave.nets import dcgan
from unweave.nets.network import Network
from unweave.nets.norms import BatchNorm
from unweave.random import Stream

SEEDS = torch.tensor([3, 8])


def test_the_encoder_is_that_of_the_published_size():
    """5 × 5 taps, 3 to 64, 128, 256 and 512 channels, then 8192 numbers to 20."""
    weights = 25 * (3 * 64 + 64 * 128 + 128 * 256 + 256 * 512) + 8192 * 20
    biases = 64 + 128 + 256 + 512 + 20
    assert len(dcgan.encoder((64, 64, 3), 20, 64, "instance")) == weights + biases
    norms = 2 * (128 + 256 + 512)
    assert len(dcgan.encoder((64, 64, 3), 20, 64, "batch")) == weights + biases + norms


def test_the_decoder_is_that_of_the_published_size():
    weights = 20 * 8192 + 25 * (512 * 256 + 256 * 128 + 128 * 64 + 64 * 3)
    biases = 8192 + 256 + 128 + 64 + 3
    assert len(dcgan.decoder((64, 64, 3), 20, 64, "instance")) == weights + biases
    norms = 2 * (512 + 256 + 128 + 64)
    assert len(dcgan.decoder((64, 64, 3), 20, 64, "batch")) == weights + biases + norms


@pytest.mark.parametrize("side", [32, 64, 128])
@pytest.mark.parametrize("norm", ["instance", "batch"])
def test_images_become_codes_and_codes_images(side, norm):
    shape = (side, side, 2)
    encoder, decoder = (build(shape, 5, 4, norm) for build in (dcgan.encoder, dcgan.decoder))
    images = Stream(SEEDS, "test").uniform(3, side * side * 2).reshape(2, 3, *shape)
    codes = encoder(encoder.initial(SEEDS, "encoder"), images)
    assert codes.shape == (2, 3, 5)
    assert codes.std(1).min() > 0
    assert decoder(decoder.initial(SEEDS, "decoder"), codes).shape == images.shape


def test_batch_norm_takes_mean_and_deviation_of_the_reference():
    norm = Network((BatchNorm(4, "none"),))
    x = 3 + 2 * Stream(SEEDS, "test").normal(50, 4)
    out = norm(norm.initial(SEEDS, "norm"), x, reference=40)
    torch.testing.assert_close(out[:, :40].mean(1), torch.zeros(2, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        out[:, :40].std(1, correction=0), torch.ones(2, 4), atol=1e-4, rtol=0
    )
    alone = norm(norm.initial(SEEDS, "norm"), x[:, :41], reference=40)
    torch.testing.assert_close(alone[:, 40], out[:, 40])
    assert not torch.allclose(norm(norm.initial(SEEDS, "norm"), x), out, atol=1e-3)
