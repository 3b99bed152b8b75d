"""Adam: against torch's, against TensorFlow's formula, and models apart."""

import math

import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.nets.adam import Adam, Moments, StackedAdam, update

RATES = [(1e-2, 0.9, 0.999, 1e-8), (3e-4, 0.5, 0.9, 1e-8), (0.1, 0.8, 0.99, 1e-3)]
MODELS, SIZE = len(RATES), 6


def optimisers(variant="torch"):
    return [
        Adam(lr=lr, beta1=beta1, beta2=beta2, eps=eps, variant=variant)
        for lr, beta1, beta2, eps in RATES
    ]


def step_of(adam, parameters, moments, gradient, step, alive):
    finite, rates = torch.ones_like(alive), adam.rates(step, parameters.dtype)
    update(parameters, moments, [gradient], [0], rates, alive, finite)
    return finite


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def quadratic(dtype):
    """Its gradient, a matrix and a target for each model."""
    matrix, target = draw(MODELS, SIZE, SIZE, seed=1, dtype=dtype), draw(MODELS, SIZE, dtype=dtype)
    matrix = matrix @ matrix.mT

    def gradient(parameters, model=None):
        if model is None:
            return torch.bmm(matrix, (parameters - target)[..., None])[..., 0]
        return matrix[model] @ (parameters - target[model])

    return gradient


def descend(gradient, steps, variant="torch", dtype=torch.float64, start=None, alive=None):
    parameters = draw(MODELS, SIZE, seed=2, dtype=dtype) if start is None else start.clone()
    moments, adam = Moments.zeros_like(parameters), StackedAdam.of(optimisers(variant))
    alive = torch.ones(MODELS, dtype=torch.bool) if alive is None else alive
    for step in range(steps):
        step_of(adam, parameters, moments, gradient(parameters), torch.tensor(step), alive)
    return parameters, moments


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_every_model_takes_the_steps_of_torchs_adam(dtype, rtol):
    gradient = quadratic(dtype)
    parameters, moments = descend(gradient, 50, dtype=dtype)
    start = draw(MODELS, SIZE, seed=2, dtype=dtype)
    for m, (lr, beta1, beta2, eps) in enumerate(RATES):
        theirs = torch.nn.Parameter(start[m].clone())
        optimiser = torch.optim.Adam([theirs], lr=lr, betas=(beta1, beta2), eps=eps)
        for _ in range(50):
            theirs.grad = gradient(theirs.detach(), m)
            optimiser.step()
        state = optimiser.state[theirs]
        torch.testing.assert_close(parameters[m], theirs.data, rtol=rtol, atol=rtol)
        scale = float(state["exp_avg_sq"].max())
        torch.testing.assert_close(
            moments.first[m], state["exp_avg"], rtol=rtol, atol=10 * rtol * scale**0.5
        )
        torch.testing.assert_close(
            moments.second[m], state["exp_avg_sq"], rtol=10 * rtol, atol=10 * rtol * scale
        )


def tensorflow(theta, gradients, lr, beta1, beta2, eps):
    """The documented update of TensorFlow 1's AdamOptimizer, number by number."""
    m = v = 0.0
    power1 = power2 = 1.0
    for g in gradients:
        power1, power2 = power1 * beta1, power2 * beta2
        lr_t = lr * math.sqrt(1 - power2) / (1 - power1)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        theta = theta - lr_t * m / (math.sqrt(v) + eps)
    return theta


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_the_tensorflow_variant_is_tensorflows(scale):
    gradients = scale * draw(50, MODELS, SIZE, seed=3)
    given = iter(gradients)
    start = torch.zeros(MODELS, SIZE, dtype=torch.float64)
    parameters, _ = descend(lambda _: next(given), 50, "tensorflow", start=start)
    for m, rates in enumerate(RATES):
        for place in range(SIZE):
            expected = tensorflow(0.0, gradients[:, m, place].tolist(), *rates)
            assert float(parameters[m, place]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("scale", "same"), [(1e4, True), (1e-9, False)])
def test_the_variants_differ_only_for_tiny_gradients(scale, same):
    start = torch.zeros(MODELS, SIZE, dtype=torch.float64)
    ends = [
        descend(lambda _: torch.full((MODELS, SIZE), scale).double(), 5, variant, start=start)[0]
        for variant in ("torch", "tensorflow")
    ]
    assert torch.allclose(*ends, rtol=1e-4, atol=0) == same
    if not same:
        # While v is far below eps, the variants differ by the bias correction.
        assert (ends[0][0] / ends[1][0] > 10).all()


