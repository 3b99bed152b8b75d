"""Kernels: each version against PyTorch per model, their derivatives, and models apart."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from unweave import kernels
from unweave.kernels import cpu, reference
from unweave.nets.layers import Conv, ConvTranspose
from unweave.nets.network import Network

VERSIONS = pytest.mark.parametrize("version", [reference, cpu], ids=["reference", "cpu"])
SHAPES = pytest.mark.parametrize(
    ("models", "batch", "height", "width", "large", "small", "kernel"),
    [
        (1, 3, 8, 8, 1, 4, 4),
        (3, 5, 16, 8, 3, 7, 4),
        (5, 1, 8, 12, 6, 1, 2),
        (3, 7, 10, 10, 1, 5, 2),
        (3, 2, 8, 12, 8, 4, 4),
        (2, 3, 8, 8, 4, 8, 2),
        (2, 3, 32, 32, 3, 32, 4),
    ],
)
FINISHES = pytest.mark.parametrize(
    ("bias", "relu"), [(False, False), (True, False), (False, True), (True, True)]
)
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5}
DTYPES = pytest.mark.parametrize("dtype", list(TOLERANCES), ids=["double", "single"])


@pytest.fixture(autouse=True)
def one_thread():
    """Arrays here are tiny; threads would only wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def arrays(models, batch, height, width, large, small, kernel, dtype=torch.float64):
    """A large image, a small one, weights, and a bias for each."""
    return (
        draw(models, batch, height, width, large, seed=1, dtype=dtype),
        draw(models, batch, height // 2, width // 2, small, seed=2, dtype=dtype),
        draw(models, kernel, kernel, large, small, seed=3, dtype=dtype),
        draw(models, large, seed=4, dtype=dtype),
        draw(models, small, seed=5, dtype=dtype),
    )


def by_torch(function, images, weight, bias=None, relu=False):
    """The library's convolution, one model after the other, channels first."""
    padding = (weight.shape[1] - 2) // 2
    outputs = []
    for model in range(len(images)):
        output = function(
            images[model].permute(0, 3, 1, 2).contiguous(),
            weight[model].permute(3, 2, 0, 1).contiguous(),
            None if bias is None else bias[model],
            stride=2,
            padding=padding,
        )
        outputs.append((output.relu() if relu else output).permute(0, 2, 3, 1))
    return torch.stack(outputs)


def close(ours, theirs):
    tolerance = TOLERANCES[theirs.dtype]
    scale = max(1.0, float(theirs.abs().max()))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * scale)


@VERSIONS
@SHAPES
@FINISHES
@DTYPES
def test_conv_is_torchs_per_model(
    version, models, batch, height, width, large, small, kernel, bias, relu, dtype
):
    x, _, w, _, b = arrays(models, batch, height, width, large, small, kernel, dtype)
    b = b if bias else None
    close(version.conv(x, w, b, relu), by_torch(F.conv2d, x, w, b, relu))


@VERSIONS
@SHAPES
@FINISHES
@DTYPES
def test_conv_transpose_is_torchs_per_model(
    version, models, batch, height, width, large, small, kernel, bias, relu, dtype
):
    _, y, w, b, _ = arrays(models, batch, height, width, large, small, kernel, dtype)
    b = b if bias else None
    close(version.conv_transpose(y, w, b, relu), by_torch(F.conv_transpose2d, y, w, b, relu))


@VERSIONS
@SHAPES
@DTYPES
def test_conv_weight_grad_is_torchs_per_model(
    version, models, batch, height, width, large, small, kernel, dtype
):
    x, y, w, _, _ = arrays(models, batch, height, width, large, small, kernel, dtype)
    w.requires_grad_()
    (expected,) = torch.autograd.grad((by_torch(F.conv2d, x, w) * y).sum(), w)
    close(version.conv_weight_grad(x, y, kernel)[0], expected)


