"""Conditional flows: densities that integrate to 1, exact inverses, true determinants."""

import pytest
import torch

from unweave.papers.ms_vae.coupling import ConditionalFlow


def shaken(features, context, couplings=5, width=16, seed=0):
    """A flow that is not near the identity, settled on points of its own."""
    flow = ConditionalFlow(features, context, couplings, width, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    x = 1 + 2 * torch.randn(500, features, generator=generator)
    y = torch.randn(500, context, generator=generator)
    flow.settle(x, y)
    return flow, x, y


def test_the_density_integrates_to_1():
    flow, _, _ = shaken(2, 3, couplings=3)
    y = torch.tensor([[0.5, -1.0, 2.0]])
    around = flow.sample(y.expand(4000, -1))
    low, high = around.amin(0) - 4 * around.std(0), around.amax(0) + 4 * around.std(0)
    axes = [torch.linspace(a, b, 800) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    grid = torch.cartesian_prod(*axes)
    cell = float(((high - low) / 799).prod())
    total = flow.log_densities(grid, y.expand(len(grid), -1)).double().exp().sum() * cell
    assert float(total) == pytest.approx(1, abs=2e-3)


def test_samples_follow_the_density():
    """E log p under samples is the negative entropy by quadrature."""
    flow, _, _ = shaken(2, 1, couplings=2, seed=4)
    y = torch.tensor([[1.0]])
    x = flow.sample(y.expand(20_000, -1), seed=1)
    mean = flow.log_densities(x, y.expand(len(x), -1)).mean()
    low, high = x.amin(0) - 2 * x.std(0), x.amax(0) + 2 * x.std(0)
    axes = [torch.linspace(a, b, 700) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    grid = torch.cartesian_prod(*axes)
    nats = flow.log_densities(grid, y.expand(len(grid), -1)).double()
    entropy = -(nats.exp() * nats).sum() * float(((high - low) / 699).prod())
    assert float(-mean) == pytest.approx(float(entropy), abs=0.03)


@pytest.mark.parametrize("features", [2, 5, 40])
def test_transforms_are_inverted(features):
    """To all digits in float64; a trained flow in float32 is in `test_stages_flow`."""
    flow, x, y = shaken(features, 4)
    x, y = x.double(), y.double()
    with torch.no_grad():
        f = flow.double().transform(y)
        assert (f.inv(f(x)) - x).abs().max() < 1e-9
        assert (f(x) - x).abs().max() > 0.5


@pytest.mark.parametrize("training", [False, True])
def test_the_determinant_is_that_of_autograd(training):
    """In training a point moves the statistics too, which the flow leaves out, as usual."""
    flow, x, y = shaken(6, 2)
    flow.double().train(training)
    x, y = x.double(), y.double()
    if training:  # the statistics of this batch, held fixed
        found = flow.transform(y).call_and_ladj(x)[1][:4]
        flow.settle(x, y)
    else:
        found = flow.transform(y[:4]).call_and_ladj(x[:4])[1]
    found = found.detach()
    for row in range(4):
        transform = flow.transform(y[row : row + 1])
        jacobian = torch.autograd.functional.jacobian(
            lambda point, f=transform: f(point[None])[0], x[row]
        )
        assert found[row].item() == pytest.approx(jacobian.slogdet()[1].item(), abs=1e-8)


def test_couplings_alternate_between_halves():
    flow = ConditionalFlow(5, 2, couplings=2, width=8)
    x, y = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)), torch.zeros(3, 2)
    for place, kept in ((0, [0, 2, 4]), (2, [1, 3])):
        moved = flow.layers[place](y)(x)
        assert [k for k in range(5) if torch.equal(moved[:, k], x[:, k])] == kept


def test_settled_statistics_are_those_of_all_points_after_the_layers_below():
    flow, x, y = shaken(4, 2, couplings=3)
    h = x
    with torch.no_grad():
        for layer in flow.layers:
            h = layer(y)(h)
            if hasattr(layer, "log_gain"):  # normalised, then scaled and moved
                back = (h - layer.shift) / layer.log_gain.exp()
                assert back.mean(0).abs().max() < 1e-4
                assert (back.std(0, correction=0) - 1).abs().max() < 1e-3


def test_one_large_batch_is_the_same_in_training_and_settled():
    flow, x, y = shaken(7, 2)
    settled = flow.log_densities(x, y)
    with torch.no_grad():
        torch.testing.assert_close(flow.train().log_density(x, y), settled, rtol=1e-4, atol=1e-3)


def test_the_condition_and_the_seed_matter_and_nothing_else_is_drawn_from():
    before = torch.get_rng_state()
    one, other, third = (ConditionalFlow(3, 2, 2, 8, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    x, y = torch.ones(1, 3), torch.ones(1, 2)
    assert one.log_densities(x, y) == other.log_densities(x, y)
    assert one.log_densities(x, y) != third.log_densities(x, y)
    assert one.log_densities(x, y) != one.log_densities(x, -y)
