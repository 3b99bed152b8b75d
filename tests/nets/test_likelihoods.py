"""Likelihoods: explicit formulas in double precision, sums and not means."""

import pytest
import torch

from unweave.nets.likelihoods import (
    LIKELIHOODS,
    bernoulli,
    gaussian,
    learned_gaussian,
    mean_image,
    narrow_gaussian,
)

SHAPE = (3, 5, 4, 6, 2)


def draw(seed=0):
    return torch.randn(*SHAPE, generator=torch.Generator().manual_seed(seed))


def targets(seed=1):
    return torch.rand(*SHAPE, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("binary", [True, False])
def test_bernoulli_is_the_cross_entropy_summed_over_pixels(binary):
    logits, images = 3 * draw(), targets()
    images = images.round() if binary else images
    p, x = logits.double().sigmoid(), images.double()
    expected = torch.zeros(3, 5, dtype=torch.float64)
    for m in range(3):
        for b in range(5):
            q, t = p[m, b], x[m, b]
            expected[m, b] = -(t * q.log() + (1 - t) * (1 - q).log()).sum()
    loss = bernoulli(logits, images)
    assert loss.shape == (3, 5)
    torch.testing.assert_close(loss, expected.float(), rtol=1e-5, atol=0)


def test_bernoulli_of_logits_zero_is_the_number_of_pixels_times_log_two():
    loss = bernoulli(torch.zeros(SHAPE), targets())
    torch.testing.assert_close(loss, torch.full((3, 5), 48 * 0.6931471805599453))


@pytest.mark.parametrize("sign", [1, -1])
def test_bernoulli_of_extreme_logits_is_finite_and_linear(sign):
    logits = torch.full(SHAPE, 100.0 * sign, requires_grad=True)
    right, wrong = (1.0, 0.0) if sign > 0 else (0.0, 1.0)
    for target, expected in [(right, 0.0), (wrong, 4800.0), (0.25, 3600 if sign > 0 else 1200)]:
        loss = bernoulli(logits, torch.full(SHAPE, target))
        torch.testing.assert_close(loss, torch.full((3, 5), float(expected)))
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        torch.testing.assert_close(gradient, torch.full(SHAPE, (sign + 1) / 2 - target))


def test_gaussian_is_the_plain_sum_of_squares():
    means, images = draw(), targets()
    expected = ((means.double() - images.double()) ** 2).sum((2, 3, 4))
    torch.testing.assert_close(gaussian(means, images), expected.float(), rtol=1e-5, atol=0)
    assert torch.equal(
        gaussian(torch.full(SHAPE, 3.0), torch.ones(SHAPE)), torch.full((3, 5), 192.0)
    )


def test_the_narrow_gaussian_is_a_normal_density_up_to_its_constant():
    means, images = draw(), targets()
    density = torch.distributions.Normal(means.double(), 0.1)
    exact = (density.log_prob(means.double()) - density.log_prob(images.double())).sum((2, 3, 4))
    torch.testing.assert_close(narrow_gaussian(means, images), exact.float(), rtol=1e-5, atol=0)


def test_the_learned_gaussian_is_the_normal_density_with_the_most_likely_variance():
    means, images = draw(), targets()
    errors = (means.double() - images.double()) ** 2
    deviation = (errors.mean((1, 2, 3, 4), keepdim=True) + 1 / (12 * 255**2)).sqrt()
    density = torch.distributions.Normal(means.double(), deviation)
    exact = -200 * density.log_prob(images.double()).mean((2, 3, 4))
    torch.testing.assert_close(learned_gaussian(means, images), exact.float(), rtol=1e-5, atol=0)


def test_the_learned_variance_has_no_gradient():
    means, images = draw().requires_grad_(), targets()
    (gradient,) = torch.autograd.grad(learned_gaussian(means, images).sum(), means)
    apart = (means - images).detach()
    variance = (apart**2).mean((1, 2, 3, 4), keepdim=True) + 1 / (12 * 255**2)
    torch.testing.assert_close(gradient, 200 * apart / variance / 48, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", [bernoulli, gaussian, learned_gaussian, narrow_gaussian])
def test_half_precision_outputs_are_summed_in_single(loss):
    decoded, images = draw().bfloat16(), targets()
    assert torch.equal(loss(decoded, images), loss(decoded.float(), images))


def test_likelihoods_by_name():
    named = (bernoulli, gaussian, learned_gaussian, narrow_gaussian)
    assert {loss.__name__: loss for loss in named} == LIKELIHOODS


def test_the_mean_image_is_a_probability_or_a_clipped_mean():
    decoded = 4 * draw()
    probabilities = mean_image("bernoulli", decoded)
    torch.testing.assert_close(probabilities, 1 / (1 + (-decoded).exp()))
    clipped = mean_image("gaussian", decoded)
    assert clipped.min() == 0
    assert clipped.max() == 1
    inside = (decoded > 0) & (decoded < 1)
    assert inside.any()
    assert torch.equal(clipped[inside], decoded[inside])
    assert torch.equal(clipped[decoded < 0], torch.zeros(int((decoded < 0).sum())))
    assert mean_image("bernoulli", decoded.bfloat16()).dtype == torch.float32