@SHAPES
@DTYPES
def test_the_two_versions_agree(models, batch, height, width, large, small, kernel, dtype):
    x, y, w, b, c = arrays(models, batch, height, width, large, small, kernel, dtype)
    close(cpu.conv(x, w, c, True), reference.conv(x, w, c, True))
    close(cpu.conv_transpose(y, w, b, True), reference.conv_transpose(y, w, b, True))
    close(cpu.conv_weight_grad(x, y, kernel)[0], reference.conv_weight_grad(x, y, kernel)[0])


@VERSIONS
@pytest.mark.parametrize("kernel", [2, 4])
def test_conv_matches_the_sum_in_its_docstring(version, kernel):
    x, _, w, _, _ = (a.numpy() for a in arrays(2, 2, 6, 8, 2, 3, kernel))
    expected = np.zeros((2, 2, 3, 4, 3))
    margin = (kernel - 2) // 2
    for place in np.ndindex(3, 4):
        for tap in np.ndindex(kernel, kernel):
            row, column = 2 * place[0] + tap[0] - margin, 2 * place[1] + tap[1] - margin
            if 0 <= row < 6 and 0 <= column < 8:
                expected[:, :, *place] += np.einsum(
                    "mbc,mco->mbo", x[:, :, row, column], w[:, *tap]
                )
    close(version.conv(torch.from_numpy(x), torch.from_numpy(w)), torch.from_numpy(expected))


@VERSIONS
@SHAPES
def test_the_transpose_is_the_adjoint(version, models, batch, height, width, large, small, kernel):
    x, y, w, _, _ = arrays(models, batch, height, width, large, small, kernel)
    forward = (version.conv(x, w) * y).flatten(1).sum(1)
    backward = (x * version.conv_transpose(y, w)).flatten(1).sum(1)
    by_weight = (w * version.conv_weight_grad(x, y, kernel)[0]).flatten(1).sum(1)
    torch.testing.assert_close(forward, backward, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(forward, by_weight, rtol=1e-11, atol=1e-11)


def test_linear_is_torchs_per_model():
    x, w, b = draw(3, 5, 7, seed=1), draw(3, 7, 4, seed=2), draw(3, 4, seed=3)
    expected = torch.stack([F.linear(x[m], w[m].mT, b[m]) for m in range(3)])
    close(kernels.linear(x, w, b), expected)
    close(reference.linear(x, w, b), expected)


@pytest.fixture(params=["reference", "cpu"])
def chosen(request, monkeypatch):
    """Run the public kernels once by each version."""
    monkeypatch.delenv("UNWEAVE_KERNELS", raising=False)
    if request.param == "reference":
        monkeypatch.setenv("UNWEAVE_KERNELS", "reference")


@pytest.mark.parametrize("kernel", [2, 4])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("bias", "relu"), [(False, False), (True, True)])
@pytest.mark.usefixtures("chosen")
def test_the_public_kernels_are_differentiable_twice(kernel, channels, bias, relu):
    x, y, w, b, c = arrays(2, 1, 4, 4, channels, 2, kernel)
    for function, image, offset in [(kernels.conv, x, c), (kernels.conv_transpose, y, b)]:
        inputs = [tensor.requires_grad_() for tensor in (image, w, offset)[: 3 if bias else 2]]
        before = function(*inputs)
        if relu:
            # Finite differences are wrong across the kink, and a mask must have both values.
            assert before.abs().min() > 1e-4
            assert 0.2 < (before > 0).double().mean() < 0.8

        def finished(*tensors, function=function):
            return function(*tensors, *([] if bias else [None]), relu)

        assert torch.autograd.gradcheck(finished, inputs)
        assert torch.autograd.gradgradcheck(finished, inputs)
        # It passes over what has no derivative at all.
        pull = torch.ones_like(before).requires_grad_()
        gradients = torch.autograd.grad(finished(*inputs), inputs, pull, create_graph=True)
        assert all(gradient.requires_grad for gradient in gradients)


