"""Adam for a GPU against the plain one; without a GPU, in Triton's interpreter."""

import math

import pytest
import torch

from unweave.kernels import gpu_adam
from unweave.nets import adam as plain
from unweave.nets.adam import Adam, Moments, StackedAdam, update

RATES = [(1e-2, 0.9, 0.999, 1e-8), (3e-4, 0.5, 0.9, 1e-8), (0.1, 0.8, 0.99, 1e-3)]
MODELS = len(RATES)
# Of a block and a half, one number, and a whole block, with gaps before, between and behind.
SIZES, PLACES, WIDTH = (1500, 1, 1024), (16, 1600, 1616), 2700
GAPS = [slice(0, 16), slice(1516, 1600), slice(1601, 1616), slice(2640, 2700)]
UNTOUCHED = 7.0


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Fleet:
    """Parameters and moments between gaps, and all that a step needs."""

    def __init__(self, device, models=slice(None), variant="torch", lr=None):
        optimisers = [
            Adam(lr=own if lr is None else lr, beta1=beta1, beta2=beta2, eps=eps, variant=variant)
            for own, beta1, beta2, eps in RATES[models]
        ]
        self.models, self.device = models, device
        self.adam = StackedAdam.of(optimisers, device)
        self.parameters, self.first, self.second = (
            array.to(device) for array in (draw(MODELS, WIDTH)[models], *self.moments())
        )
        for array in (self.parameters, self.first, self.second):
            for gap in GAPS:
                array[:, gap] = UNTOUCHED
        self.working = self.parameters.clone()
        self.alive = torch.ones(len(optimisers), dtype=torch.bool, device=device)
        self.finite = self.alive.clone()

    def moments(self):
        first = 0.1 * draw(MODELS, WIDTH, seed=1)[self.models]
        return first, first.square() + 0.01

    def gradients(self, step):
        return [
            draw(MODELS, size, seed=10 * step + part)[self.models].to(self.device)
            for part, size in enumerate(SIZES, 2)
        ]

    def arrays(self):
        return self.parameters, self.first, self.second, self.working

    def move(self, step, gradients=None, fused=True):
        gradients = self.gradients(step) if gradients is None else gradients
        rates = self.adam.rates(torch.tensor(step, device=self.device))
        if fused:
            moments = (self.first, self.second)
            others = (self.working, rates, self.alive, self.finite)
            gpu_adam.update(self.parameters, *moments, gradients, PLACES, *others)
        else:
            moments = Moments(self.first, self.second)
            others = (rates, self.alive, self.finite, self.working)
            update(self.parameters, moments, gradients, PLACES, *others)
        return self


def close(ours, theirs):
    for one, other in zip(ours.arrays(), theirs.arrays(), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("variant", ["torch", "tensorflow"])
def test_steps_are_those_of_the_plain_version(device, variant):
    ours, theirs = Fleet(device, variant=variant), Fleet("cpu", variant=variant)
    start = ours.parameters.clone()
    for step in range(3):
        ours.move(step)
        theirs.move(step, fused=False)
    close(ours, theirs)
    assert ours.finite.all()
    moved = (ours.parameters != start).float().mean(1)
    assert (moved > 0.9).all()


def test_gaps_between_parts_are_left_alone(device):
    fleet = Fleet(device).move(0)
    for array in fleet.arrays():
        assert all((array[:, gap] == UNTOUCHED).all() for gap in GAPS)


def test_a_dead_model_rests(device):
    before, fleet = Fleet(device), Fleet(device)
    fleet.alive[1] = False
    fleet.move(0)
    lively = Fleet(device).move(0)
    for now, past, other in zip(fleet.arrays(), before.arrays(), lively.arrays(), strict=True):
        assert torch.equal(now[1], past[1])
        assert torch.equal(now[[0, 2]], other[[0, 2]])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("part", "place"), [(0, 0), (0, 1499), (1, 0), (2, 1023)])
def test_a_gradient_that_is_not_finite_does_no_harm(device, value, part, place):
    fleet, sound = Fleet(device), Fleet(device).move(0)
    gradients = fleet.gradients(0)
    gradients[part][1, place] = value
    old = fleet.parameters[1, PLACES[part] + place].item()
    fleet.move(0, gradients)
    assert fleet.finite.tolist() == [True, False, True]
    assert fleet.parameters[1, PLACES[part] + place] == old
    for now, other in zip(fleet.arrays(), sound.arrays(), strict=True):
        assert now.isfinite().all()
        assert torch.equal(now[[0, 2]], other[[0, 2]])


def test_who_was_not_finite_stays_so(device):
    fleet = Fleet(device)
    fleet.finite[2] = False
    assert fleet.move(0).finite.tolist() == [True, True, False]


def test_gradients_may_be_views(device):
    fleet, dense = Fleet(device), Fleet(device).move(0)
    first, second, third = fleet.gradients(0)
    wide = torch.full((MODELS, 1600), math.nan, device=device)
    wide[:, 50:1550] = first
    turned = third.T.contiguous().T
    shared = second[:1].expand(MODELS, 1)
    assert not turned.is_contiguous()
    fleet.move(0, [wide[:, 50:1550], second, turned])
    assert all(map(torch.equal, fleet.arrays(), dense.arrays()))
    copied = Fleet(device).move(0, [first, shared.contiguous(), third])
    fleet = Fleet(device).move(0, [first, shared, third])
    assert all(map(torch.equal, fleet.arrays(), copied.arrays()))


