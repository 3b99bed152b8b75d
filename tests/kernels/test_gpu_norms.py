"""Normalisation for a GPU against the plain one; without a GPU, in Triton's interpreter."""

import pytest
import torch

from unweave import kernels
from unweave.kernels import SLOPES, gpu_norms, reference

# Less than a block of pixels and of channels; more than one of each; whole ones.
SHAPES = [(2, 3, 4, 4, 5), (1, 2, 9, 10, 40), (2, 1, 8, 16, 32)]


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(shape, device, adaptive, dtype=torch.float32):
    x = 2 * draw(*shape, dtype=dtype) + 1
    both = draw(*shape[:2], 2 * shape[-1], seed=1, dtype=dtype)
    made = [x, both] if adaptive else [x]
    return [each.to(device).requires_grad_() for each in made]


def ours(given, activation):
    both = given[1] if len(given) > 1 else None
    return gpu_norms.instance_norm(given[0], both, activation, SLOPES[activation])


def theirs(given, activation):
    return reference.instance_norm(given[0], given[1] if len(given) > 1 else None, activation)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
def test_images_and_gradients_are_those_of_the_plain_version(device, shape, adaptive, activation):
    given = inputs(shape, device, adaptive)
    expected, found = theirs(given, activation), ours(given, activation)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    weights = draw(*shape, seed=2).to(device)
    for one, other in zip(
        torch.autograd.grad(found, given, weights),
        torch.autograd.grad(expected, given, weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)


def test_channels_have_the_mean_and_deviation_of_the_code(device):
    x, both = inputs((2, 3, 8, 8, 5), device, adaptive=True)
    with torch.no_grad():
        both[:, :, 5:] = 50.0  # so that nothing is cut off
        y = ours([x, both], "relu")
    torch.testing.assert_close(y.mean((2, 3)), both[:, :, 5:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        y.std((2, 3), correction=0), both[:, :, :5].abs(), rtol=1e-3, atol=0
    )


def test_a_large_mean_does_not_hide_the_deviation(device):
    # The mean of squares less the square of the mean would have no digit left.
    x = draw(1, 1, 8, 8, 4) + 10_000
    found = ours([x.to(device)], "leaky_relu")
    expected = theirs([x.double()], "leaky_relu")
    torch.testing.assert_close(found.cpu().double(), expected, rtol=0, atol=5e-3)


def test_the_gradient_of_the_gradient(device):
    given = inputs((2, 2, 4, 4, 3), device, adaptive=True)
    seconds = []
    for version in (ours, theirs):
        firsts = torch.autograd.grad(
            version(given, "leaky_relu").sin().sum(), given, create_graph=True
        )
        total = sum(each.square().sum() for each in firsts)
        seconds.append(torch.autograd.grad(total, given))
    for one, other in zip(*seconds, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_a_model_does_not_depend_on_its_fleet(device):
    x, both = inputs((3, 2, 8, 8, 6), device, adaptive=True)
    together = ours([x, both], "relu")
    for model in range(3):
        alone = ours([x[model : model + 1], both[model : model + 1]], "relu")
        assert torch.equal(together[model], alone[0])


def test_images_need_not_lie_in_order(device):
    (x,) = inputs((2, 3, 4, 6, 5), device, adaptive=False)
    turned = x.transpose(2, 3)
    assert not turned.is_contiguous()
    torch.testing.assert_close(ours([turned], "relu"), ours([x], "relu").transpose(2, 3))


def test_layers_use_the_kernel_on_a_gpu(device, monkeypatch):
    asked, fast = [], gpu_norms.instance_norm

    def noted(*given):
        asked.append(given[2:])
        return fast(*given)

    monkeypatch.setattr(kernels, "fused", lambda x: True)
    monkeypatch.setattr(gpu_norms, "instance_norm", noted)
    x, both = inputs((1, 2, 4, 4, 3), device, adaptive=True)
    for activation in ("relu", "leaky_relu", "tanh"):
        expected = reference.instance_norm(x, both, activation)
        torch.testing.assert_close(kernels.instance_norm(x, both, activation), expected)
    assert asked == [("relu", 0.0), ("leaky_relu", 0.2)]
