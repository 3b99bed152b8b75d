"""GPU convolutions against their reference; without a GPU, in Triton's interpreter."""

import math

import pytest
import torch
from torch.nn import functional as F

from unweave import kernels
from unweave.kernels import gpu_conv, reference
from unweave.kernels.gpu_conv import Launch
from unweave.nets.layers import Conv, ConvTranspose, Linear, Reshape
from unweave.nets.network import Network

# The interpreter's NumPy warns of NaN, also in padding that nobody reads.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 3e-3}
# Triton's interpreter cannot multiply in bfloat16.
DTYPES = pytest.mark.parametrize(
    "dtype", list(TOLERANCES) if torch.cuda.is_available() else [torch.float32]
)
# Models, batch, height, width, channels of the large image, of the small one, kernel.
SHAPES = pytest.mark.parametrize(
    "shape",
    [
        (3, 1, 2, 2, 3, 5, 4),
        (5, 3, 8, 12, 1, 18, 4),
        (3, 5, 16, 8, 3, 7, 4),
        (3, 7, 10, 10, 1, 5, 2),
        (5, 1, 8, 12, 18, 1, 2),
        (1, 3, 8, 8, 3, 20, 2),
        (1, 5, 12, 12, 6, 18, 4),
        (1, 3, 8, 8, 32, 64, 4),
        (1, 3, 16, 4, 64, 32, 2),
    ],
    ids=str,
)
FINISHES = pytest.mark.parametrize(
    ("bias", "relu", "mask"),
    [
        (False, False, False),
        (True, False, False),
        (True, True, False),
        (False, False, True),
    ],
)
KINDS = pytest.mark.parametrize(("channels", "kernel"), [(1, 4), (3, 4), (3, 2), (18, 2)])
# Of the first and the last several programs divide the sums over pixels.
IMAGES = pytest.mark.parametrize(
    ("images", "kernel"), [((2, 32, 32, 1), 4), ((3, 8, 8, 3), 4), ((4, 8, 16, 18), 2)], ids=str
)


@pytest.fixture
def arrays(device):
    """Draws a large image, a small one, weights, and a bias for each."""

    def drawn(models, batch, height, width, large, small, kernel, dtype=torch.float32):
        generator = torch.Generator().manual_seed(0)
        shapes = [
            (models, batch, height, width, large),
            (models, batch, height // 2, width // 2, small),
            (models, kernel, kernel, large, small),
            (models, large),
            (models, small),
        ]
        # Not around zero, for sums that cancel have no relative error to speak of.
        return [
            (torch.randn(*shape, generator=generator) + 0.5).to(device, dtype) for shape in shapes
        ]

    return drawn


@pytest.fixture
def images_of_bytes(device):
    """Draws bytes of some shape."""
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape):
        return torch.randint(256, shape, dtype=torch.uint8, generator=generator).to(device)

    return drawn


def exact(argument):
    """Numbers in double precision, on the host."""
    if not isinstance(argument, torch.Tensor):
        return argument
    return argument.cpu() if argument.dtype == torch.uint8 else argument.cpu().double()


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


def check_close(ours, theirs, tolerance):
    for one, other in zip(listed(ours), listed(theirs), strict=True):
        if other is None:
            assert one is None
            continue
        assert one.shape == other.shape
        assert (exact(one) - exact(other)).norm() <= tolerance * exact(other).norm()


def conv_transpose_backward(version, gradient, small, weight, mask=None, launch=None):
    """All gradients of a transpose, in one pass where the version has one."""
    if launch is not None:
        together = version.conv_transpose_backward(gradient, small, weight, mask, launch)
        if together is not None:
            return together
    return kernels.backward(version, small, gradient, weight, mask, transposed=True)


BACKWARD = {
    "conv_backward": kernels.backward,
    "conv_transpose_backward": conv_transpose_backward,
}