def test_rows_of_a_gradient_may_begin_anywhere(device):
    # All sizes are multiples of 4, so that nothing but the address forbids reading in wide words.
    places, sizes = (0, 2048), (2048, 4)
    rates = StackedAdam.of([Adam(lr=0.1)] * MODELS, device).rates(torch.tensor(0, device=device))
    whole, few = draw(MODELS, 2048).to(device), draw(MODELS, 7, seed=1).to(device)[:, 1:5]
    assert few.data_ptr() % 16
    parameters, first, second = (torch.zeros(MODELS, 2560, device=device) for _ in range(3))
    alive = torch.ones(MODELS, dtype=torch.bool, device=device)
    others = (parameters.clone(), rates, alive, alive.clone())
    gpu_adam.update(parameters, first, second, [whole, few], places, *others)
    # The first step of Adam from nothing is the sign of the gradient.
    for part, place, size in zip((whole, few), places, sizes, strict=True):
        moved = parameters[:, place : place + size]
        torch.testing.assert_close(moved, -0.1 * part.sign(), rtol=1e-4, atol=0)


def test_a_model_does_not_depend_on_its_fleet(device):
    fleet = Fleet(device).move(0).move(1)
    for model in range(MODELS):
        alone = Fleet(device, slice(model, model + 1)).move(0).move(1)
        for together, own in zip(fleet.arrays(), alone.arrays(), strict=True):
            assert torch.equal(together[model], own[0])


# Triton's interpreter rounds to bfloat16 in its own way, so there nothing may need rounding.
@pytest.mark.parametrize("lr", [0.0, 0.1] if torch.cuda.is_available() else [0.0])
def test_the_working_copy_is_the_parameters_in_its_precision(device, lr):
    fleet = Fleet(device, lr=lr)
    fleet.parameters.copy_(fleet.parameters.bfloat16())
    fleet.working = torch.full_like(fleet.parameters, UNTOUCHED, dtype=torch.bfloat16)
    fleet.move(0)
    assert torch.equal(fleet.working, fleet.parameters.bfloat16())


def test_parameters_may_be_the_working_copy(device):
    fleet, other = Fleet(device), Fleet(device).move(0)
    fleet.working = fleet.parameters
    assert all(map(torch.equal, fleet.move(0).arrays(), other.arrays()))


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # numpy's, of log 0
@pytest.mark.parametrize("variant", ["torch", "tensorflow"])
@pytest.mark.parametrize("step", [0, 1, 9, 1_000, 299_999, 2**33])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rates_are_those_of_the_plain_version(device, variant, step, dtype, monkeypatch):
    decays = [*RATES, (0.0, 0.0, 0.999, 1e-8), (1e-3, 0.9, 0.0, 0.0)]
    optimisers = [
        Adam(lr=lr, beta1=beta1, beta2=beta2, eps=eps, variant=variant)
        for lr, beta1, beta2, eps in decays * 27  # a block and a little more
    ]
    expected = StackedAdam.of(optimisers).rates(torch.tensor(step), dtype)
    asked, rates = [], gpu_adam.rates

    def noted(*arguments):
        asked.append(arguments)
        return rates(*arguments)

    monkeypatch.setattr(plain, "fused", lambda x: True)
    monkeypatch.setattr(gpu_adam, "rates", noted)
    found = StackedAdam.of(optimisers, device).rates(torch.tensor(step, device=device), dtype)
    assert len(asked) == 1
    assert found.dtype == dtype
    assert found.is_contiguous()
    rtol = 1e-12 if dtype == torch.float64 else 2e-7
    torch.testing.assert_close(found.cpu(), expected, rtol=rtol, atol=0)


def test_expanded_flags_raise_an_error(device):
    """Kernels would read past the end of expanded flags."""
    fleet = Fleet(device)
    fleet.alive = torch.ones(1, dtype=torch.bool, device=device).expand(MODELS)
    with pytest.raises(AssertionError, match="contiguous"):
        fleet.move(0)


@pytest.mark.parametrize("limited", [None, (True, False, True)])
def test_decay_and_clipping_are_those_of_the_plain_version(device, limited):
    settings = [{"weight_decay": 0.3}, {"clip": 0.2, "clip_norm": 9.0}, {}]
    ends = []
    for place in (device, "cpu"):
        fleet = Fleet(place)
        adams = [Adam(lr=1e-2, **own) for own in settings]
        fleet.adam, step = StackedAdam.of(adams, place), torch.tensor(2, device=place)
        gradients, rates = fleet.gradients(2), fleet.adam.rates(step)
        limits, finite = fleet.adam.limits(step, gradients), fleet.finite
        if place == "cpu" and ends:
            moments = Moments(fleet.first, fleet.second)
            others = (fleet.alive, finite, fleet.working, limits, limited)
            update(fleet.parameters, moments, gradients, PLACES, rates, *others)
        else:
            arrays = (fleet.parameters, fleet.first, fleet.second)
            others = (fleet.working, rates, fleet.alive, finite, limits, limited)
            gpu_adam.update(*arrays, gradients, PLACES, *others)
        ends.append(fleet)
    close(*ends)
    plain = Fleet(device)
    plain.adam = StackedAdam.of([Adam(lr=1e-2)] * 3, device)
    plain.move(2)
    differs = [
        not torch.equal(a, b) for a, b in zip(ends[0].parameters, plain.parameters, strict=True)
    ]
    assert differs == [True, True, False]