def test_the_first_step_is_the_learning_rate_against_the_sign():
    gradient = draw(MODELS, SIZE, seed=4).sign() * 10
    for variant in ("torch", "tensorflow"):
        start = torch.zeros(MODELS, SIZE, dtype=torch.float64)
        parameters, _ = descend(lambda _: gradient, 1, variant, start=start)
        lr = torch.tensor([[rates[0]] for rates in RATES], dtype=torch.float64)
        torch.testing.assert_close(parameters, -lr * gradient.sign(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("step", [0, 1, 10])
def test_the_bias_correction_counts_steps_from_zero(step):
    parameters, gradient = torch.zeros(MODELS, SIZE).double(), torch.ones(MODELS, SIZE).double()
    moments, alive = Moments.zeros_like(parameters), torch.ones(MODELS, dtype=torch.bool)
    step_of(StackedAdam.of(optimisers()), parameters, moments, gradient, torch.tensor(step), alive)
    for m, (lr, beta1, beta2, eps) in enumerate(RATES):
        first = (1 - beta1) / (1 - beta1 ** (step + 1))
        second = (1 - beta2) / (1 - beta2 ** (step + 1))
        expected = -lr * first / (math.sqrt(second) + eps)
        assert parameters[m].tolist() == pytest.approx([expected] * SIZE, rel=1e-12)


@pytest.mark.parametrize("variant", ["torch", "tensorflow"])
@pytest.mark.parametrize("poison", [1.0, math.nan, math.inf])
def test_a_dead_model_keeps_every_bit_while_its_neighbours_move(variant, poison):
    gradient = quadratic(torch.float32)
    adam = StackedAdam.of(optimisers(variant))
    parameters = draw(MODELS, SIZE, seed=2, dtype=torch.float32)
    moments = Moments.zeros_like(parameters)
    healthy, own = parameters.clone(), Moments.zeros_like(parameters)
    everyone = torch.ones(MODELS, dtype=torch.bool)
    survivors = torch.tensor([True, False, True])
    for step in range(3):
        count = torch.tensor(step)
        step_of(adam, parameters, moments, gradient(parameters), count, everyone)
        step_of(adam, healthy, own, gradient(healthy), count, everyone)
    frozen = [tensor[1].clone() for tensor in (parameters, moments.first, moments.second)]
    for step in range(3, 6):
        count, sick = torch.tensor(step), gradient(parameters)
        sick[1] = poison
        step_of(adam, parameters, moments, sick, count, survivors)
        step_of(adam, healthy, own, gradient(healthy), count, everyone)
    pairs = [(parameters, healthy), (moments.first, own.first), (moments.second, own.second)]
    for (ours, theirs), before in zip(pairs, frozen, strict=True):
        assert torch.equal(ours[1], before)
        assert not torch.equal(theirs[1], before)
        assert torch.equal(ours[survivors], theirs[survivors])
        assert not torch.equal(ours[0], before)


def test_a_dead_model_may_hold_nan_without_harm():
    parameters = draw(MODELS, SIZE, dtype=torch.float32)
    moments = Moments.zeros_like(parameters)
    for tensor in (parameters, moments.first, moments.second):
        tensor[1] = math.nan
    alive = torch.tensor([True, False, True])
    gradient = torch.ones(MODELS, SIZE)
    step_of(StackedAdam.of(optimisers()), parameters, moments, gradient, torch.tensor(0), alive)
    for tensor in (parameters, moments.first, moments.second):
        assert tensor[1].isnan().all()
        assert tensor[[0, 2]].isfinite().all()


def test_the_update_is_in_place():
    parameters, gradient = torch.zeros(MODELS, SIZE), torch.ones(MODELS, SIZE)
    moments = Moments.zeros_like(parameters)
    places = [tensor.data_ptr() for tensor in (parameters, moments.first, moments.second)]
    alive = torch.ones(MODELS, dtype=torch.bool)
    step_of(StackedAdam.of(optimisers()), parameters, moments, gradient, torch.tensor(0), alive)
    after = (parameters, moments.first, moments.second)
    assert places == [tensor.data_ptr() for tensor in after]
    assert all((tensor != 0).all() for tensor in after)
    assert torch.equal(gradient, torch.ones(MODELS, SIZE))


def test_the_defaults_are_the_protocols():
    adam = Adam()
    assert (adam.lr, adam.beta1, adam.beta2, adam.eps) == (1e-4, 0.9, 0.999, 1e-8)
    assert adam.variant == "torch"


def test_stacking_keeps_every_rate_exactly():
    adam = StackedAdam.of(optimisers("tensorflow"))
    assert adam.variant == "tensorflow"
    for place, name in enumerate(("lr", "beta1", "beta2", "eps")):
        assert adam.values[name].tolist() == [[rates[place]] for rates in RATES]


def test_models_of_one_fleet_share_the_variant():
    with pytest.raises(UnweaveError, check=about("variant", None)):
        StackedAdam.of([Adam(), Adam(variant="tensorflow")])


def test_an_unknown_variant_is_refused():
    with pytest.raises(UnweaveError, check=about("variant", "jax")):
        Adam(variant="jax")


@pytest.mark.parametrize("size", [1e19, 1e30])
def test_gradients_with_overflowing_squares_stop_a_model_in_time(size):
    adam, alive = StackedAdam.of(optimisers()), torch.ones(MODELS, dtype=torch.bool)
    parameters, gradient = torch.ones(MODELS, SIZE), torch.ones(MODELS, SIZE)
    moments = Moments.zeros_like(parameters)
    gradient[1, 2] = size
    for step in range(3):
        finite = step_of(adam, parameters, moments, gradient, torch.tensor(step), alive)
        assert finite.tolist() == [True, False, True]
    assert torch.equal(parameters[1], torch.ones(SIZE))
    assert (parameters[[0, 2]] < 1).all()


LIMITS = [
    {"weight_decay": 0.1},
    {"clip": 0.5},
    {"clip_norm": 1.0},
    {"weight_decay": 0.01, "clip": 0.2, "clip_norm": 2.0, "schedule": "cosine", "warm_up": 7},
    {"schedule": "cosine", "lr_floor": 0.1},
    {"schedule": "step", "decay_every": 10, "decay_factor": 0.5, "warm_up": 5},
]
STEPS = 40


def by_torch(settings, start, gradient, lr=0.03):
    """The same training with torch's AdamW, clipping and schedulers."""
    theirs = torch.nn.Parameter(start.clone())
    optimiser = torch.optim.AdamW([theirs], lr=lr, weight_decay=settings.get("weight_decay", 0))
    warm_up, kind = settings.get("warm_up", 0), settings.get("schedule", "constant")
    final, every = settings.get("lr_floor", 0), settings.get("decay_every", 1)

    def share(step):
        rise = min(1, (step + 1) / warm_up) if warm_up else 1
        if kind == "cosine":
            return rise * (final + (1 - final) * (1 + math.cos(math.pi * step / STEPS)) / 2)
        return rise * (settings["decay_factor"] ** (step // every) if kind == "step" else 1)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, share)
    for _ in range(STEPS):
        theirs.grad = gradient(theirs.detach())
        if "clip_norm" in settings:
            torch.nn.utils.clip_grad_norm_([theirs], settings["clip_norm"])
        if "clip" in settings:
            torch.nn.utils.clip_grad_value_([theirs], settings["clip"])
        optimiser.step()
        schedule.step()
    return theirs.detach()


@pytest.mark.parametrize("settings", LIMITS, ids="-".join)
def test_decay_clipping_and_schedules_are_those_of_torch(settings):
    """Each model beside one with the other value of every setting."""
    gradient, start = quadratic(torch.float64), draw(MODELS, SIZE, seed=2)
    plain = {
        "schedule": settings.get("schedule", "constant"),
        "decay_every": settings.get("decay_every", 0),
    }
    adams = [Adam(lr=0.03, **plain), Adam(lr=0.03, **settings), Adam(lr=0.01, **plain)]
    stack, parameters = StackedAdam.of(adams, "cpu", STEPS), start.clone()
    moments, alive = Moments.zeros_like(parameters), torch.ones(MODELS, dtype=torch.bool)
    for step in map(torch.tensor, range(STEPS)):
        slope, finite = gradient(parameters), alive.clone()
        limits = stack.limits(step, [slope])
        rates = stack.rates(step, torch.float64)
        update(parameters, moments, [slope], [0], rates, alive, finite, limits=limits)
    expected = by_torch(settings, start[1], lambda theta: gradient(theta, 1))
    torch.testing.assert_close(parameters[1], expected, rtol=1e-5, atol=1e-6)


def test_averages_are_those_of_torch():
    """For each model of a stack with three decay rates, one of them 0."""
    gradient, decays = quadratic(torch.float64), (0.9, 0.0, 0.99)
    stack = StackedAdam.of([Adam(lr=0.03, ema=decay) for decay in decays])
    parameters = draw(MODELS, SIZE, seed=2)
    averages, alive = parameters.clone(), torch.ones(MODELS, dtype=torch.bool)
    moments, modules = Moments.zeros_like(parameters), [torch.nn.Linear(SIZE, 1)] * MODELS
    theirs = [
        AveragedModel(module.double(), multi_avg_fn=get_ema_multi_avg_fn(decay))
        for module, decay in zip(modules, decays, strict=True)
    ]
    for step in map(torch.tensor, range(STEPS)):
        step_of(stack, parameters, moments, gradient(parameters), step, alive)
        stack.average(averages, parameters, step, alive)
        for module, own, average in zip(modules, parameters, theirs, strict=True):
            module.weight.data.copy_(own[None])
            average.update_parameters(module)
    expected = torch.cat([average.module.weight.detach() for average in theirs])
    torch.testing.assert_close(averages, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(averages[1], parameters[1])
    assert (averages[0] != parameters[0]).all()


def test_a_model_that_took_no_step_keeps_its_average():
    stack, averages = StackedAdam.of([Adam(ema=0.5)] * 3), torch.zeros(3, 2)
    parameters = torch.tensor([[1.0, 2.0], [math.nan, math.inf], [3.0, 4.0]])
    active = torch.tensor([True, False, True])
    stack.average(averages, parameters, torch.tensor(0), active)
    stack.average(averages, 2 * parameters, torch.tensor(1), active)
    assert averages.tolist() == [[1.5, 3.0], [0.0, 0.0], [4.5, 6.0]]


def test_the_norm_is_that_of_all_parts_of_a_model():
    stack = StackedAdam.of([Adam(clip_norm=2.0), Adam(clip_norm=100.0), Adam()])
    parts = [torch.full((3, 9), 4.0), torch.full((3, 16), -3.0)]
    norm = math.sqrt(9 * 16 + 16 * 9)
    factors = stack.limits(torch.tensor(0), parts)[:, 1].tolist()
    assert factors == pytest.approx([2 / norm, 1, 1], rel=1e-6)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e18])
def test_a_gradient_that_is_not_finite_leaves_finite_weights_when_clipped(value):
    stack = StackedAdam.of([Adam(clip_norm=1.0, clip=0.1, weight_decay=0.1)] * 2)
    parameters = torch.ones(2, 4)
    moments, alive = Moments.zeros_like(parameters), torch.ones(2, dtype=torch.bool)
    parts, step = [torch.ones(2, 2), torch.ones(2, 2)], torch.tensor(0)
    parts[1][1, 0] = value
    finite, limits = alive.clone(), stack.limits(step, parts)
    update(parameters, moments, parts, [0, 2], stack.rates(step), alive, finite, limits=limits)
    assert finite.tolist() == [True, False]
    assert parameters.isfinite().all()
    assert (parameters[1, 2:] == 1).all()


def test_settings_that_are_not_used_cost_nothing_and_are_not_saved():
    assert StackedAdam.of([Adam(), Adam(lr=1)]).limits(torch.tensor(3), []) is None
    first = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "variant": "torch"}
    assert Adam().to_dict() == first
    assert Adam(clip=1, warm_up=5).to_dict() == {**first, "clip": 1.0, "warm_up": 5}
    assert Adam(ema=0).to_dict() == first


@pytest.mark.parametrize(
    ("settings", "subject"),
    [
        ({"weight_decay": -1}, "weight_decay"),
        ({"clip": math.nan}, "clip"),
        ({"clip_norm": math.inf}, "clip_norm"),
        ({"schedule": "linear"}, "schedule"),
        ({"schedule": "step"}, "decay_every"),
        ({"warm_up": 1.5}, "warm_up"),
        ({"decay_factor": 2}, "decay_factor"),
        ({"lr_floor": 1.1}, "lr_floor"),
        ({"ema": 1.0}, "ema"),
        ({"ema": -0.1}, "ema"),
    ],
)
def test_settings_out_of_range_are_refused(settings, subject):
    with pytest.raises(UnweaveError) as caught:
        Adam(**settings)
    assert caught.value.subject == subject
