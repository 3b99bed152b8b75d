"""Architectures: sizes as published, outputs as an independent torch.nn network's."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from tests.raising import about
from unweave.errors import UnknownNameError, UnweaveError
from unweave.nets.architectures import ARCHITECTURES, build, discriminator
from unweave.nets.layers import Conv, ConvTranspose, Pad
from unweave.nets.sizes import feature_map


@pytest.mark.parametrize(
    ("name", "channels", "encoder", "decoder"),
    [
        ("conv", 1, 309_204, 381_313),
        ("conv", 3, 310_228, 382_339),
        ("conv4x4", 1, 382_932, 380_353),
        ("conv4x4", 3, 383_956, 381_379),
    ],
)
def test_parameter_counts_are_the_published_ones(name, channels, encoder, decoder):
    networks = build(name, (64, 64, channels), 10)
    assert tuple(map(len, networks)) == (encoder, decoder)
    # Half or twice the size is one layer of 32 to 32 channels less or more at either end.
    one = 4 * 4 * 32 * 32 + 32
    small, big = build(name, (32, 32, channels), 10), build(name, (128, 128, channels), 10)
    assert tuple(map(len, small)) == (encoder - one, decoder - one)
    assert tuple(map(len, big)) == (encoder + one, decoder + one)


@pytest.mark.parametrize(("shape", "latents"), [((64, 64, 1), 20), ((28, 20, 3), 5)])
def test_mlp_parameter_counts_are_those_of_its_matrices(shape, latents):
    pixels = shape[0] * shape[1] * shape[2]
    encoder, decoder = build("mlp", shape, latents)
    square = 1200 * 1200 + 1200
    assert len(encoder) == pixels * 1200 + 1200 + square + 1200 * 2 * latents + 2 * latents
    assert len(decoder) == latents * 1200 + 1200 + 2 * square + 1200 * pixels + pixels


def test_the_discriminator_has_the_published_size():
    assert len(discriminator(10)) == 5_018_002
    assert len(discriminator(10)) - len(discriminator(10, hidden=5)) == 1000 * 1000 + 1000


@pytest.mark.parametrize("name", ["conv", "conv4x4", "broadcast"])
@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("channels", [1, 3])
def test_outputs_have_the_shape_of_codes_and_images(name, size, channels):
    shape = (size, size, channels)
    encoder, decoder = build(name, shape, 7)
    codes = encoder(torch.zeros(2, encoder.width), torch.zeros(2, 3, *shape))
    assert codes.shape == (2, 3, 14)
    images = decoder(torch.zeros(2, decoder.width), torch.zeros(2, 3, 7))
    assert images.shape == (2, 3, *shape)


def test_mlp_outputs_have_the_shape_of_codes_and_images():
    encoder, decoder = build("mlp", (6, 5, 3), 4)
    assert encoder(torch.zeros(2, encoder.width), torch.zeros(2, 3, 6, 5, 3)).shape == (2, 3, 8)
    assert decoder(torch.zeros(2, decoder.width), torch.zeros(2, 3, 4)).shape == (2, 3, 6, 5, 3)


@pytest.mark.parametrize(("size", "down", "up"), [(32, 3, 3), (64, 4, 4), (128, 5, 5)])
def test_kernels_and_widths_at_every_size(size, down, up):
    encoder, decoder = build("conv", (size, size, 3), 10)
    convs = [layer for layer in encoder.layers if isinstance(layer, Conv)]
    assert [conv.kernel for conv in convs] == [4, 4, 4, 2, 2][-down:]
    assert [conv.outputs for conv in convs] == [32, 32, 32, 64, 64][-down:]
    ups = [layer for layer in decoder.layers if isinstance(layer, ConvTranspose)]
    assert [conv.outputs for conv in ups] == [*[64, 32, 32, 32][: up - 1], 3]
    assert [conv.relu for conv in ups] == [True] * (up - 1) + [False]
    assert {conv.kernel for conv in ups} == {4}


def load(module, weight, bias):
    assert module.weight.shape == weight.shape
    assert module.bias.shape == bias.shape
    module.weight.data, module.bias.data = weight.contiguous(), bias.contiguous()
    return module


def linear(parameters, name, inputs, outputs):
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return load(nn.Linear(inputs, outputs), weight.mT, bias)


def conv(parameters, name, *sizes, kind=nn.Conv2d):
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return load(kind(*sizes), weight.permute(3, 2, 0, 1), bias)


def heads(parameters, name, inputs, latents):
    """Mean and log-variance as two layers, whose outputs are put side by side."""
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    halves = [slice(0, latents), slice(latents, 2 * latents)]
    two = [load(nn.Linear(inputs, latents), weight[:, half].mT, bias[half]) for half in halves]
    return lambda x: torch.cat([head(x) for head in two], 1)


def downwards(parameters, channels, kernels):
    widths = [channels, 32, 32, 64, 64]
    layers = []
    for place, kernel in enumerate(kernels):
        sizes = (widths[place], widths[place + 1], kernel, 2, (kernel - 2) // 2)
        layers += [conv(parameters, place, *sizes), nn.ReLU()]
    return layers


def upwards(parameters, channels, start, widths=(64, 64, 32, 32)):
    layers = []
    for place, sizes in enumerate(pairwise([*widths, channels]), start):
        layers += [conv(parameters, place, *sizes, 4, 2, 1, kind=nn.ConvTranspose2d), nn.ReLU()]
    return layers[:-1]


def conv_encoder(parameters, channels, latents):
    dense = linear(parameters, 5, 1024, 256)
    # Channels first, the 4 × 4 × 64 values reach the dense layer in another order.
    weight = dense.weight.data.view(256, 4, 4, 64).permute(0, 3, 1, 2).flatten(1)
    load(dense, weight, dense.bias.data)
    body = [*downwards(parameters, channels, (4, 4, 2, 2)), nn.Flatten(), dense, nn.ReLU()]
    two = heads(parameters, 6, 256, latents)
    return lambda x: two(nn.Sequential(*body)(x))


def conv_decoder(parameters, channels, latents):
    first, second = linear(parameters, 0, latents, 256), linear(parameters, 1, 256, 1024)
    weight = second.weight.data.view(4, 4, 64, 256).permute(2, 0, 1, 3).flatten(0, 2)
    load(second, weight, second.bias.data.view(4, 4, 64).permute(2, 0, 1).flatten())
    dense = [first, nn.ReLU(), second, nn.ReLU(), nn.Unflatten(1, (64, 4, 4))]
    return nn.Sequential(*dense, *upwards(parameters, channels, 3))


def conv4x4_encoder(parameters, channels, latents):
    weight, bias = parameters["5.weight"].view(4, 4, 64, 256), parameters["5.bias"]
    collapse = load(nn.Conv2d(64, 256, 4, 1, 0), weight.permute(3, 2, 0, 1), bias)
    body = [*downwards(parameters, channels, (4, 4, 4, 4)), collapse, nn.ReLU(), nn.Flatten()]
    two = heads(parameters, 6, 256, latents)
    return lambda x: two(nn.Sequential(*body)(x))


def conv4x4_decoder(parameters, channels, latents):
    weight, bias = parameters["1.weight"].view(256, 4, 4, 64), parameters["1.bias"]
    expand = load(nn.ConvTranspose2d(256, 64, 4, 1, 0), weight.permute(0, 3, 1, 2), bias)
    first = [linear(parameters, 0, latents, 256), nn.ReLU(), nn.Unflatten(1, (256, 1, 1))]
    return nn.Sequential(*first, expand, nn.ReLU(), *upwards(parameters, channels, 2))


def broadcast_decoder(parameters, channels, latents):
    """Dense layers of 64 at 8 × 8 positions, of the code, x and y; then 4 × 4 convolutions."""
    side = torch.linspace(-1, 1, 8)
    y, x = side[:, None].expand(8, 8), side[None].expand(8, 8)
    layers = []
    for place, inputs in enumerate((latents + 2, 64, 64), 1):
        layers += [linear(parameters, place, inputs, 64), nn.ReLU()]
    ups = nn.Sequential(*upwards(parameters, channels, 4, (64, 32, 32)))

    def decode(codes):
        each = codes[:, None, None].expand(-1, 8, 8, -1)
        place = torch.stack([x, y], -1).expand(len(codes), -1, -1, -1)
        return ups(nn.Sequential(*layers)(torch.cat([each, place], -1)).permute(0, 3, 1, 2))

    return decode


def mlp_encoder(parameters, pixels, latents):
    body = [nn.Flatten(), linear(parameters, 1, pixels, 1200), nn.ReLU()]
    body += [linear(parameters, 2, 1200, 1200), nn.ReLU()]
    two = heads(parameters, 3, 1200, latents)
    return lambda x: two(nn.Sequential(*body)(x))


def mlp_decoder(parameters, pixels, latents):
    layers = [linear(parameters, 0, latents, 1200), nn.Tanh()]
    layers += [linear(parameters, 1, 1200, 1200), nn.Tanh()]
    layers += [linear(parameters, 2, 1200, 1200), nn.Tanh()]
    return nn.Sequential(*layers, linear(parameters, 3, 1200, pixels))


def random_buffer(network, models=2):
    """Torch's initialisation, whose biases are not zero."""
    return network.initial(torch.arange(models), "test", "torch")


