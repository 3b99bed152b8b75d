"""Codes and KL divergences for a GPU; without a GPU, in Triton's interpreter."""

import math

import pytest
import torch

from unweave.kernels import gpu_latents
from unweave.methods import Posterior

# Models, images and latents that fill a block, a part of one, several, or a little more than one.
SHAPES = pytest.mark.parametrize(
    "shape", [(3, 5, 10), (1, 1, 1), (4, 32, 8), (2, 35, 16), (1, 3, 33), (2, 1, 700)], ids=str
)

NUMPY_WARNS = pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Case:
    """Halves of an encoder's output, some log-variances extreme, with noise and weights."""

    def __init__(self, device, shape=(3, 5, 10)):
        both = random(*shape[:-1], 2 * shape[-1], seed=0)
        both[..., shape[-1] :][..., ::3] *= 20 / 3
        self.mu, self.logvar = both.to(device).chunk(2, -1)
        self.noise, self.of_z = (random(*shape, seed=seed).to(device) for seed in (1, 2))
        self.of_kl = random(*shape[:-1], seed=3).to(device)

    @property
    def inputs(self):
        return self.mu, self.logvar, self.noise

    @property
    def weights(self):
        return self.of_z, self.of_kl

    def model(self, place):
        """One model by itself."""
        alone = object.__new__(Case)
        vars(alone).update({name: value[place : place + 1] for name, value in vars(self).items()})
        return alone


def exact(tensors):
    return [tensor.detach().cpu().double() for tensor in tensors]


def formula(mu, logvar, noise):
    """z = μ + σ ε and KL = ½ Σ (μ² + σ² - log σ² - 1), as they are written."""
    z = mu + logvar.exp().sqrt() * noise
    return z, 0.5 * (mu * mu + logvar.exp() - logvar - 1).sum(-1)


def weighted(z, kl, of_z, of_kl):
    return (z * of_z).sum() + (kl * of_kl).sum()


def slopes(case):
    """The gradient of the weighted sum, by the formula in double precision."""
    inputs = [tensor.requires_grad_() for tensor in exact(case.inputs)]
    return torch.autograd.grad(weighted(*formula(*inputs), *exact(case.weights)), inputs)


def close(found, expected, rtol=1e-6, atol=1e-6):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=rtol, atol=atol)


@SHAPES
def test_codes_and_divergences_are_the_formula(device, shape):
    case = Case(device, shape)
    z, kl = gpu_latents.sample_and_kl(*case.inputs)
    assert z.dtype == kl.dtype == torch.float32
    close((z, kl), formula(*exact(case.inputs)))


@SHAPES
def test_gradients_are_those_of_the_formula(device, shape):
    case = Case(device, shape)
    close(gpu_latents.gradients(*case.inputs, *case.weights), slopes(case)[:2])


@SHAPES
def test_gradients_match_finite_differences(device, shape):
    case, step = Case(device, shape), 1e-2
    case.logvar = case.logvar.clamp(-2, 2)
    ways = [random(*shape, seed=seed).to(device) for seed in (4, 5)]

    def along(size):
        moved = [part + size * way for part, way in zip(case.inputs, ways, strict=False)]
        return weighted(
            *exact(gpu_latents.sample_and_kl(*moved, case.noise)), *exact(case.weights)
        )

    found = exact(gpu_latents.gradients(*case.inputs, *case.weights))
    sizes = [gradient * way for gradient, way in zip(found, exact(ways), strict=True)]
    scale = sum(float(size.abs().sum()) for size in sizes)
    expected = float(along(step) - along(-step)) / (2 * step)
    assert sum(float(size.sum()) for size in sizes) == pytest.approx(expected, abs=1e-3 * scale)


@pytest.mark.parametrize("logvar", [-20.0, -3.0, -1e-3, 1e-4, 0.3, 20.0])
def test_small_and_large_variances_keep_their_digits(device, logvar):
    case = Case(device)
    case.mu = torch.zeros_like(case.mu)
    case.logvar = torch.full_like(case.mu, logvar)
    z, kl = gpu_latents.sample_and_kl(*case.inputs)
    v = case.logvar[0, 0, 0].item()
    excess = math.expm1(v)
    sigma = math.exp(v / 2)
    close((z,), ((sigma * case.noise).cpu().double(),), rtol=1e-6, atol=0)
    # For small v the divergence ½ (exp(v) - 1 - v) is nearly ¼ v².
    divergence = excess - v if abs(v) > 0.1 else v**2 / 2 + v**3 / 6 + v**4 / 24
    close((kl,), (torch.full((3, 5), 5 * divergence, dtype=torch.float64),), rtol=1e-6, atol=0)
    quiet = torch.zeros_like(case.of_z)
    _, slope = gpu_latents.gradients(*case.inputs, quiet, torch.ones_like(case.of_kl))
    close((slope,), (torch.full((3, 5, 10), excess / 2, dtype=torch.float64),), atol=0)


def test_the_prior_has_zero_divergence_and_gradient(device):
    prior = torch.zeros(2, 3, 5, device=device)
    z, kl = gpu_latents.sample_and_kl(prior, prior, prior + 1)
    assert (z == 1).all()
    assert (kl == 0).all()
    for slope in gpu_latents.gradients(prior, prior, prior, prior, kl + 1):
        assert (slope == 0).all()