def run(version, name, *arguments, **launch):
    if name in BACKWARD:
        return BACKWARD[name](version, *arguments, **launch)
    return getattr(version, name)(*arguments, **launch)


def check(name, *arguments, **launch):
    """Compare a kernel with its definition in double precision."""
    dtype = next(a.dtype for a in arguments[1:] if isinstance(a, torch.Tensor))
    ours = run(gpu_conv, name, *arguments, **launch)
    theirs = run(reference, name, *map(exact, arguments))
    check_close(ours, theirs, TOLERANCES[dtype])
    assert all(one is None or one.dtype == dtype for one in listed(ours))


def within(tensor, margin=5):
    """The same numbers as a part of each model's row of a buffer, with NaN around them."""
    rows = tensor.flatten(1)
    buffer = rows.new_full((len(rows), rows.shape[1] + 2 * margin), math.nan)
    buffer[:, margin:-margin] = rows
    return buffer[:, margin:-margin].unflatten(1, tensor.shape[1:])


def turned(tensor):
    """The same numbers, in memory with the first axis last."""
    return tensor.movedim(0, -1).contiguous().movedim(-1, 0)


def shared(tensor):
    """Expand the values of the first model to all models."""
    return tensor[:1].expand(tensor.shape)


def everything(x, y, w, b, c):
    """Every kernel, on images and weights of one fleet."""
    return [
        gpu_conv.conv(x, w, c),
        gpu_conv.conv_transpose(y, w, b),
        *kernels.backward(gpu_conv, x, y, w),
        *kernels.backward(gpu_conv, y, x, w, transposed=True),
    ]


@SHAPES
@FINISHES
@DTYPES
def test_conv_is_as_defined(arrays, shape, bias, relu, mask, dtype):
    x, y, w, _, c = arrays(*shape, dtype)
    check("conv", x, w, c if bias else None, relu, y if mask else None)


@SHAPES
@FINISHES
@DTYPES
def test_conv_transpose_is_as_defined(arrays, shape, bias, relu, mask, dtype):
    x, y, w, b, _ = arrays(*shape, dtype)
    check("conv_transpose", y, w, b if bias else None, relu, x if mask else None)


@SHAPES
@pytest.mark.parametrize("bias", [None, "small", "large"])
@DTYPES
def test_conv_weight_grad_is_as_defined(arrays, shape, bias, dtype):
    x, y, w, _, _ = arrays(*shape, dtype)
    check("conv_weight_grad", x, y, w.shape[1], bias)


@KINDS
@pytest.mark.parametrize("mask", [False, True])
@DTYPES
def test_gradients_taken_together_are_as_defined(arrays, channels, kernel, mask, dtype):
    x, y, w, _, _ = arrays(2, 3, 8, 8, channels, 7, kernel, dtype)
    check("conv_backward", x, y, w, x if mask else None)
    check("conv_transpose_backward", x, y, w, y if mask else None)


@pytest.mark.parametrize(
    ("size", "channels"), [(32, 1), (32, 3), (64, 1), (64, 3), (128, 3)], ids=str
)
@DTYPES
def test_layers_that_see_whole_images(arrays, images_of_bytes, size, channels, dtype):
    # The gradient of a single bias in bfloat16 may be off by more than several are on average.
    models = 1 if dtype == torch.float32 else 3
    _, hidden, w, b, c = arrays(models, 1, size, size, channels, 32, 4, dtype)
    images = images_of_bytes(models, 1, size, size, channels)
    check("conv", images, w, c, True)
    check("conv_weight_grad", images, hidden, 4, "small")
    check("conv_transpose", hidden, w, b)
    gradient = reference.unit(images, dtype) - 0.125
    check("conv_transpose_backward", gradient, hidden, w, hidden)


