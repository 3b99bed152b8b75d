"""Densities under mixtures of posteriors for a GPU; without a GPU, in Triton's interpreter."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unweave.kernels import gpu_mixtures
from unweave.methods import ISATCVAE, Batch, BetaTCVAE, Nets, Posterior, beta_tc_vae

# Models, images and latents that fill a tile, a part of one, or a little more than one.
SHAPES = pytest.mark.parametrize(
    "shape",
    [
        (2, 5, 10),
        (1, 1, 1),
        (1, 1, 3),
        (2, 17, 20),
        (1, 7, 33),
        (1, 32, 2),
        (2, 33, 1),
        (1, 130, 3),
    ],
    ids=str,
)
NUMPY_WARNS = pytest.mark.filterwarnings("ignore:overflow|invalid value:RuntimeWarning")


def random(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Case:
    """Halves of an encoder's output, codes drawn from them, and weights of the two results."""

    def __init__(self, device, shape=(2, 5, 3)):
        both = random(*shape[:-1], 2 * shape[-1], seed=0)
        self.mu, self.logvar = both.to(device).chunk(2, -1)
        noise = random(*shape, seed=1).to(device)
        self.z = self.mu + (self.logvar / 2).exp() * noise
        self.of_joint, self.of_product = (
            random(*shape[:-1], seed=seed).to(device) for seed in (2, 3)
        )

    @property
    def inputs(self):
        return self.z, self.mu, self.logvar

    @property
    def weights(self):
        return self.of_joint, self.of_product


def formula(z, mu, logvar):
    """log Σ_i Π_l q(z_jl|x_i) and Σ_l log Σ_i q(z_jl|x_i), as they are written."""
    each = torch.distributions.Normal(mu[:, None], (logvar / 2).exp()[:, None])
    log_q = each.log_prob(z[:, :, None])
    return log_q.sum(-1).logsumexp(-1), log_q.logsumexp(2).sum(-1)


def exact(tensors):
    return [tensor.detach().cpu().double() for tensor in tensors]