@NUMPY_WARNS
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 100.0, 200.0, 1e38])
@pytest.mark.parametrize("part", ["mu", "logvar", "noise"])
def test_non_finite_values_match_the_reference(device, value, part):
    case, sound = Case(device), Case(device)
    getattr(case, part)[1, 2, 3] = value
    posterior = Posterior(case.mu, case.logvar)
    found = gpu_latents.sample_and_kl(*case.inputs)
    for one, other in zip(found, (posterior.sample(case.noise), posterior.kl()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)
    whole = gpu_latents.sample_and_kl(*sound.inputs)
    others = torch.ones(3, 5, dtype=torch.bool)
    others[1, 2] = False
    assert all(
        torch.equal(one[others], other[others]) for one, other in zip(found, whole, strict=True)
    )
    plain = [tensor.detach().clone().requires_grad_() for tensor in case.inputs]
    posterior = Posterior(*plain[:2])
    loss = weighted(posterior.sample(plain[2]), posterior.kl(), *case.weights)
    slope = gpu_latents.gradients(*case.inputs, *case.weights)
    for one, other in zip(slope, torch.autograd.grad(loss, plain[:2]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)


@NUMPY_WARNS
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_stays_so(device, value):
    case = Case(device)
    case.of_z[0, 1, 2] = case.of_kl[2, 4] = value
    for slope in gpu_latents.gradients(*case.inputs, *case.weights):
        sick = torch.zeros(3, 5, 10, dtype=torch.bool)
        sick[0, 1, 2] = sick[2, 4] = True
        assert torch.equal(~slope.isfinite().cpu(), sick)


def test_tensors_may_be_views(device):
    case, dense = Case(device), Case(device)
    dense.mu, dense.logvar = case.mu.contiguous(), case.logvar.contiguous()
    assert not case.mu.is_contiguous()
    case.noise = case.noise.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    case.of_z = case.of_z[:, :1].expand(3, 5, 10)
    case.of_kl = case.of_kl[:, :1].expand(3, 5)
    dense.of_z, dense.of_kl = case.of_z.contiguous(), case.of_kl.contiguous()
    for function, arguments in (
        (gpu_latents.sample_and_kl, lambda c: c.inputs),
        (gpu_latents.gradients, lambda c: (*c.inputs, *c.weights)),
    ):
        assert all(map(torch.equal, function(*arguments(case)), function(*arguments(dense))))


def test_any_axes_may_lead(device):
    case = Case(device, (2, 3, 4, 5))
    z, kl = gpu_latents.sample_and_kl(*case.inputs)
    assert kl.shape == (2, 3, 4)
    close((z, kl), formula(*exact(case.inputs)))


def test_a_model_does_not_depend_on_its_fleet(device):
    case = Case(device)
    z, kl = gpu_latents.sample_and_kl(*case.inputs)
    slopes = gpu_latents.gradients(*case.inputs, *case.weights)
    for place in range(3):
        alone = case.model(place)
        own = gpu_latents.sample_and_kl(*alone.inputs)
        own += gpu_latents.gradients(*alone.inputs, *alone.weights)
        for together, one in zip((z, kl, *slopes), own, strict=True):
            assert torch.equal(together[place], one[0])


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("noise_too", [False, True])
def test_derivatives_are_those_of_the_plain_version(device, create_graph, noise_too, monkeypatch):
    case = Case(device)

    def derivatives(tensors, weights, function):
        """The gradient, and the slope of its length along the inputs and the weights."""
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        wanted = inputs if noise_too else inputs[:2]
        weights = [weight.clone().requires_grad_() for weight in weights]
        loss = weighted(*function(Posterior(*inputs[:2]), inputs[2]), *weights)
        gradients = torch.autograd.grad(loss, wanted, create_graph=create_graph)
        if not create_graph:
            return gradients
        length = sum((gradient**2).sum() for gradient in gradients)
        return *gradients, *torch.autograd.grad(length, [*wanted, *weights])

    def apart(posterior, noise):
        return posterior.sample(noise), posterior.kl()

    plain = derivatives(exact(case.inputs), exact(case.weights), apart)
    monkeypatch.setattr("unweave.methods.batch.fused", lambda x: True)
    ours = derivatives(case.inputs, case.weights, Posterior.sample_and_kl)
    for one, other in zip(ours, plain, strict=True):
        assert (one.cpu().double() - other).norm() <= 1e-5 * other.norm()


@pytest.mark.parametrize("used", [0, 1])
def test_one_of_the_two_may_be_unused(device, used):
    case = Case(device)
    inputs = [tensor.clone().requires_grad_() for tensor in (case.mu, case.logvar)]
    result = gpu_latents.sample_and_kl(*inputs, case.noise)[used]
    found = torch.autograd.grad(result, inputs, case.weights[used])
    (case.of_kl, case.of_z)[used].zero_()
    close(found, slopes(case)[:2])


def test_posteriors_sample_by_the_kernel_on_a_gpu(device, monkeypatch):
    case, calls = Case(device), []
    posterior, kernel = Posterior(case.mu, case.logvar), gpu_latents.sample_and_kl

    def noted(*arguments):
        calls.append(arguments)
        return kernel(*arguments)

    monkeypatch.setattr(gpu_latents, "sample_and_kl", noted)
    monkeypatch.setattr("unweave.methods.batch.fused", lambda x: True)
    plain = formula(*exact(case.inputs))
    close(posterior.sample_and_kl(case.noise), plain)
    assert len(calls) == 1
    # The kernel does not support noise of another shape.
    one = case.noise[:, :1]
    close(posterior.sample_and_kl(one), formula(*exact((case.mu, case.logvar, one))))
    assert len(calls) == 1