@SHAPES
@pytest.mark.usefixtures("chosen")
def test_gradients_through_the_relu_are_torchs(models, batch, height, width, large, small, kernel):
    x, y, w, b, c = arrays(models, batch, height, width, large, small, kernel)
    for ours, theirs, image, bias in [
        (kernels.conv, F.conv2d, x, c),
        (kernels.conv_transpose, F.conv_transpose2d, y, b),
    ]:
        inputs = [tensor.requires_grad_() for tensor in (image, w, bias)]
        output = by_torch(theirs, *inputs, relu=True)
        pull = draw(*output.shape, seed=9)
        expected = torch.autograd.grad(output, inputs, pull)
        for gradient, other in zip(
            torch.autograd.grad(ours(*inputs, True), inputs, pull), expected, strict=True
        ):
            close(gradient, other)


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_single_gradients_match_joint_gradients(wanted):
    x, _, w, _, c = arrays(2, 3, 8, 8, 3, 4, 4)
    everything = [tensor.clone().requires_grad_() for tensor in (x, w, c)]
    expected = torch.autograd.grad(kernels.conv(*everything).square().sum(), everything)
    alone = [x, w, c]
    alone[wanted] = alone[wanted].clone().requires_grad_()
    kernels.conv(*alone).square().sum().backward()
    assert torch.equal(alone[wanted].grad, expected[wanted])


@pytest.mark.parametrize("setting", ["reference", None])
def test_the_environment_chooses_the_version(setting, monkeypatch):
    calls = []
    for module in (reference, cpu):
        for name in ("conv", "conv_transpose", "conv_weight_grad"):
            kernel = getattr(module, name)

            def counted(*arguments, kernel=kernel, key=(module, name)):
                calls.append(key)
                return kernel(*arguments)

            monkeypatch.setattr(module, name, counted)
    if setting:
        monkeypatch.setenv("UNWEAVE_KERNELS", setting)
    else:
        monkeypatch.delenv("UNWEAVE_KERNELS", raising=False)
    x, y, w, _, _ = arrays(2, 1, 8, 8, 3, 4, 4)
    for tensor in (x, y, w):
        tensor.requires_grad_()
    (kernels.conv(x, w).square().sum() + kernels.conv_transpose(y, w).square().sum()).backward()
    expected = reference if setting else cpu
    # Each forwards, each as the other's derivative, and the gradient of weights for both.
    for name in ("conv", "conv_transpose", "conv_weight_grad"):
        assert calls.count((expected, name)) == 2
    assert len(calls) == 6


@SHAPES
@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_on_the_cpu_does_not_depend_on_its_neighbours(
    models, batch, height, width, large, small, kernel, threads
):
    torch.set_num_threads(threads)
    x, y, w, b, c = arrays(models, batch, height, width, large, small, kernel, torch.float32)
    fleet = (
        cpu.conv(x, w, c, True),
        cpu.conv_transpose(y, w, b, True),
        cpu.conv_weight_grad(x, y, kernel)[0],
    )
    for m in range(models):
        own = slice(m, m + 1)
        assert torch.equal(fleet[0][own], cpu.conv(x[own], w[own], c[own], True))
        assert torch.equal(fleet[1][own], cpu.conv_transpose(y[own], w[own], b[own], True))
        assert torch.equal(fleet[2][own], cpu.conv_weight_grad(x[own], y[own], kernel)[0])


@VERSIONS
@pytest.mark.parametrize("large", [1, 3])
def test_nan_in_one_models_weights_stays_there(version, large):
    x, y, w, b, c = arrays(3, 2, 8, 8, large, 4, 4)
    broken = w.clone()
    broken[1] = math.nan
    for function, image, bias in [(version.conv, x, c), (version.conv_transpose, y, b)]:
        sound, sick = function(image, w, bias, True), function(image, broken, bias, True)
        assert sick[1].isnan().all()
        assert torch.equal(sick[[0, 2]], sound[[0, 2]])
    x[1] = math.nan
    gradient, _ = version.conv_weight_grad(x, y, 4)
    assert gradient[1].isnan().all()
    assert gradient[[0, 2]].isfinite().all()