def slopes(inputs, weights, function):
    """Both results, and the gradients of their weighted sum."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    results = function(*inputs)
    loss = sum((result * weight).sum() for result, weight in zip(results, weights, strict=True))
    return [*results, *torch.autograd.grad(loss, inputs)]


def close(found, expected, rtol=1e-5, atol=2e-5):
    assert len(found) == len(expected)
    for one, other in zip(exact(found), exact(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


@SHAPES
def test_densities_and_gradients_are_the_formulas(device, shape):
    case = Case(device, shape)
    found = slopes(case.inputs, case.weights, gpu_mixtures.log_mixtures)
    assert all(tensor.dtype == torch.float32 for tensor in found)
    assert [list(tensor.shape) for tensor in found] == [list(shape[:2])] * 2 + [list(shape)] * 3
    close(found, slopes(exact(case.inputs), exact(case.weights), formula))


@pytest.mark.parametrize("logvar", [-16.0, -6.0, 5.0])
@pytest.mark.parametrize("distance", [1.0, 30.0, 1000.0])
def test_codes_far_from_all_posteriors_keep_their_digits(device, distance, logvar):
    case = Case(device)
    case.logvar = case.logvar / 10 + logvar
    spread = (case.logvar / 2).exp()
    case.mu = (case.mu / 10) * spread
    case.z = case.mu + distance * spread * random(2, 5, 3, seed=4).to(device).sign()
    found = slopes(case.inputs, case.weights, gpu_mixtures.log_mixtures)
    expected = slopes(exact(case.inputs), exact(case.weights), formula)
    if distance == 1000.0:
        assert max(result.max() for result in expected[:2]) < -5e5
    # A rounding of a logarithm of -1e6 is one of its posterior's share.
    close(found[:2], expected[:2])
    for one, other in zip(exact(found[2:]), exact(expected[2:]), strict=True):
        tolerance = max(1e-5, 1e-6 * distance**2 / 2)
        assert (one - other).norm() <= tolerance * other.norm()


def test_a_code_with_one_near_posterior_among_far_ones(device):
    case = Case(device, (1, 40, 3))
    case.mu = case.mu + 500 * torch.arange(40.0, device=device)[None, :, None]
    case.z = case.mu + (case.z - Case(device, (1, 40, 3)).mu)
    found = slopes(case.inputs, case.weights, gpu_mixtures.log_mixtures)
    own = Posterior(*exact((case.mu, case.logvar))).log_density(case.z.cpu().double()).sum(-1)
    close(found[:2], [own, own])
    close(found, slopes(exact(case.inputs), exact(case.weights), formula))


def test_tensors_may_be_views(device):
    case, dense = Case(device), Case(device)
    assert not case.mu.is_contiguous()
    dense.mu, dense.logvar = case.mu.contiguous(), case.logvar.contiguous()
    case.z = case.z.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    case.of_joint = case.of_joint[:, :1].expand(2, 5)
    case.of_product = case.of_product.T.contiguous().T
    dense.of_joint = case.of_joint.contiguous()
    ours, theirs = (slopes(c.inputs, c.weights, gpu_mixtures.log_mixtures) for c in (case, dense))
    assert all(map(torch.equal, ours, theirs))


def test_a_model_does_not_depend_on_its_fleet(device):
    case = Case(device, (3, 19, 3))
    together = slopes(case.inputs, case.weights, gpu_mixtures.log_mixtures)
    inputs, weights = ([tensor[1:2] for tensor in some] for some in (case.inputs, case.weights))
    alone = slopes(inputs, weights, gpu_mixtures.log_mixtures)
    assert all(torch.equal(all_of[1], one[0]) for all_of, one in zip(together, alone, strict=True))


@NUMPY_WARNS
@pytest.mark.parametrize("part", ["z", "mu", "logvar"])
def test_nan_stays_within_its_model(device, part):
    case, sound = Case(device), Case(device)
    setattr(case, part, getattr(case, part).clone())
    getattr(case, part)[1, 2, 1] = math.nan
    found = slopes(case.inputs, case.weights, gpu_mixtures.log_mixtures)
    whole = slopes(sound.inputs, sound.weights, gpu_mixtures.log_mixtures)
    plain = slopes(case.inputs, case.weights, formula_without_checks)
    for one, other, expected in zip(found, whole, plain, strict=True):
        assert torch.equal(one[0], other[0])
        assert one[1].isnan().any()
        assert torch.equal(one.isnan(), expected.isnan())


def formula_without_checks(z, mu, logvar):
    return beta_tc_vae.log_mixtures(Posterior(mu, logvar), z, "minibatch", 1)


@pytest.mark.parametrize("used", [0, 1])
def test_one_of_the_two_may_be_unused(device, used):
    case = Case(device)
    inputs = [tensor.detach().requires_grad_() for tensor in case.inputs]
    result = gpu_mixtures.log_mixtures(*inputs)[used]
    found = torch.autograd.grad(result, inputs, case.weights[used])
    case.weights[1 - used].zero_()
    close(found, slopes(exact(case.inputs), exact(case.weights), formula)[2:])


def test_a_graph_may_be_retained_for_another_gradient(device):
    case = Case(device)
    inputs = [tensor.detach().requires_grad_() for tensor in case.inputs]
    results = gpu_mixtures.log_mixtures(*inputs)
    first = torch.autograd.grad(results, inputs, case.weights, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(results, inputs, case.weights)))


def test_gradients_of_gradients_are_those_of_the_formula(device):
    case = Case(device)

    def twice(tensors, weights, function):
        """The gradient, where codes depend on posteriors, and the slope of its length."""
        noise, mu, logvar = (tensor.detach().requires_grad_() for tensor in tensors)
        weights = [weight.detach().requires_grad_() for weight in weights]
        results = function(Posterior(mu, logvar).sample(noise), mu, logvar)
        inputs = [noise, mu, logvar]
        first = torch.autograd.grad(results, inputs, weights, create_graph=True)
        length = sum((gradient**2).sum() for gradient in first)
        return *first, *torch.autograd.grad(length, [*inputs, *weights])

    ours = twice(case.inputs, case.weights, gpu_mixtures.log_mixtures)
    theirs = twice(exact(case.inputs), exact(case.weights), formula)
    for one, other in zip(exact(ours), exact(theirs), strict=True):
        assert (one - other).norm() <= 1e-5 * other.norm()


class Largest(TorchDispatchMode):
    """Notes how many numbers each new tensor has."""

    def __init__(self):
        super().__init__()
        self.sizes = {}

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.sizes[storage.data_ptr()] = storage.nbytes() // 4
        return result


def test_memory_is_one_number_for_each_pair_of_images_and_only_while_differentiating(device):
    models, size, latents = 2, 40, 2
    case = Case(device, (models, size, latents))
    given, pairs = 4 * models * size * latents, models * size * size
    with torch.no_grad():
        with Largest() as there:
            gpu_mixtures.log_mixtures(*case.inputs)
        columns = gpu_mixtures._columns(*case.inputs)
        sums = [gpu_mixtures._log2_sums(columns, groups) for groups in (1, latents)]
        with Largest() as back:
            gpu_mixtures.gradients(columns, *sums, *case.weights)
    assert max(there.sizes.values()) == given
    assert sorted(back.sizes.values())[-1] == pairs
    assert sorted(back.sizes.values())[-2] <= given


@pytest.fixture
def launches(monkeypatch):
    """On a GPU, or as if there were one, notes what goes to the kernels."""
    calls, kernel = [], gpu_mixtures.log_mixtures

    def noted(*arguments):
        calls.append(arguments)
        return kernel(*arguments)

    monkeypatch.setattr(gpu_mixtures, "log_mixtures", noted)
    monkeypatch.setattr(beta_tc_vae, "fused", lambda z: z.dtype != torch.float64)
    return calls


@pytest.mark.parametrize(
    ("estimator", "expected"), [("minibatch", 1), ("weighted", 1), ("stratified", 0)]
)
def test_the_three_terms_are_the_same_on_a_gpu(device, launches, estimator, expected):
    case = Case(device)

    def terms(z, mu, logvar):
        parts = beta_tc_vae.decompose(Posterior(mu, logvar), z, estimator, 50)
        return torch.stack(parts).unsqueeze(0)

    weights = random(1, 3, 2, seed=5)
    found = slopes(case.inputs, [weights.to(device)], terms)
    assert len(launches) == expected
    close(found, slopes(exact(case.inputs), [weights.double()], terms))
    assert len(launches) == expected


@pytest.mark.parametrize(
    "method", [BetaTCVAE(beta=3.0, alpha=0.5, gamma=2.0), ISATCVAE(beta=3.0)], ids=lambda m: m.name
)
def test_the_loss_of_a_method_is_the_same_on_a_gpu(device, launches, method, monkeypatch):
    images, seeds = random(2, 9, 6, seed=0).to(device), torch.tensor([3, 8], device=device)
    inwards, outwards = random(2, 6, 8, seed=1) / 3, random(2, 4, 6, seed=2) / 3
    batch = Batch(images, seeds, torch.tensor(7, device=device), 1000)

    def loss_and_gradients():
        weights = [weight.to(device).requires_grad_() for weight in (inwards, outwards)]
        apply = {"encoder": lambda x: x @ weights[0], "decoder": lambda z: z @ weights[1]}
        nets = Nets(apply, lambda shown, seen: (shown - seen).square().sum(-1))
        loss = method.losses(nets, batch).groups["model"]
        return loss, *torch.autograd.grad(loss.sum(), weights)

    found = loss_and_gradients()
    assert len(launches) == 1
    monkeypatch.setattr(beta_tc_vae, "fused", lambda z: False)
    close(found, loss_and_gradients())
    assert len(launches) == 1
