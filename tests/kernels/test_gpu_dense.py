"""Dense layers for a GPU against the reference; without a GPU, in Triton's interpreter."""

import pytest
import torch

from unweave import kernels
from unweave.kernels import reference

# Models, rows, inputs and outputs that fill a block, a part of one, or a little more than one.
SHAPES = pytest.mark.parametrize(
    "shape",
    [(3, 5, 4, 7), (1, 1, 1, 1), (2, 8, 6, 256), (5, 9, 3, 257), (2, 17, 10, 1000)],
    ids=str,
)
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
# Triton's interpreter rounds to bfloat16 in its own way.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 3e-3}
DTYPES = pytest.mark.parametrize(
    "dtype", list(TOLERANCES) if torch.cuda.is_available() else [torch.float32]
)


@pytest.fixture(autouse=True)
def fused(monkeypatch):
    monkeypatch.setattr(kernels, "fused", lambda x: True)


@pytest.fixture
def drawn(device):
    """Input, and weights and biases that lie in one buffer with others between them."""

    def draw(shape, dtype=torch.float32):
        models, rows, inputs, outputs = shape
        generator = torch.Generator().manual_seed(0)
        size = inputs * outputs
        buffer = torch.randn(models, size + outputs + 3, generator=generator).to(device, dtype)
        x = torch.randn(models, rows, inputs, generator=generator).to(device, dtype)
        weight = buffer[:, :size].unflatten(1, (inputs, outputs))
        return x, weight, buffer[:, size : size + outputs]

    return draw


def double(tensors):
    return [tensor.detach().cpu().double().requires_grad_() for tensor in tensors]


def distance(ours, exact):
    """Return the relative error of whole tensors."""
    exact = exact.detach()
    return float((ours.detach().cpu().double() - exact).norm() / exact.norm().clamp(min=1e-30))


@SHAPES
@ACTIVATIONS
@DTYPES
def test_layer_and_gradients_are_the_references(shape, activation, dtype, drawn):
    inputs = [tensor.detach().requires_grad_() for tensor in drawn(shape, dtype)]
    exact = double(inputs)
    ours, theirs = kernels.linear(*inputs, activation), reference.linear(*exact, activation)
    assert ours.dtype == dtype
    assert distance(ours, theirs) < TOLERANCES[dtype]
    # The sign of a number near 0 is a matter of rounding, so both see the same signs.
    weights = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(1)).double()
    weights *= ours.detach().cpu().double().sign() == theirs.sign()
    found = torch.autograd.grad((ours * weights.to(ours)).sum(), inputs)
    for one, other in zip(
        found, torch.autograd.grad((theirs * weights).sum(), exact), strict=True
    ):
        assert distance(one, other) < 2 * TOLERANCES[dtype]


@ACTIVATIONS
def test_gradients_of_gradients_are_the_references(activation, drawn):
    shape = (2, 4, 3, 5)

    def twice(inputs, linear):
        gradients = torch.autograd.grad(
            linear(*inputs, activation).square().sum(), inputs, create_graph=True
        )
        return torch.autograd.grad(sum(g.square().sum() for g in gradients), inputs)

    inputs = [tensor.detach().requires_grad_() for tensor in drawn(shape)]
    exact = double(inputs)
    pairs = zip(twice(inputs, kernels.linear), twice(exact, reference.linear), strict=True)
    assert max(distance(one, other) for one, other in pairs) < 1e-5


def test_bytes_stand_for_the_unit_interval(drawn, device):
    _, weight, bias = drawn((2, 3, 4, 5))
    images = torch.arange(24, dtype=torch.uint8).view(2, 3, 4).to(device) * 10
    ours = kernels.linear(images, weight, bias, "relu")
    torch.testing.assert_close(ours, kernels.linear(images / 255, weight, bias, "relu"))


def test_nan_is_propagated(drawn):
    x, weight, bias = drawn((2, 3, 4, 5))
    x = x.clone()
    x[1, 2, 0] = torch.nan
    missing = kernels.linear(x, weight, bias, "leaky_relu").isnan()
    assert missing[1, 2].all()
    assert missing.sum() == 5
