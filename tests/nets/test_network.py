"""Networks: the flat buffer, its views and gradients, and initialisation."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

from unweave.nets.architectures import build
from unweave.nets.layers import Conv, ConvTranspose, Expand, Linear, Reshape
from unweave.nets.likelihoods import mean_image
from unweave.nets.network import Network

SMALL = Network(
    (
        Conv(3, 4, 4),
        Conv(4, 5, 2),
        Reshape((20,)),
        Linear(20, 6, "tanh"),
        Linear(6, 4, "none", fan=(6, 2)),
        Expand(4, 2),
        ConvTranspose(2, 3, 4, relu=False),
    )
)
# Layers with the fans that the papers' libraries give them.
LAYERS = {
    "conv 4": (Conv(3, 32, 4), (16 * 3, 16 * 32)),
    "conv 2": (Conv(32, 64, 2), (4 * 32, 4 * 64)),
    "transposed": (ConvTranspose(64, 32, 4), (16 * 32, 16 * 64)),
    "to the image": (ConvTranspose(32, 1, 4, relu=False), (16 * 1, 16 * 32)),
    "dense": (Linear(256, 64), (256, 64)),
    "expand": (Expand(32, 20), (16 * 20, 16 * 32)),
}
EVERY_LAYER = pytest.mark.parametrize(("layer", "fans"), LAYERS.values(), ids=LAYERS)


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype)


def initial(layer, init="glorot", seeds=8):
    """Return the initial parameters of a layer for all models."""
    network = Network((layer,))
    named = network.named(network.initial(torch.arange(seeds), "test", init))
    return {name.removeprefix("0."): part for name, part in named}


def assert_uniform(values, bound):
    values = values.flatten().double()
    assert values.abs().max() <= bound * (1 + 1e-6)
    # The largest of n falls short of the bound by more than 12 / n about once in e¹² times.
    assert values.abs().max() > bound * (1 - 12 / len(values))
    assert stats.kstest(values.numpy(), "uniform", (-bound, 2 * bound)).pvalue > 1e-3


def test_the_buffer_contains_weight_then_bias_of_each_layer():
    assert dict(SMALL.shapes) == {
        "0.weight": (4, 4, 3, 4),
        "0.bias": (4,),
        "1.weight": (2, 2, 4, 5),
        "1.bias": (5,),
        "3.weight": (20, 6),
        "3.bias": (6,),
        "4.weight": (6, 4),
        "4.bias": (4,),
        "5.weight": (4, 32),
        "5.bias": (2,),
        "6.weight": (4, 4, 3, 2),
        "6.bias": (3,),
    }
    assert list(SMALL.shapes)[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert len(SMALL) == 192 + 4 + 80 + 5 + 120 + 6 + 24 + 4 + 128 + 2 + 96 + 3
    assert SMALL.initial(torch.arange(3), "test").shape == (3, SMALL.width)


def test_parameters_by_name_round_trip_through_the_buffer():
    buffer = draw(3, SMALL.width)
    named = dict(SMALL.named(buffer))
    assert {name: part.shape[1:] for name, part in named.items()} == dict(SMALL.shapes)
    start = 0
    for name, shape in SMALL.shapes.items():
        end = start + math.prod(shape)
        assert torch.equal(named[name], buffer[:, start:end].reshape(3, *shape))
        start = end + -end % 16
    assert start == SMALL.width
    again = SMALL.packed(named)
    for name, part in SMALL.named(again):
        assert torch.equal(part, named[name])
    assert again.count_nonzero() == 3 * len(SMALL)


def test_named_parameters_are_views_to_write_through():
    buffer = torch.zeros(3, SMALL.width)
    for place, (_, part) in enumerate(SMALL.named(buffer)):
        assert part.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
        part.fill_(place + 1)
    counts = {place + 1.0: math.prod(shape) for place, shape in enumerate(SMALL.shapes.values())}
    for row in buffer:
        values, found = row[row > 0].unique(return_counts=True)
        assert dict(zip(values.tolist(), found.tolist(), strict=True)) == counts


def test_a_buffer_of_the_wrong_width_is_refused():
    with pytest.raises(ValueError, match="buffer"):
        dict(SMALL.named(torch.zeros(3, SMALL.width + 1)))


def test_a_network_and_its_gradient_match_its_layers():
    buffer, x = draw(3, SMALL.width).requires_grad_(), draw(3, 2, 8, 8, 3, seed=1)
    output = SMALL(buffer, x)
    (together,) = torch.autograd.grad(output.square().sum(), buffer)
    leaves = {name: part.detach().clone().requires_grad_() for name, part in SMALL.named(buffer)}
    y = x
    for place, layer in enumerate(SMALL.layers):
        y = layer({name: leaves.get(f"{place}.{name}") for name in ("weight", "bias")}, y)
    torch.testing.assert_close(output, y)
    apart = torch.autograd.grad(y.square().sum(), list(leaves.values()))
    assert all(gradient.abs().max() > 0 for gradient in apart)
    torch.testing.assert_close(together, SMALL.packed(dict(zip(leaves, apart, strict=True))))


def test_a_model_in_a_fleet_matches_a_single_model():
    buffer, x = draw(3, SMALL.width).requires_grad_(), draw(3, 2, 8, 8, 3, seed=1)
    output = SMALL(buffer, x)
    (gradient,) = torch.autograd.grad(output.square().sum(), buffer)
    for m in range(3):
        own = buffer[m : m + 1].detach().requires_grad_()
        alone = SMALL(own, x[m : m + 1])
        torch.testing.assert_close(alone[0], output[m], rtol=1e-12, atol=1e-12)
        (own_gradient,) = torch.autograd.grad(alone.square().sum(), own)
        torch.testing.assert_close(own_gradient[0], gradient[m], rtol=1e-11, atol=1e-11)


@EVERY_LAYER
def test_glorot_weights_are_uniform_within_their_bound_and_biases_zero(layer, fans):
    parameters = initial(layer)
    assert_uniform(parameters["weight"], math.sqrt(6 / sum(fans)))
    assert torch.equal(parameters["bias"], torch.zeros_like(parameters["bias"]))


@pytest.mark.parametrize("architecture", ["conv", "conv4x4"])
@pytest.mark.parametrize("latents", [3, 10])
def test_each_head_is_initialised_with_its_fan(architecture, latents):
    encoder, _ = build(architecture, (32, 32, 1), latents)
    heads = encoder.layers[-1]
    weight = initial(heads)["weight"]
    bound = math.sqrt(6 / (256 + latents))
    assert bound > math.sqrt(6 / (256 + 2 * latents))
    assert_uniform(weight[..., :latents], bound)
    assert_uniform(weight[..., latents:], bound)
    assert_uniform(initial(heads, "torch")["weight"], 1 / 16)


def test_mlp_heads_are_initialised_with_their_fan():
    encoder, _ = build("mlp", (8, 8, 1), 10)
    assert_uniform(initial(encoder.layers[-1])["weight"], math.sqrt(6 / (1200 + 10)))


def test_a_convolution_in_place_of_the_dense_layer_has_a_convolutions_fans():
    encoder, _ = build("conv4x4", (64, 64, 3), 10)
    weight = initial(encoder.layers[-2], seeds=1)["weight"]
    assert_uniform(weight, math.sqrt(6 / (16 * 64 + 16 * 256)))


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (Conv(3, 32, 4), 16 * 3),
        (ConvTranspose(64, 32, 4), 4 * 64),  # of stride 2: a quarter of the kernel
        (Linear(256, 64), 256),
    ],
)
def test_he_weights_keep_the_variance_of_rectified_values(layer, inputs):
    network = Network((layer, Linear(8, 5)))
    named = dict(network.named(network.initial(torch.arange(8), "test", "he")))
    assert_uniform(named["0.weight"], math.sqrt(6 / inputs))
    assert_uniform(named["1.weight"], math.sqrt(3 / 8))  # the last layer is not rectified
    assert not named["0.bias"].any()


@EVERY_LAYER
def test_torch_weights_and_biases_are_uniform_within_one_over_root_fan_in(layer, fans):
    parameters = initial(layer, "torch", seeds=16)
    assert_uniform(parameters["weight"], fans[0] ** -0.5)
    assert_uniform(parameters["bias"], fans[0] ** -0.5)


@pytest.mark.parametrize(
    ("layer", "make"),
    [
        (Conv(3, 32, 4), lambda: nn.Conv2d(3, 32, 4)),
        (Conv(32, 64, 2), lambda: nn.Conv2d(32, 64, 2)),
        (ConvTranspose(64, 32, 4), lambda: nn.ConvTranspose2d(64, 32, 4)),
        (ConvTranspose(32, 3, 4), lambda: nn.ConvTranspose2d(32, 3, 4)),
        (Linear(10, 256), lambda: nn.Linear(10, 256)),
        (Linear(256, 20, "none", fan=(256, 10)), lambda: nn.Linear(256, 10)),
        (Linear(256, 64, fan=(16 * 16, 16 * 64)), lambda: nn.Conv2d(16, 64, 4)),
        (Expand(64, 16), lambda: nn.ConvTranspose2d(64, 16, 4)),
    ],
)
def test_torch_initialisation_is_that_of_torchs_modules(layer, make):
    ours = initial(layer, "torch", seeds=100)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        modules = [make() for _ in range(100)]
    for name in ("weight", "bias"):
        theirs = torch.stack([getattr(module, name).detach() for module in modules]).flatten()
        drawn = ours[name].flatten()
        assert float(drawn.abs().max()) == pytest.approx(float(theirs.abs().max()), rel=0.03)
        pvalue = stats.ks_2samp(drawn[:20_000].numpy(), theirs[:20_000].numpy()).pvalue
        assert pvalue > 1e-3


def overlap(first, second):
    """Count equal numbers at the same positions of two samples."""
    return float((first == second).double().mean())


def test_seeds_networks_and_layers_draw_independently():
    network = Network((Linear(60, 60), Linear(60, 60), Linear(60, 60, "none")))
    buffer = network.initial(torch.tensor([0, 1, 2**33]), "encoder", "torch")
    other = network.initial(torch.tensor([0, 1, 2**33]), "decoder", "torch")
    parts = [part for _, part in network.named(buffer)]
    weights = [*parts[0], *parts[2], *parts[4], *dict(network.named(other))["0.weight"]]
    biases = [*parts[1], *parts[3], *parts[5], *dict(network.named(other))["0.bias"]]
    together = torch.stack([weight.flatten() for weight in weights])
    correlation = together.double().corrcoef() - torch.eye(len(weights))
    assert correlation.abs().max() < 5 / math.sqrt(3600)
    for tensors in (weights, biases):
        for place, first in enumerate(tensors):
            for second in tensors[:place]:
                assert overlap(first, second) < 0.01
    for weight, bias in zip(weights, biases, strict=True):
        assert overlap(weight.flatten()[:60], bias) < 0.05


@pytest.mark.parametrize("init", ["glorot", "torch"])
def test_a_model_in_a_fleet_starts_as_it_does_alone(init):
    seeds = torch.tensor([4, 7, 2**40 + 1])
    fleet = SMALL.initial(seeds, "encoder", init)
    assert torch.equal(fleet, SMALL.initial(seeds, "encoder", init))
    for m in range(3):
        assert torch.equal(fleet[m : m + 1], SMALL.initial(seeds[m : m + 1], "encoder", init))


def test_initial_parameters_are_single_precision_and_leave_torchs_generator_alone():
    before = torch.get_rng_state()
    assert SMALL.initial(torch.arange(2), "encoder", "torch").dtype == torch.float32
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("relu", [True, False])
def test_convolutions_in_a_row_have_the_gradients_of_the_single_ones(relu):
    network = Network((Conv(3, 4, 4, relu), Conv(4, 5, 2, relu), ConvTranspose(5, 3, 4, False)))
    buffer, x = draw(2, network.width).requires_grad_(), draw(2, 2, 8, 8, 3, seed=1)
    together = torch.autograd.grad(network(buffer, x).square().sum(), buffer)
    y = x
    for place, layer in enumerate(network.layers):
        named = dict(network.named(buffer))
        y = layer({name: named[f"{place}.{name}"] for name in ("weight", "bias")}, y)
    apart = torch.autograd.grad(y.square().sum(), buffer)
    torch.testing.assert_close(together, apart)


@pytest.mark.parametrize("architecture", ["conv", "mlp"])
def test_inference_depends_neither_on_threads_nor_on_other_models(architecture):
    encoder, decoder = build(architecture, (32, 32, 3), 10)
    images, seeds = draw(3, 149, 32, 32, 3, dtype=torch.float32), torch.arange(3)
    weights = encoder.initial(seeds, "encoder"), decoder.initial(seeds, "decoder")
    before = torch.get_num_threads()
    found = []
    for threads, models in ((1, slice(1, 2)), (2, slice(1, 2)), (1, slice(3)), (5, slice(1, 3))):
        torch.set_num_threads(threads)
        with torch.no_grad():
            codes = encoder(weights[0][models], images[models])
            decoded = decoder(weights[1][models], codes[..., :10])
        place = 1 - (models.start or 0)
        found.append((codes[place], mean_image("bernoulli", decoded[place])))
    torch.set_num_threads(before)
    for codes, decoded in found:
        assert codes.shape == (149, 20)
        assert torch.equal(codes, found[0][0])
        assert torch.equal(decoded, found[0][1])
