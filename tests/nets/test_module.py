"""Networks of torch modules: each model as the module alone, and one clear error per mistake."""

import functools
import threading

import pytest
import torch
from torch import nn
from torch.func import functional_call

from tests.nets.module_architectures import TinyDecoder, TinyEncoder
from tests.raising import about
from unweave.errors import UnweaveError
from unweave.nets.module import ModuleNetwork, decoder_of, encoder_of
from unweave.nets.network import Network

SHAPE, LATENTS = (16, 24, 3), 5
SEEDS = torch.tensor([3, 2**40, 0])


@pytest.fixture(params=["encoder", "decoder"])
def network(request):
    if request.param == "encoder":
        return encoder_of(TinyEncoder, SHAPE, LATENTS)
    return decoder_of(TinyDecoder, SHAPE, LATENTS)


def inputs(network, models=3, batch=4):
    return torch.rand(models, batch, *network.inputs, generator=torch.Generator().manual_seed(0))


def module_of(network, buffer, model):
    """The module with the parameters of one model, through its state dict."""
    module = (TinyEncoder if len(network.inputs) > 1 else TinyDecoder)(SHAPE, LATENTS)
    if isinstance(module, TinyEncoder):
        module(torch.zeros(1, 3, 16, 24))
    constants = network._constants(torch.device("cpu"), torch.float32)
    own = {name: value[model] for name, value in network.named(buffer)}
    state = {name: own.get(name, constants.get(name)) for name in module.state_dict()}
    shapes = {name: value.shape for name, value in module.state_dict().items()}
    module.load_state_dict({name: value.reshape(shapes[name]) for name, value in state.items()})
    return module


def channels(x, *order):
    return x.permute(order) if x.ndim > 2 else x


def test_names_and_shapes_are_those_of_the_module(network):
    module = network.with_parameters(torch.zeros(1, network.width))
    trained = {n: tuple(p.shape) for n, p in module.named_parameters() if p.requires_grad}
    assert network.shapes == {n: shape or (1,) for n, shape in trained.items()}
    assert len(network) == sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert ("temperature" in network.shapes) == (len(network.inputs) > 1)
    assert not any(name.startswith("frozen") for name in network.shapes)


def test_outputs_and_gradients_are_those_of_each_module(network):
    buffer, x = network.initial(SEEDS, "test"), inputs(network).requires_grad_()
    buffer.requires_grad_()
    y = network(buffer, x)
    assert y.shape == (3, 4, *network.outputs)
    of_buffer, of_x = torch.autograd.grad(y.square().sum(), [buffer, x])
    for model in range(3):
        module = module_of(network, buffer.detach(), model)
        own = x[model].detach().requires_grad_()
        expected = channels(module(channels(own, 0, 3, 1, 2)), 0, 2, 3, 1)
        torch.testing.assert_close(y[model], expected)
        assert expected.std() > 1e-2
        expected.square().sum().backward()
        torch.testing.assert_close(of_x[model], own.grad)
        grads = dict(network.named(of_buffer))
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                torch.testing.assert_close(grads[name][model].view_as(parameter), parameter.grad)


