"""Layers: each against its counterpart in torch.nn with the same weights."""

import pytest
import torch
from torch import nn

from unweave.nets.kernels.reference import ACTIVATIONS
from unweave.nets.layers import Conv, ConvTranspose, Expand, Linear, Maps, Reshape

MODELS, BATCH = 3, 5


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def parameters(layer):
    return {
        name: draw(MODELS, *shape, seed=place) / 4
        for place, (name, shape) in enumerate(layer.shapes.items(), 1)
    }


def module(kind, *sizes, weight, bias):
    """A module of torch.nn that holds these weights."""
    made = kind(*sizes)
    assert made.weight.shape == weight.shape
    made.weight.data, made.bias.data = weight.contiguous(), bias
    return made


@pytest.mark.parametrize(
    ("activation", "theirs"),
    [
        ("none", nn.Identity()),
        ("relu", nn.ReLU()),
        ("tanh", nn.Tanh()),
        ("leaky_relu", nn.LeakyReLU(0.2)),
    ],
)
def test_linear_is_torchs_with_every_activation(activation, theirs):
    layer = Linear(7, 4, activation)
    own, x = parameters(layer), draw(MODELS, BATCH, 7)
    output = layer(own, x)
    for m in range(MODELS):
        linear = module(nn.Linear, 7, 4, weight=own["weight"][m].mT, bias=own["bias"][m])
        torch.testing.assert_close(output[m], theirs(linear(x[m])))


def test_linear_has_a_relu_unless_told_otherwise_and_no_other_activations():
    assert Linear(7, 4).activation == "relu"
    assert set(ACTIVATIONS) == {"none", "relu", "tanh", "leaky_relu"}


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("relu", [True, False])
def test_conv_is_torchs_with_stride_two_and_same_padding(kernel, channels, relu):
    layer = Conv(channels, 6, kernel, relu)
    own, x = parameters(layer), draw(MODELS, BATCH, 8, 12, channels)
    output = layer(own, x)
    assert output.shape == (MODELS, BATCH, 4, 6, 6)
    for m in range(MODELS):
        weight = own["weight"][m].permute(3, 2, 0, 1)
        sizes = (channels, 6, kernel, 2, (kernel - 2) // 2)
        conv = module(nn.Conv2d, *sizes, weight=weight, bias=own["bias"][m])
        expected = conv(x[m].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        torch.testing.assert_close(output[m], expected.relu() if relu else expected)


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("relu", [True, False])
def test_conv_transpose_is_torchs_with_stride_two_and_same_padding(kernel, channels, relu):
    layer = ConvTranspose(6, channels, kernel, relu)
    own, x = parameters(layer), draw(MODELS, BATCH, 4, 6, 6)
    output = layer(own, x)
    assert output.shape == (MODELS, BATCH, 8, 12, channels)
    for m in range(MODELS):
        weight = own["weight"][m].permute(3, 2, 0, 1)
        sizes = (6, channels, kernel, 2, (kernel - 2) // 2)
        conv = module(nn.ConvTranspose2d, *sizes, weight=weight, bias=own["bias"][m])
        expected = conv(x[m].permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        torch.testing.assert_close(output[m], expected.relu() if relu else expected)


def test_convolutions_have_a_relu_unless_told_otherwise():
    assert Conv(3, 4, 4).relu
    assert ConvTranspose(4, 3, 4).relu


@pytest.mark.parametrize("activation", ["relu", "none"])
def test_expand_is_torchs_transposed_convolution_of_one_pixel(activation):
    layer = Expand(7, 3, 4, activation)
    own, x = parameters(layer), draw(MODELS, BATCH, 7)
    output = layer(own, x)
    assert output.shape == (MODELS, BATCH, 4, 4, 3)
    for m in range(MODELS):
        weight = own["weight"][m].view(7, 4, 4, 3).permute(0, 3, 1, 2)
        conv = module(nn.ConvTranspose2d, 7, 3, 4, 1, 0, weight=weight, bias=own["bias"][m])
        expected = conv(x[m][:, :, None, None]).permute(0, 2, 3, 1)
        torch.testing.assert_close(
            output[m], expected.relu() if activation == "relu" else expected
        )


def test_reshape_keeps_models_batch_and_order():
    x = draw(MODELS, BATCH, 4, 4, 2)
    flat = Reshape((32,))({}, x)
    assert torch.equal(flat, x.flatten(2))
    assert torch.equal(Reshape((4, 4, 2))({}, flat), x)
    assert Reshape((32,)).shapes == {}


@pytest.mark.parametrize(
    ("layer", "theirs"),
    [
        (Linear(7, 4), nn.Linear(7, 4)),
        (Conv(3, 6, 4), nn.Conv2d(3, 6, 4)),
        (ConvTranspose(6, 3, 4), nn.ConvTranspose2d(6, 3, 4)),
        (Expand(7, 3), nn.ConvTranspose2d(7, 3, 4)),
    ],
)
def test_fans_are_those_that_torch_computes_from_its_weights(layer, theirs):
    assert layer.fans == nn.init._calculate_fan_in_and_fan_out(theirs.weight)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (Linear(7, 4), (7,)),
        (Conv(3, 6, 4), (8, 8, 3)),
        (ConvTranspose(6, 3, 4), (4, 4, 6)),
        (Expand(7, 3), (7,)),
    ],
)
def test_a_layer_computes_in_the_precision_of_its_parameters(layer, shape):
    own, x = parameters(layer), draw(MODELS, BATCH, *shape)
    double = layer({name: value.double() for name, value in own.items()}, x.double())
    assert double.dtype == torch.float64
    assert layer(own, x).dtype == torch.float32
    torch.testing.assert_close(layer(own, x), double.float())


def test_maps_are_matrices_as_one_writes_them():
    layer = Maps(2, 4)
    own, x = parameters(layer), draw(MODELS, BATCH, 4)
    output = layer(own, x)
    assert output.shape == (MODELS, 2, BATCH, 4)
    assert own["weight"].shape == (MODELS, 2, 4, 4)
    assert layer.fans == (4, 4)
    for m in range(MODELS):
        for k in range(2):
            for b in range(BATCH):
                torch.testing.assert_close(output[m, k, b], own["weight"][m, k] @ x[m, b])