@KINDS
@DTYPES
def test_bytes_stand_for_numbers_up_to_one(arrays, images_of_bytes, channels, kernel, dtype):
    x, y, w, _, c = arrays(2, 3, 8, 12, channels, 7, kernel, dtype)
    images = images_of_bytes(*x.shape)
    images[:, 0, :2] = torch.tensor([0, 255], dtype=torch.uint8, device=x.device)[:, None, None]
    check("conv", images, w, c, True, y)
    check("conv_weight_grad", images, y, kernel, "small")


@KINDS
@DTYPES
def test_models_may_share_their_images(arrays, images_of_bytes, channels, kernel, dtype):
    x, y, w, b, c = arrays(2, 3, 8, 8, channels, 7, kernel, dtype)
    for images in (shared(x), shared(images_of_bytes(*x.shape))):
        check("conv", images, w, c, True)
        check("conv_weight_grad", images, y, kernel, "small")
    check("conv_transpose", shared(y), w, b)
    check("conv_weight_grad", x, shared(y), kernel, "large")
    check("conv_backward", shared(x), shared(y), w)


@pytest.mark.parametrize("channels", [1, 3])
def test_models_may_share_the_images_of_a_transposes_gradient(arrays, channels):
    x, y, w, _, _ = arrays(5, 3, 8, 8, channels, 7, 4)
    check("conv_transpose_backward", shared(x), y, w)
    check("conv_transpose_backward", x, shared(y), w)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_transposes_gradient_may_be_masked_by_any_image(arrays, channels):
    x, y, w, _, _ = arrays(3, 2, 8, 8, channels, 7, 4)
    check("conv_transpose_backward", x, y, w, -y)


@KINDS
def test_nothing_outside_a_view_is_read(arrays, channels, kernel):
    x, y, w, b, c = arrays(2, 3, 8, 12, channels, 7, kernel)
    images, small, weight = within(x), within(y), within(w)
    assert not weight.is_contiguous()
    check("conv", images, weight, within(c), True, y)
    check("conv_transpose", small, weight, within(b), True, x)
    check("conv_weight_grad", images, small, kernel, "small")
    check("conv_weight_grad", images, small, kernel, "large")
    check("conv_backward", images, small, weight, images)
    check("conv_transpose_backward", images, small, weight, small)


@KINDS
def test_axes_may_lie_in_any_order(arrays, channels, kernel):
    x, y, w, b, c = arrays(2, 2, 8, 12, channels, 7, kernel)
    images, small, weight = turned(x), turned(y), turned(w)
    check("conv", images, weight, c)
    check("conv_transpose", small, weight, b)
    check("conv_weight_grad", images, small, kernel, "small")
    check("conv_backward", images, small, weight, images)
    check("conv_transpose_backward", images, small, weight, small)


@KINDS
def test_axes_of_a_bias_may_lie_in_any_order(arrays, channels, kernel):
    x, y, w, b, c = arrays(2, 2, 8, 8, channels, 7, kernel)
    check("conv", x, w, turned(c))
    check("conv_transpose", y, w, turned(b))


@KINDS
@pytest.mark.parametrize("layout", [turned, shared])
def test_axes_of_a_mask_may_lie_in_any_order(arrays, channels, kernel, layout):
    x, y, w, _, _ = arrays(2, 2, 8, 8, channels, 7, kernel)
    check("conv", x, w, None, False, layout(y))
    check("conv_transpose", y, w, None, False, layout(x))


@IMAGES
@DTYPES
def test_a_model_does_not_depend_on_its_fleet(arrays, images, kernel, dtype):
    fleet = arrays(3, *images, 7, kernel, dtype)
    together = everything(*fleet)
    for model in (0, 2):
        alone = everything(*(array[model : model + 1] for array in fleet))
        assert all(torch.equal(t[model], a[0]) for t, a in zip(together, alone, strict=True))


@IMAGES
@DTYPES
def test_two_runs_give_the_same_bits(arrays, images, kernel, dtype):
    fleet = arrays(1, *images, 18, kernel, dtype)
    assert all(map(torch.equal, everything(*fleet), everything(*fleet)))