def test_all_models_at_once_give_the_same(network, monkeypatch):
    buffer, x = network.initial(SEEDS, "test"), inputs(network)
    expected = network._apply(dict(network.named(buffer)), x)
    together = torch.func.vmap
    monkeypatch.setattr(
        "unweave.nets.module._one_by_one", lambda forward, own, x: together(forward)(own, x)
    )
    torch.testing.assert_close(network._apply(dict(network.named(buffer)), x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_models_at_once_need_no_values_on_the_host(network, dtype):
    # Tensors of this device have no values, so reading any, as graphs forbid, is an error.
    buffer = torch.zeros(3, network.width, device="meta", dtype=dtype, requires_grad=True)
    y = network(buffer, inputs(network).to("meta"))
    (gradient,) = torch.autograd.grad(y.float().square().sum(), [buffer], create_graph=True)
    assert y.shape == (3, 4, *network.outputs)
    assert y.dtype == gradient.dtype == dtype


def test_bytes_are_scaled():
    encoder = encoder_of(TinyEncoder, SHAPE, LATENTS)
    buffer, x = encoder.initial(SEEDS, "test"), (inputs(encoder) * 255).byte()
    assert torch.equal(encoder(buffer, x), encoder(buffer, x.float() / 255))


def test_second_derivatives_are_those_of_finite_differences():
    network = decoder_of(TinyDecoder, SHAPE, LATENTS)
    buffer = network.initial(SEEDS[:1], "test").double()

    def gradient(codes):
        return torch.autograd.grad(network(buffer, codes).sin().sum(), codes, create_graph=True)[0]

    codes = inputs(network, 1, 1).double().requires_grad_()
    assert torch.autograd.gradcheck(gradient, codes)


def test_results_depend_neither_on_other_models_nor_on_the_batch(network):
    buffer, x = network.initial(SEEDS, "test"), inputs(network, batch=130)
    with torch.no_grad():
        whole = network(buffer, x)
        assert torch.equal(network(buffer[1:2], x[1:2, 64:128])[0], whole[1, 64:128])


def test_initial_parameters_depend_on_the_seed_alone(network):
    before = torch.get_rng_state()
    buffer = network.initial(SEEDS, "test")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(network.initial(SEEDS[1:2], "test")[0], buffer[1])
    torch.manual_seed(1)
    assert torch.equal(network.initial(SEEDS, "test"), buffer)
    assert not torch.equal(buffer[0], buffer[1])
    assert not torch.equal(network.initial(SEEDS, "other")[0], buffer[0])
    for _, value in network.named(buffer):
        if value.dim() > 2:  # weights as torch initialises them, within 1 / √fan-in
            bound = value[0, 0].numel() ** -0.5
            assert 0.8 * bound < value.abs().max() <= bound


def test_threads_do_not_share_the_module(network):
    buffer, x = network.initial(SEEDS, "test"), inputs(network)
    rows, found = [buffer[model : model + 1] for model in range(3)], {}

    def repeat(model):
        outputs = [network(rows[model], x[model : model + 1]) for _ in range(50)]
        found[model] = all(torch.equal(outputs[0], one) for one in outputs)

    threads = [threading.Thread(target=repeat, args=[model]) for model in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(3), True)


def test_a_module_with_its_parameters_is_a_copy(network):
    buffer = network.initial(SEEDS, "test")
    module = network.with_parameters(buffer[1:2])
    x = inputs(network)
    expected = network(buffer[1:2], x[1:2])[0]
    found = channels(module(channels(x[1], 0, 3, 1, 2)), 0, 2, 3, 1)
    torch.testing.assert_close(found, expected)
    for parameter in module.parameters():
        parameter.data.zero_()
    assert torch.equal(network(buffer[1:2], x[1:2])[0], expected)


def encoder(*layers):
    """A function that builds an encoder: these layers, flattened to codes."""

    def build(shape, latents):
        flat = [nn.Flatten(), nn.LazyLinear(2 * latents)]
        return nn.Sequential(*(layer() for layer in layers), *flat)

    return build


class Counting(nn.Module):
    """Counts calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x


SHARED = nn.Sequential(nn.Flatten(), nn.Linear(16 * 24 * 3, 10))


@pytest.mark.parametrize(
    ("build", "value"),
    [
        (encoder(lambda: nn.BatchNorm2d(3)), "BatchNorm2d"),
        (encoder(lambda: nn.Dropout(0.1)), None),
        (encoder(Counting), "0.calls"),
        (encoder(lambda: nn.InstanceNorm2d(3, track_running_stats=True)), "0.running_mean"),
        (encoder(lambda: nn.Conv2d(4, 4, 3)), [2, 3, 16, 24]),
        (lambda shape, latents: nn.Flatten(), 0),
        (lambda shape, latents: encoder()(shape, latents + 1), [2, 12]),
        (lambda shape, latents: nn.LSTM(24, latents), [2, 3, 16, 24]),
        (lambda shape, latents: nn.MultiheadAttention, type),
    ],
)
def test_modules_that_cannot_train_are_errors(build, value):
    before = torch.get_rng_state()
    with pytest.raises(UnweaveError, check=about("architecture", value)):
        encoder_of(build, SHAPE, LATENTS)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_must_be_new_and_alike_in_each_call():
    network = encoder_of(lambda shape, latents: SHARED, SHAPE, LATENTS)
    with pytest.raises(UnweaveError, check=about("architecture", None)):
        network.initial(SEEDS, "test")
    widths = iter(range(1, 9))

    def growing(shape, latents):
        return nn.Sequential(nn.Flatten(), nn.Linear(1152, next(widths)), nn.LazyLinear(10))

    network = encoder_of(growing, SHAPE, LATENTS)
    with pytest.raises(UnweaveError, check=about("architecture", None)):
        network.initial(SEEDS, "test")


def test_functions_may_return_networks_of_layers():
    network = Network(())
    assert encoder_of(lambda shape, latents: network, SHAPE, LATENTS) is network


def test_tied_parameters_are_trained_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(LATENTS, LATENTS)
            self.other = self.one
            self.up = nn.Linear(LATENTS, 16 * 24 * 3)

        def forward(self, codes):
            return self.up(self.other(self.one(codes))).view(-1, 3, 16, 24)

    network = ModuleNetwork(Tied, (LATENTS,), SHAPE, "decoder")
    assert [*network.shapes] == ["one.weight", "one.bias", "up.weight", "up.bias"]
    buffer, x = network.initial(SEEDS, "test"), inputs(network)
    own = {name: value[2] for name, value in network.named(buffer)}
    expected = functional_call(Tied(), own, (x[2],)).permute(0, 2, 3, 1)
    torch.testing.assert_close(network(buffer, x)[2], expected)


def test_networks_are_built_once():
    calls = []

    @functools.wraps(TinyEncoder)
    def build(shape, latents):
        calls.append(shape)
        return TinyEncoder(shape, latents)

    assert encoder_of(build, SHAPE, LATENTS) is encoder_of(build, SHAPE, LATENTS)
    assert len(calls) == 2
