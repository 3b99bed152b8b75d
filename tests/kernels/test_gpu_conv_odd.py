"""Convolutions with odd taps for a GPU against the plain ones; or in Triton's interpreter."""

import pytest
import torch

from unweave import kernels
from unweave.kernels import gpu_conv_odd, reference


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("kernel", "channels"), [(5, 3), (5, 8), (3, 2), (7, 1)])
def test_the_transpose_is_the_plain_one(device, kernel, channels):
    small = draw(2, 3, 4, 6, 5).to(device)
    weight = draw(2, kernel, kernel, channels, 5, seed=1).to(device)
    bias, mask = (
        draw(2, channels, seed=2).to(device),
        draw(2, 3, 8, 12, channels, seed=3).to(device),
    )
    for options in ((), (bias,), (bias, True), (None, False, mask)):
        ours = gpu_conv_odd.conv_transpose(small, weight, *options)
        theirs = reference.conv_transpose(small, weight, *options)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_gradients_are_the_plain_ones(device):
    large, small = draw(2, 3, 8, 8, 3).to(device), draw(2, 3, 4, 4, 5, seed=1).to(device)
    weight = draw(2, 5, 5, 3, 5, seed=2).to(device)
    for given, transposed in (((large, small), False), ((small, large), True)):
        ours, theirs = (
            kernels.backward(version, *given, weight, transposed=transposed)
            for version in (gpu_conv_odd, reference)
        )
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


# Fewer pixels than a program takes at once; more than one program adds up; too wide for that.
@pytest.mark.parametrize(("side", "channels", "outputs"), [(8, 3, 5), (96, 1, 20), (8, 6, 5)])
@pytest.mark.parametrize("bias", ["small", "large", None])
def test_weight_gradients_are_the_plain_ones(device, side, channels, outputs, bias, monkeypatch):
    large = draw(2, 2, side, side, channels).to(device)
    small = draw(2, 2, side // 2, side // 2, outputs, seed=1).to(device)
    asked, plain = [], reference.conv_weight_grad
    with monkeypatch.context() as noted:
        noted.setattr(
            reference, "conv_weight_grad", lambda *given: asked.append(given) or plain(*given)
        )
        weight, summed = gpu_conv_odd.conv_weight_grad(large, small, 5, bias)
    assert len(asked) == (channels == 6)
    expected, expected_sum = plain(large, small, 5, bias)
    torch.testing.assert_close(weight, expected, rtol=1e-4, atol=1e-3)
    assert (summed is None) == (bias is None)
    if bias is not None:
        torch.testing.assert_close(summed, expected_sum, rtol=1e-5, atol=1e-4)


def test_weight_gradients_of_bytes(device):
    images = torch.randint(0, 256, (1, 2, 8, 8, 3), dtype=torch.uint8).to(device)
    small = draw(1, 2, 4, 4, 5).to(device)
    ours, theirs = (
        version.conv_weight_grad(images, small, 5)[0] for version in (gpu_conv_odd, reference)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
