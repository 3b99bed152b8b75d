"""Networks of the DCGAN and of second stages: sizes, normalisation and codes."""

import pytest
import torch

from unweave.nets import dcgan
from unweave.nets.architectures import build
from unweave.nets.dcgan import WIDTHS, generator, residual_encoder
from unweave.nets.layers import Conv, ConvTranspose
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm, BatchNorm, InstanceNorm
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


def weights(network: Network, init: str = "glorot") -> torch.Tensor:
    return network.initial(SEEDS, "network", init)


def images(size: int, channels: int) -> torch.Tensor:
    flat = Stream(SEEDS, "images").uniform(3, size * size * channels)
    return flat.unflatten(-1, (size, size, channels))


def test_the_published_networks_have_the_published_layers():
    shape = (64, 64, 3)
    network = generator(shape, None, 5, WIDTHS["dcgan"])
    widths = [layer.outputs for layer in network.layers if isinstance(layer, Conv)]
    assert widths == [64, 128, 256, 512, 256, 128, 64, 3]
    assert sum(isinstance(layer, AdaptiveNorm) for layer in network.layers) == 7
    dense = network.shapes["9.weight"]
    assert dense == (8192, 8192)
    both = len(network) + len(residual_encoder(shape, 5, WIDTHS["dcgan"]))
    assert both == pytest.approx(78e6, rel=0.03)


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("channels", [1, 3])
def test_all_sizes_of_images(size, channels):
    shape = (size, size, channels)
    encoder, network = residual_encoder(shape, 5, 2), generator(shape, None, 5, 2)
    x, z = images(size, channels), Stream(SEEDS, "z").normal(3, 5)
    assert encoder(weights(encoder), x).shape == (2, 3, 10)
    assert network(weights(network), x, z).shape == (2, 3, *shape)
    last = [layer for layer in network.layers if isinstance(layer, ConvTranspose)][-1]
    assert last.outputs == channels


def test_the_first_convolution_gets_the_unnormalised_image():
    encoder = residual_encoder((64, 64, 3), 5, 2)
    norms = [
        place for place, layer in enumerate(encoder.layers) if isinstance(layer, InstanceNorm)
    ]
    assert norms == [3, 5, 7]


@pytest.mark.parametrize("pixelwise", [True, False])
def test_z_acts_through_normalisation_alone(pixelwise):
    network = generator((32, 32, 1), None, 5, 2, pixelwise=pixelwise)
    buffer, x = weights(network), images(32, 1)
    one, other = (Stream(SEEDS, name).normal(3, 5) for name in ("one", "other"))
    assert not torch.allclose(network(buffer, x, one), network(buffer, x, other), atol=1e-3)
    for name, value in network.named(buffer):
        place, kind = name.split(".")
        if kind == "weight" and isinstance(network.layers[int(place)], AdaptiveNorm):
            value.zero_()
    assert torch.equal(network(buffer, x, one), network(buffer, x, other))


def test_without_adaptive_norms_z_is_part_of_the_input():
    of_image = generator((32, 32, 3), None, 5, 2, adaptive=False)
    of_code = generator((32, 32, 3), 10, 5, 2, adaptive=False)
    assert not of_image.adaptive
    assert not of_code.adaptive
    assert of_image.shapes["0.weight"] == (5, 5, 8, 4)
    assert of_code.shapes["0.weight"] == (15, 256)


def test_normal_weights_are_small_and_biases_have_initial_values():
    network = generator((32, 32, 3), None, 5, 4)
    for name, value in network.named(weights(network, "normal")):
        if name.endswith("weight"):
            assert value.std() == pytest.approx(0.02, rel=0.1)
            assert abs(float(value.mean())) < 5 * 0.02 / value.numel() ** 0.5
        else:
            start = 1.0 if name.endswith("scale") else 0.0
            assert torch.equal(value, torch.full_like(value, start))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("big", "two"), [("big_conv", "dcgan"), ("small_big_conv", "small_dcgan")]
)
def test_big_networks_are_as_large_as_both_stages(big, two, channels):
    shape, width = (64, 64, channels), WIDTHS[two]
    first = sum(map(len, build("conv", shape, 10)))
    second = len(residual_encoder(shape, 5, width)) + len(generator(shape, None, 5, width))
    assert sum(map(len, build(big, shape, 15))) == pytest.approx(first + second, rel=0.02)