@KINDS
def test_nan_in_one_model_stays_there(arrays, channels, kernel):
    fleet = arrays(3, 2, 8, 8, channels, 7, kernel)
    sound = everything(*fleet)
    for array in fleet:
        array[1] = math.nan
    for sick, other in zip(everything(*fleet), sound, strict=True):
        assert sick[1].isnan().all()
        assert torch.equal(sick[[0, 2]], other[[0, 2]])


@KINDS
def test_nan_passes_the_relu(arrays, channels, kernel):
    x, y, w, b, c = arrays(1, 2, 8, 8, channels, 7, kernel)
    w[:] = math.nan
    assert gpu_conv.conv(x, w, c, True).isnan().all()
    assert gpu_conv.conv_transpose(y, w, b, True).isnan().all()


@KINDS
@pytest.mark.parametrize(
    "launch",
    [
        Launch(rows=16, taps=16, splits=4, stages=1),
        Launch(rows=64, taps=64, warps=8, splits=1, stages=4),
    ],
    ids=["small", "large"],
)
def test_how_work_is_cut_changes_only_rounding(arrays, channels, kernel, launch):
    x, y, w, b, c = arrays(1, 3, 8, 12, channels, 7, kernel)
    check("conv", x, w, c, True, launch=launch)
    check("conv_transpose", y, w, b, True, launch=launch)
    check("conv_weight_grad", x, y, kernel, "small", launch=launch)
    check("conv_weight_grad", x, y, kernel, "large", launch=launch)
    check("conv_transpose_backward", x, y, w, y, launch=launch)


@KINDS
def test_the_three_kernels_are_each_others_adjoints(arrays, channels, kernel):
    x, y, w, _, _ = arrays(3, 2, 8, 12, channels, 7, kernel)
    small = exact(gpu_conv.conv(x, w))
    forward = (small * exact(y)).sum()
    backward = (exact(x) * exact(gpu_conv.conv_transpose(y, w))).sum()
    by_weight = (exact(w) * exact(gpu_conv.conv_weight_grad(x, y, kernel)[0])).sum()
    scale = small.norm() * exact(y).norm()
    assert (forward - backward).abs() <= 1e-5 * scale
    assert (forward - by_weight).abs() <= 1e-5 * scale


@pytest.fixture
def fused(monkeypatch):
    """The public kernels are those for a GPU, whatever the device."""
    monkeypatch.setattr(kernels, "fused", lambda x: True)


def by_torch(function, images, weight, bias, relu=False):
    """The library's convolution, one model after the other, channels first."""
    padding = (weight.shape[1] - 2) // 2
    outputs = []
    for x, w, b in zip(images.movedim(-1, 2), weight.permute(0, 4, 3, 1, 2), bias, strict=True):
        outputs.append(function(x, w, b, stride=2, padding=padding).movedim(1, -1))
    return torch.stack(outputs).relu() if relu else torch.stack(outputs)


def fresh(tensors, wanted=(0, 1, 2)):
    """Return copies, some of which require gradients."""
    return [tensor.clone().requires_grad_(k in wanted) for k, tensor in enumerate(tensors)]


def loss(output):
    """Something curved, and not flat where a ReLU or a mask has left zero."""
    return (output + 1).square().mean()


def pairs(arrays, *shape):
    """Each convolution, the library's, their tensors, and a mask for the result."""
    x, y, w, b, c = arrays(*shape)
    return [
        (kernels.conv, F.conv2d, (x, w, c), y),
        (kernels.conv_transpose, F.conv_transpose2d, (y, w, b), x),
    ]


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.usefixtures("fused")
def test_any_gradients_are_torchs(arrays, wanted):
    for ours, theirs, tensors, _ in pairs(arrays, 2, 2, 8, 8, 3, 5, 4):
        inputs, plain = fresh(tensors, wanted), fresh(map(exact, tensors), wanted)
        output, expected = ours(*inputs, True), by_torch(theirs, *plain, True)
        check_close(
            torch.autograd.grad(loss(output), [inputs[k] for k in wanted]),
            torch.autograd.grad(loss(expected), [plain[k] for k in wanted]),
            1e-5,
        )