@pytest.mark.usefixtures("chosen")
def test_nan_gradients_of_one_model_stay_there():
    x, _, w, _, c = arrays(3, 2, 8, 8, 3, 4, 4)
    w[1] = math.nan
    inputs = [tensor.requires_grad_() for tensor in (x, w, c)]
    for gradient in torch.autograd.grad(kernels.conv(*inputs, True).square().sum(), inputs):
        assert gradient[1].isnan().any()
        assert gradient[[0, 2]].isfinite().all()


@VERSIONS
@pytest.mark.parametrize("large", [1, 3, 8])
def test_images_may_be_permuted_or_expanded(version, large):
    x, y, w, b, c = arrays(3, 5, 8, 8, large, 4, 4)
    flipped = x.permute(4, 3, 2, 1, 0).contiguous().permute(4, 3, 2, 1, 0)
    assert not flipped.is_contiguous()
    close(version.conv(flipped, w, c), version.conv(x, w, c))
    close(version.conv_weight_grad(flipped, y, 4)[0], version.conv_weight_grad(x, y, 4)[0])
    turned = y.permute(0, 1, 4, 2, 3).contiguous().permute(0, 1, 3, 4, 2)
    assert not turned.is_contiguous()
    close(version.conv_transpose(turned, w, b), version.conv_transpose(y, w, b))
    close(version.conv_weight_grad(x, turned, 4)[0], version.conv_weight_grad(x, y, 4)[0])
    one, small = x[:1].expand(3, -1, -1, -1, -1), y[:1].expand(3, -1, -1, -1, -1)
    close(version.conv(one, w, c), version.conv(one.contiguous(), w, c))
    close(version.conv_transpose(small, w, b), version.conv_transpose(small.contiguous(), w, b))
    close(
        version.conv_weight_grad(one, small, 4)[0],
        version.conv_weight_grad(one.contiguous(), small.contiguous(), 4)[0],
    )


@VERSIONS
@pytest.mark.parametrize("large", [1, 3, 8])
@DTYPES
def test_arrays_may_be_unaligned(version, large, dtype):
    x, y, w, b, c = arrays(3, 2, 8, 8, large, 4, 4, dtype)
    far = [
        torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view(tensor.shape)
        for tensor in (x, y, w, b, c)
    ]
    close(version.conv(far[0], far[2], far[4]), version.conv(x, w, c))
    close(version.conv_transpose(*far[1:4]), version.conv_transpose(y, w, b))
    close(version.conv_weight_grad(*far[:2], 4)[0], version.conv_weight_grad(x, y, 4)[0])


@VERSIONS
@pytest.mark.parametrize("large", [1, 3])
def test_weights_may_be_views_of_a_networks_buffer(version, large):
    network = Network((Conv(large, 5, 4), ConvTranspose(5, large, 4)))
    parameters = dict(network.named(draw(3, network.width)))
    x, y = draw(3, 4, 8, 8, large, seed=1), draw(3, 4, 4, 4, 5, seed=2)
    for function, image, place in [(version.conv, x, 0), (version.conv_transpose, y, 1)]:
        views = [parameters[f"{place}.{name}"] for name in ("weight", "bias")]
        assert not views[0].is_contiguous()
        close(function(image, *views, True), function(image, *map(torch.clone, views), True))


@VERSIONS
def test_inputs_are_left_as_they_were(version):
    tensors = arrays(2, 3, 8, 8, 3, 4, 4)
    copies = [tensor.clone() for tensor in tensors]
    x, y, w, b, c = tensors
    version.conv(x, w, c, True)
    version.conv_transpose(y, w, b, True)
    version.conv_weight_grad(x, y, 4)
    assert all(map(torch.equal, tensors, copies))