def of_model(network, buffer, model):
    return {name: part[model] for name, part in network.named(buffer)}


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "encode", "decode"),
    [
        ("conv", conv_encoder, conv_decoder),
        ("conv4x4", conv4x4_encoder, conv4x4_decoder),
        ("broadcast", conv_encoder, broadcast_decoder),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_outputs_are_those_of_an_independent_network(name, encode, decode, channels):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 64, 64, channels, generator=generator)
    codes = torch.randn(2, 3, 10, generator=generator)
    encoder, decoder = build(name, (64, 64, channels), 10)
    weights, others = random_buffer(encoder), random_buffer(decoder)
    encoded, decoded = encoder(weights, images), decoder(others, codes)
    for m in range(2):
        theirs = encode(of_model(encoder, weights, m), channels, 10)
        expected = theirs(images[m].permute(0, 3, 1, 2))
        assert expected.std() > 1e-3
        torch.testing.assert_close(encoded[m], expected, rtol=1e-5, atol=1e-6)
        expected = decode(of_model(decoder, others, m), channels, 10)(codes[m])
        assert expected.std() > 1e-3
        torch.testing.assert_close(decoded[m], expected.permute(0, 2, 3, 1), rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_mlp_outputs_are_those_of_an_independent_network():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 4, 5, 2, generator=generator)
    codes = torch.randn(2, 3, 6, generator=generator)
    encoder, decoder = build("mlp", (4, 5, 2), 6)
    weights, others = random_buffer(encoder), random_buffer(decoder)
    encoded, decoded = encoder(weights, images), decoder(others, codes)
    for m in range(2):
        expected = mlp_encoder(of_model(encoder, weights, m), 40, 6)(images[m])
        torch.testing.assert_close(encoded[m], expected, rtol=1e-5, atol=1e-6)
        expected = mlp_decoder(of_model(decoder, others, m), 40, 6)(codes[m])
        torch.testing.assert_close(decoded[m].flatten(1), expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_discriminator_outputs_are_those_of_an_independent_network():
    network = discriminator(10)
    buffer = 2.5 * random_buffer(network, 1)  # deep enough to fade otherwise
    codes = torch.randn(1, 8, 10, generator=torch.Generator().manual_seed(0))
    parameters = of_model(network, buffer, 0)
    layers = []
    for place in range(6):
        layers += [linear(parameters, place, 1000 if place else 10, 1000), nn.LeakyReLU(0.2)]
    theirs = nn.Sequential(*layers, linear(parameters, 6, 1000, 2))
    logits = network(buffer, codes)
    assert logits.shape == (1, 8, 2)
    assert logits.min() < -0.1
    assert logits.max() > 0.1
    torch.testing.assert_close(logits[0], theirs(codes[0]), rtol=1e-5, atol=1e-6)


SIZES = [(16, 16, 1), (28, 28, 1), (48, 80, 3), (100, 60, 5), (256, 16, 2), (17, 200, 100)]


@pytest.mark.parametrize("name", ["conv", "conv4x4", "broadcast", "residual"])
@pytest.mark.parametrize("shape", SIZES)
def test_images_of_other_sizes(name, shape):
    encoder, decoder = build(name, shape, 4)
    seeds = torch.arange(1)
    images = torch.rand(1, 2, *shape, generator=torch.Generator().manual_seed(0))
    codes = encoder(encoder.initial(seeds, "encoder"), images)
    assert codes.shape == (1, 2, 8)
    decoded = decoder(decoder.initial(seeds, "decoder"), codes[..., :4])
    assert decoded.shape == images.shape
    # Each pixel of the border reaches the codes, and is decoded from them.
    own = encoder.initial(seeds, "encoder")
    corner = images.clone()
    corner[:, :, -1, -1] += 1
    assert not torch.equal(encoder(own, corner), codes)
    assert (decoded[0].flatten(2).std(1) > 0).float().mean() > 0.9


@pytest.mark.parametrize("shape", SIZES)
def test_feature_maps_have_about_16_positions_and_every_layer_even_sides(shape):
    encoder, decoder = build("conv", shape, 4)
    small = feature_map(shape)
    assert 6 <= small.cells <= 36
    step = 2**small.halvings
    left, right, top, bottom = small.margins
    assert (shape[0] + top + bottom, shape[1] + left + right) == (
        step * small.height,
        step * small.width,
    )
    assert 0 <= left <= right <= left + 1 <= step
    convs = [layer for layer in encoder.layers if isinstance(layer, Conv)]
    ups = [layer for layer in decoder.layers if isinstance(layer, ConvTranspose)]
    assert len(convs) == len(ups) == small.halvings
    assert isinstance(encoder.layers[0], Pad) == isinstance(decoder.layers[-1], Pad)
    assert isinstance(encoder.layers[0], Pad) == any(small.margins)


@pytest.mark.parametrize("name", ["conv", "conv4x4", "residual"])
@pytest.mark.parametrize("shape", [(15, 64, 1), (64, 257, 3), (64, 64, 2000)])
def test_other_sizes_are_refused_with_advice(name, shape):
    with pytest.raises(UnweaveError, check=about("shape", shape)):
        ARCHITECTURES[name].encoder(shape, 10)
    with pytest.raises(UnweaveError, check=about("shape", shape)):
        ARCHITECTURES[name].decoder(shape, 10)


@pytest.mark.parametrize("shape", [(28, 28, 1), (16, 16, 3), (256, 256, 3), (64, 32, 1)])
def test_fixed_feature_maps_need_square_images(shape):
    for network in (ARCHITECTURES["big_conv"].encoder, ARCHITECTURES["big_conv"].decoder):
        with pytest.raises(UnweaveError, check=about("shape", shape)):
            network(shape, 10)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, check=about("architecture", "conv4x5")):
        build("conv4x5", (64, 64, 1), 10)


