"""Likelihoods for a GPU against their formulas; without a GPU, in Triton's interpreter."""

import math

import pytest
import torch

from unweave import kernels
from unweave.kernels import gpu_likelihoods

# Models, images, and pixels that fill a block, a part of one, several, or a little more than one.
SHAPES = pytest.mark.parametrize(
    "shape",
    [(3, 5, 32, 32, 1), (1, 1, 3, 5, 1), (5, 2, 32, 32, 3), (1, 3, 18, 19, 3)],
    ids=str,
)
KINDS = pytest.mark.parametrize("kind", ["bytes", "numbers"])
# Triton's interpreter rounds to bfloat16 in its own way.
DTYPES = pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16] if torch.cuda.is_available() else [torch.float32]
)


LIKELIHOODS = pytest.mark.parametrize("squared", [False, True], ids=["bernoulli", "squared"])


@pytest.fixture
def draw(device):
    """Draws logits, some of them extreme, images, and a weight for every image."""
    generator = torch.Generator().manual_seed(0)

    def drawn(shape, kind, dtype=torch.float32):
        logits = 4 * torch.randn(*shape, generator=generator)
        logits[..., ::3, :, :] = 40 * logits[..., ::3, :, :].sign()
        images = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        images = images if kind == "bytes" else images / 255
        weights = torch.randn(*shape[:2], generator=generator)
        return logits.to(device, dtype), images.to(device), weights.to(device)

    return drawn


def exact(images):
    images = images.cpu()
    return images.double() / 255 if images.dtype == torch.uint8 else images.double()


def formula(outputs, images, squared):
    """-Σ [x log p + (1 - x) log(1 - p)], or Σ (x - p)², in double precision."""
    outputs, images = outputs.cpu().double(), exact(images)
    if squared:
        return (outputs - images).square().sum((2, 3, 4))
    losses = images * torch.logaddexp(outputs * 0, -outputs)
    losses += (1 - images) * torch.logaddexp(outputs * 0, outputs)
    return losses.sum((2, 3, 4))


def slope(outputs, images, weights, squared):
    outputs = outputs.cpu().double()
    each = 2 * (outputs - exact(images)) if squared else outputs.sigmoid() - exact(images)
    return weights.cpu().double()[:, :, None, None, None] * each


@LIKELIHOODS
@SHAPES
@KINDS
@DTYPES
def test_losses_are_the_formula(draw, shape, kind, dtype, squared):
    logits, images, _ = draw(shape, kind, dtype)
    losses = gpu_likelihoods.losses(logits, images, squared)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(
        losses.cpu().double(),
        formula(logits, images, squared),
        rtol=1e-5,
        atol=0,
        check_stride=False,
    )


@pytest.mark.parametrize("size", [1.4, 3.0, 3.6, 6.77, 40.0])
@KINDS
def test_small_losses_keep_their_digits(device, size, kind):
    images = torch.randint(2, (1, 3, 7, 9, 1), generator=torch.Generator().manual_seed(0))
    logits = (size * (2.0 * images - 1)).to(device)
    images = (255 * images).byte() if kind == "bytes" else images.float()
    losses = gpu_likelihoods.losses(logits, images.to(device)).cpu().double()
    expected = torch.full((1, 3), 63 * math.log1p(math.exp(-size)), dtype=torch.float64)
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=0)


@LIKELIHOODS
@SHAPES
@KINDS
@DTYPES
def test_gradients_are_weighted_by_image(draw, shape, kind, dtype, squared):
    logits, images, weights = draw(shape, kind, dtype)
    gradients = gpu_likelihoods.gradients(logits, images, weights, squared)
    assert gradients.dtype == dtype
    expected = slope(logits, images, weights, squared)
    if dtype == torch.float32:
        torch.testing.assert_close(gradients.cpu().double(), expected, rtol=1e-5, atol=1e-6)
    assert (gradients.cpu().double() - expected).norm() <= 3e-3 * expected.norm()


@LIKELIHOODS
@KINDS
def test_arrays_may_be_expanded_or_transposed(draw, kind, squared):
    logits, images, weights = draw((3, 2, 6, 6, 3), kind)
    images = images[:1].expand(images.shape)
    turned = logits.permute(4, 3, 2, 1, 0).contiguous().permute(4, 3, 2, 1, 0)
    weights = weights[:, :1].expand(3, 2)
    losses = gpu_likelihoods.losses(turned, images, squared).cpu().double()
    torch.testing.assert_close(losses, formula(logits, images, squared), rtol=1e-5, atol=0)
    gradients = gpu_likelihoods.gradients(turned, images, weights, squared).cpu().double()
    torch.testing.assert_close(
        gradients, slope(logits, images, weights, squared), rtol=1e-5, atol=1e-6
    )


def test_an_image_does_not_depend_on_the_others(draw):
    logits, images, weights = draw((5, 2, 20, 20, 3), "bytes")
    losses = gpu_likelihoods.losses(logits, images)
    gradients = gpu_likelihoods.gradients(logits, images, weights)
    for model in range(5):
        own = [array[model : model + 1] for array in (logits, images, weights)]
        assert torch.equal(losses[model], gpu_likelihoods.losses(*own[:2])[0])
        assert torch.equal(gradients[model], gpu_likelihoods.gradients(*own)[0])
    logits[1, 0, 0, 0, 0] = math.nan
    sick = gpu_likelihoods.losses(logits, images)
    assert sick.isnan().nonzero().tolist() == [[1, 0]]
    assert torch.equal(sick[~sick.isnan()], losses[~sick.isnan()])


@LIKELIHOODS
@KINDS
@pytest.mark.parametrize("create_graph", [False, True])
def test_derivatives_are_those_of_the_plain_version(
    draw, kind, create_graph, squared, monkeypatch
):
    logits, images, weights = draw((3, 2, 6, 5, 1), kind)
    loss_of = kernels.squared_error if squared else kernels.bernoulli

    def derivatives(*tensors):
        """The gradient, and of its length the slope along the logits and the weights."""
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        loss = (loss_of(inputs[0], images.to(tensors[0].device)) * inputs[1]).sum()
        gradients = torch.autograd.grad(loss, inputs, create_graph=create_graph)
        if not create_graph:
            return gradients
        return *gradients, *torch.autograd.grad(gradients[0].square().sum(), inputs)

    plain = derivatives(logits.cpu().double(), weights.cpu().double())
    monkeypatch.setattr(kernels, "fused", lambda x: True)
    for ours, theirs in zip(derivatives(logits, weights), plain, strict=True):
        assert (ours.cpu().double() - theirs).norm() <= 1e-5 * theirs.norm()


def test_images_may_be_more_than_a_grid_is_wide(device):
    # Only the first axis of a grid has no end; on a GPU a fleet of 1,024 models met it.
    images = 66_000 if torch.cuda.is_available() else 66
    logits = torch.linspace(-3, 3, images, device=device).view(images, 1, 1, 1, 1)
    pixels, weights = torch.ones_like(logits), torch.ones(images, 1, device=device)
    gradients = gpu_likelihoods.gradients(logits, pixels, weights)
    torch.testing.assert_close(gradients, logits.sigmoid() - 1)