def second(output, inputs, measure):
    """Return second derivatives: gradients of a function of the gradients."""
    gradients = torch.autograd.grad(loss(output), inputs, create_graph=True)
    return torch.autograd.grad(sum(map(measure, gradients)), inputs)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.usefixtures("fused")
def test_second_derivatives_are_torchs(arrays, relu):
    for ours, theirs, tensors, mask in pairs(arrays, 2, 2, 4, 6, 3, 5, 4):
        inputs, plain = fresh(tensors), fresh(map(exact, tensors))
        expected = by_torch(theirs, *plain, relu) * (exact(mask) > 0)
        check_close(
            second(ours(*inputs, relu, mask), inputs, lambda gradient: gradient.square().sum()),
            second(expected, plain, lambda gradient: gradient.square().sum()),
            1e-5,
        )


@pytest.mark.usefixtures("fused")
def test_sums_of_gradients_are_differentiable(arrays):
    for ours, theirs, tensors, _ in pairs(arrays, 2, 1, 4, 4, 3, 5, 2):
        inputs, plain = fresh(tensors), fresh(map(exact, tensors))
        check_close(
            second(ours(*inputs), inputs, torch.sum),
            second(by_torch(theirs, *plain), plain, torch.sum),
            1e-5,
        )


def autoencoder(channels):
    encoder = Network(
        (
            Conv(channels, 6, 4),
            Conv(6, 5, 2),
            Conv(5, 4, 2),
            Reshape((16,)),
            Linear(16, 3, "none"),
        )
    )
    decoder = Network(
        (
            Linear(3, 80, "tanh"),
            Reshape((4, 4, 5)),
            ConvTranspose(5, 6, 2),
            ConvTranspose(6, channels, 4, relu=False),
        )
    )
    return encoder, decoder


def layer_by_layer(network, buffer, x):
    """The same network by the library's convolutions, each with a ReLU of its own."""
    parameters = dict(network.named(buffer))
    for place, layer in enumerate(network.layers):
        own = {name: parameters[f"{place}.{name}"] for name in layer.shapes}
        if isinstance(layer, Conv):
            transposed = isinstance(layer, ConvTranspose)
            function = F.conv_transpose2d if transposed else F.conv2d
            x = by_torch(function, x, own["weight"], own["bias"], layer.relu)
        else:
            x = layer(own, x)
    return x


@pytest.fixture(params=[1, 3])
def trained(request, device, images_of_bytes, fused):
    """Losses of two models by our kernels and by the library, and their parameters."""
    encoder, decoder = autoencoder(request.param)
    images = images_of_bytes(1, 2, 16, 16, request.param).expand(2, -1, -1, -1, -1)
    start = [network.initial(torch.arange(2), "test", "torch") for network in (encoder, decoder)]
    ours, theirs = fresh(buffer.to(device) for buffer in start), fresh(map(exact, start))
    losses = kernels.bernoulli(decoder(ours[1], encoder(ours[0], images)), images)
    x = exact(images).double() / 255
    decoded = layer_by_layer(decoder, theirs[1], layer_by_layer(encoder, theirs[0], x))
    return (losses, ours), (reference.bernoulli(decoded, x), theirs)


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_networks_gradients_are_torchs(trained, create_graph):
    results = [
        (losses, *torch.autograd.grad(losses.mean(), buffers, create_graph=create_graph))
        for losses, buffers in trained
    ]
    check_close(*results, 1e-5)


def test_a_networks_second_derivatives_are_torchs(trained):
    results = [
        second(losses, buffers, lambda gradient: gradient.square().sum())
        for losses, buffers in trained
    ]
    check_close(*results, 1e-5)
