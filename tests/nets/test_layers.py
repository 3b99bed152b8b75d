"""Layers: each against its counterpart in torch.nn with the same weights."""

import pytest
import torch
from torch import nn

from unweave.kernels.reference import ACTIVATIONS
from unweave.nets.layers import (
    Conv,
    ConvTranspose,
    Expand,
    LearnedMap,
    Linear,
    Maps,
    Reshape,
    SameConv,
    Spreads,
)
from unweave.nets.norms import AdaptiveNorm, BatchNorm, InstanceNorm, LayerNorm, ScaledNorm

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
        ("gelu", nn.GELU("tanh")),
    ],
)
def test_linear_is_torchs_with_every_activation(activation, theirs):
    layer = Linear(7, 4, activation)
    own, x = parameters(layer), draw(MODELS, BATCH, 7)
    output = layer(own, x)
    for m in range(MODELS):
        linear = module(nn.Linear, 7, 4, weight=own["weight"][m].mT, bias=own["bias"][m])
        torch.testing.assert_close(output[m], theirs(linear(x[m])))


def test_linear_has_a_relu_by_default():
    assert Linear(7, 4).activation == "relu"
    assert set(ACTIVATIONS) == {"none", "relu", "tanh", "leaky_relu", "gelu"}


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


def test_convolutions_have_a_relu_by_default():
    assert Conv(3, 4, 4).relu
    assert ConvTranspose(4, 3, 4).relu


@pytest.mark.parametrize("activation", ["relu", "none"])
def test_expand_is_torchs_transposed_convolution_of_one_pixel(activation):
    layer = Expand(7, 3, activation=activation)
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
        (SameConv(3, 6), (8, 8, 3)),
        (ScaledNorm(3, "gelu"), (8, 8, 3)),
        (LayerNorm(7, "none"), (7,)),
        (LearnedMap(4, 3), (7,)),
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


@pytest.mark.parametrize("channels", [1, 3])
def test_five_taps_are_those_of_tensorflows_same_padding(channels):
    """One pixel more is added after the image than before it."""
    layer = Conv(channels, 6, 5, relu=False)
    own, x = parameters(layer), draw(MODELS, BATCH, 8, 12, channels)
    output = layer(own, x)
    assert output.shape == (MODELS, BATCH, 4, 6, 6)
    for m in range(MODELS):
        weight = own["weight"][m].permute(3, 2, 0, 1)
        conv = module(nn.Conv2d, channels, 6, 5, 2, 0, weight=weight, bias=own["bias"][m])
        padded = nn.functional.pad(x[m].permute(0, 3, 1, 2), (1, 2, 1, 2))
        torch.testing.assert_close(output[m], conv(padded).permute(0, 2, 3, 1))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_transpose_of_five_taps_is_their_adjoint(channels):
    down, up = Conv(channels, 6, 5, relu=False), ConvTranspose(6, channels, 5, relu=False)
    weight = draw(MODELS, 5, 5, channels, 6, seed=3).double().requires_grad_()
    large, small = draw(MODELS, 2, 8, 12, channels).double(), draw(MODELS, 2, 4, 6, 6).double()
    nothing = {"weight": weight}
    there = down({**nothing, "bias": torch.zeros(MODELS, 6).double()}, large)
    back = up({**nothing, "bias": torch.zeros(MODELS, channels).double()}, small)
    torch.testing.assert_close((there * small).sum(), (large * back).sum())
    (one,) = torch.autograd.grad((there * small).sum(), weight)
    (other,) = torch.autograd.grad((large * back).sum(), weight)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close((one * weight).sum(), (there * small).sum())


def test_adaptive_norm_sets_mean_and_deviation_from_the_code():
    layer = AdaptiveNorm(6, 4, "none")
    own, code = parameters(layer), draw(MODELS, BATCH, 4, seed=9)
    image = 3 * draw(MODELS, BATCH, 8, 8, 6, seed=8) + 2
    output = layer(own, image, code)
    for m in range(MODELS):
        said = code[m] @ own["weight"][m]
        scale, shift = said[:, :6] + own["scale"][m], said[:, 6:] + own["shift"][m]
        deviation, mean = torch.std_mean(output[m], (1, 2), correction=0)
        torch.testing.assert_close(mean, shift, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(deviation, scale.abs(), rtol=1e-4, atol=1e-4)


def test_adaptive_norm_without_weights_ignores_the_code():
    layer = AdaptiveNorm(6, 4, "relu")
    own = {
        "weight": torch.zeros(MODELS, 4, 12),
        "scale": torch.ones(MODELS, 6),
        "shift": torch.zeros(MODELS, 6),
    }
    image = draw(MODELS, BATCH, 8, 8, 6)
    output = layer(own, image, draw(MODELS, BATCH, 4, seed=1))
    assert torch.equal(output, layer(own, image, draw(MODELS, BATCH, 4, seed=2)))
    torch.testing.assert_close(output, InstanceNorm("relu")({}, image))


def test_pixelwise_adaptive_norm_is_rectified_and_another_for_each_pixel():
    layer = AdaptiveNorm(3, 2, "none", pixels=(4, 4))
    own, code = parameters(layer), draw(MODELS, BATCH, 2, seed=9)
    image = draw(MODELS, BATCH, 4, 4, 3)
    said = torch.einsum("mbz,mzo->mbo", code, own["weight"])
    scale, shift = said.unflatten(-1, (2, 4, 4, 3)).unbind(2)
    scale = (scale + own["scale"].view(MODELS, 1, 4, 4, 3)).clamp_min(0)
    shift = (shift + own["shift"].view(MODELS, 1, 4, 4, 3)).clamp_min(0)
    expected = scale * InstanceNorm("none")({}, image) + shift
    torch.testing.assert_close(layer(own, image, code), expected)


def test_instance_norm_is_torchs():
    image = 5 * draw(MODELS, BATCH, 8, 8, 6) - 1
    output = InstanceNorm("leaky_relu")({}, image)
    for m in range(MODELS):
        theirs = nn.functional.instance_norm(image[m].permute(0, 3, 1, 2))
        expected = nn.functional.leaky_relu(theirs, 0.2).permute(0, 2, 3, 1)
        torch.testing.assert_close(output[m], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(8, 8), ()])
def test_batch_norm_is_torchs_in_training(shape):
    layer = BatchNorm(6, "relu")
    own, x = parameters(layer), 2 * draw(MODELS, BATCH, *shape, 6) + 1
    output = layer(own, x)
    for m in range(MODELS):
        theirs = nn.functional.batch_norm(
            x[m].movedim(-1, 1), None, None, own["scale"][m], own["shift"][m], training=True
        )
        torch.testing.assert_close(output[m], theirs.movedim(1, -1).relu(), rtol=1e-5, atol=1e-5)


def test_spreads_are_the_softplus_of_the_second_half():
    x = 3 * draw(MODELS, BATCH, 8)
    mean, logvar = Spreads()({}, x).chunk(2, -1)
    assert torch.equal(mean, x[..., :4])
    torch.testing.assert_close((logvar / 2).exp(), nn.functional.softplus(x[..., 4:]))
    assert torch.isfinite(Spreads()({}, torch.full((1, 1, 2), -1e4))).all()