def test_style_networks_have_the_published_sizes():
    """7.65 million parameters for QLAE, 4.1 and 16.1 million for Tripod; 12 means each."""
    encoder, decoder = build("style_conv", (64, 64, 3), 12)
    of_log_variances = 12 * 256 + 12
    assert len(encoder) + len(decoder) - of_log_variances == 7_651_660
    encoder, decoder = build("style_resnet", (64, 64, 3), 12)
    assert len(encoder) - (12 * 512 + 12) == 4_098_092
    assert len(decoder) == 16_140_163


def by_torch(parameters, place, x, kind=nn.functional.conv2d, **settings):
    """A convolution of one model, channels first."""
    weight, bias = parameters[f"{place}.weight"], parameters.get(f"{place}.bias")
    return kind(x, weight.permute(3, 2, 0, 1), bias, **settings)


def modulated(parameters, place, x, code, rectified):
    both = code @ parameters[f"{place}.weight"]
    both = both + torch.cat([parameters[f"{place}.scale"], parameters[f"{place}.shift"]])
    both = both.relu() if rectified else both
    scale, shift = both[:, :, None, None].chunk(2, 1)
    return nn.functional.instance_norm(x) * scale + shift


def scaled(parameters, place, x):
    scale, shift = (parameters[f"{place}.{name}"] for name in ("scale", "shift"))
    return nn.functional.instance_norm(x, weight=scale, bias=shift)


def dense(parameters, place, x):
    return x @ parameters[f"{place}.weight"] + parameters[f"{place}.bias"]


def gelu(x):
    return nn.functional.gelu(x, approximate="tanh")


def style_conv_encoder(p, x):
    for place in range(0, 18, 2):
        settings = {"stride": 2, "padding": 1} if place % 6 == 4 else {"padding": 1}
        x = by_torch(p, place, x, **settings)
        x = nn.functional.leaky_relu(scaled(p, place + 1, x), 0.2)
    x = x.permute(0, 2, 3, 1).flatten(1)
    return dense(p, 21, dense(p, 20, dense(p, 19, x).relu()).relu())


def style_conv_decoder(p, z):
    code = dense(p, 1, dense(p, 0, z).relu()).relu()
    x = p["2.map"].permute(2, 0, 1).expand(len(z), -1, -1, -1)
    for place in range(3, 30, 3):
        up = (place // 3) % 3 == 0
        kind = nn.functional.conv_transpose2d if up else nn.functional.conv2d
        settings = {"stride": 2, "padding": 1} if up else {"padding": 1}
        x = by_torch(p, place, x, kind, **settings)
        x = modulated(p, place + 2, nn.functional.leaky_relu(x, 0.2), code, rectified=True)
    return by_torch(p, 30, x, padding=1)


def gelu_mlp(p, x, width=128):
    """The encoder begins with a reshape, so its layers are one later."""
    start = int("1.weight" in p)
    for place in (start, start + 2):
        scale, shift = p[f"{place + 1}.scale"], p[f"{place + 1}.shift"]
        x = gelu(nn.functional.layer_norm(dense(p, place, x), (width,), scale, shift))
    return dense(p, start + 4, x)


@torch.no_grad()
def test_gelu_mlps_are_those_of_independent_ones():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(1, 5, 6, 5, 3, generator=generator), torch.randn(1, 5, 4)
    for network, x in zip(build("gelu_mlp", (6, 5, 3), 4), inputs, strict=True):
        weights = network.initial(torch.arange(1), "test", "torch")
        expected = gelu_mlp(of_model(network, weights, 0), x[0].flatten(1))
        assert expected.std() > 1e-3
        torch.testing.assert_close(network(weights, x)[0].flatten(1), expected)


def style_resnet_encoder(p, x):
    place = 0
    for _ in range(3):
        for _ in range(2):
            start = x
            for at in (place + 1, place + 3):
                x = gelu(scaled(p, at + 1, by_torch(p, at, x, padding=1)))
            if f"{place + 5}.weight" in p:
                start = torch.einsum("bchw,co->bohw", start, p[f"{place + 5}.weight"])
                start = start + p[f"{place + 5}.bias"][:, None, None]
            x, place = start + x, place + 6
        x, place = by_torch(p, place, x, stride=2), place + 1
    x = dense(p, 40, x.mean((2, 3)))
    x = nn.functional.layer_norm(x, (512,), p["41.scale"], p["41.shift"])
    return dense(p, 42, gelu(x))


def style_resnet_decoder(p, code):
    for place in (0, 2):
        scale, shift = p[f"{place + 1}.scale"], p[f"{place + 1}.shift"]
        code = gelu(nn.functional.layer_norm(dense(p, place, code), (256,), scale, shift))
    x, place = p["4.ones"].permute(2, 0, 1).expand(len(code), -1, -1, -1), 5
    for _ in range(3):
        for _ in range(2):
            start = x
            for at in (place + 1, place + 3):
                x = by_torch(p, at, x, padding=1)
                x = gelu(modulated(p, at + 1, x, code, rectified=False))
            x, place = start + x, place + 6
        x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
        x, place = by_torch(p, place, x, padding=1), place + 1
    return x


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "encode", "decode"),
    [
        ("style_conv", style_conv_encoder, style_conv_decoder),
        ("style_resnet", style_resnet_encoder, style_resnet_decoder),
    ],
)
def test_style_networks_are_those_of_independent_ones(name, encode, decode):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 2, 32, 32, 3, generator=generator)
    codes = torch.randn(2, 2, 4, generator=generator)
    for network, inputs, theirs in zip(
        build(name, (32, 32, 3), 4), (images, codes), (encode, decode), strict=True
    ):
        weights = network.initial(torch.arange(2), "test", "torch")
        found = network(weights, inputs)
        for m in range(2):
            own = inputs[m].permute(0, 3, 1, 2) if inputs is images else inputs[m]
            expected = theirs(of_model(network, weights, m), own)
            expected = expected.permute(0, 2, 3, 1) if expected.ndim == 4 else expected
            assert expected.std() > 1e-3
            torch.testing.assert_close(found[m], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("conv", [(256,), (4, 4, 64), (8, 8, 64), (16, 16, 32)]),
        ("style_conv", [(256,), (8, 8, 256), (16, 16, 128), (32, 32, 64)]),
        ("small_mlp", [(128,), (128,), (128,)]),
        ("gelu_mlp", [(128,), (128,)]),
    ],
)
def test_hidden_layers_are_available(name, shapes):
    """Computing them alone gives the values that they have in the whole network."""
    _, decoder = build(name, (32, 32, 1), 4)
    weights, codes = random_buffer(decoder), torch.randn(2, 3, 4).requires_grad_()
    found = []
    last = decoder(weights, codes, hidden=found)
    assert [tuple(x.shape[2:]) for x in found] == shapes
    assert last is found[-1]
    expected = []
    for place in decoder.hidden_places:
        part = type(decoder)(decoder.layers[: place + 1])
        named = dict(decoder.named(weights))
        expected.append(part({key: named[key] for key in part.shapes}, codes))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    gradients = [torch.autograd.grad(x.sum(), codes, retain_graph=True)[0] for x in found]
    theirs = [torch.autograd.grad(x.sum(), codes, retain_graph=True)[0] for x in expected]
    torch.testing.assert_close(gradients, theirs)
