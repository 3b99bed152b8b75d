"""The adversarial objective: loss, gradients, and updates of decoders and m."""

import numpy as np
import pytest
import torch

from unweave.fleet.parameters import NetworkGroup
from unweave.methods.batch import Posterior
from unweave.nets.adam import Adam, Moments, StackedAdam
from unweave.nets.layers import Linear, Reshape
from unweave.nets.network import Network
from unweave.papers.inductive_biases.manipulation.contest import DECODER, LOSSES, Contest
from unweave.papers.inductive_biases.manipulation.training import MANIPULATION
from unweave.random import Stream

NOISE = torch.tensor([1.0, 0.2])
"""σ of the two latents."""
TURN = np.pi / 4


def rotation(angle):
    return torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).float()


def group(name, layers, rows, lr, dtype=torch.float32):
    network = Network(layers)
    start = network.initial(torch.arange(rows) + 1, name).to(dtype)
    adam = StackedAdam.of([Adam(lr=lr)] * rows)
    return NetworkGroup({name: network}, start, start, Moments.zeros_like(start), adam)


def linear_contest(dtype=torch.float32, lr=0.02):
    """Two factors, a third pixel for a·w with |a| = 1, an aligned and a rotated code."""
    turns = torch.stack([torch.eye(2), rotation(TURN)]).to(dtype)

    def encode(images):
        mu = torch.einsum("bk,pjk->pbj", images[:, 0, 0, :2], turns)
        return Posterior(mu, (2 * NOISE.log()).to(dtype).expand_as(mu))

    def alter(said, images):
        return torch.cat([images[..., :2], said / said.square().mean().sqrt()], -1)

    return Contest(
        encode,
        group(DECODER, (Linear(2, 3, "none"), Reshape((1, 1, 3))), 2, lr, dtype),
        group(MANIPULATION, (Linear(2, 1, "none"), Reshape((1, 1, 1))), 1, lr, dtype),
        alter,
        LOSSES["gaussian"],
        torch.tensor([False, True]),
        4,
        torch.tensor(5),
    )


def white(purpose, step, count=256, dtype=torch.float32):
    """Factors of mean 0 and variance 1, and images that show them."""
    w = Stream(torch.tensor(1), f"white {purpose}", step).normal(count, 2).to(dtype)
    return torch.cat([w, torch.zeros(count, 1, dtype=dtype)], 1)[:, None, None], w


def loss_matrix(turn):
    """K: the best linear guess of a·w from codes turn @ w + σ ε has the error aᵀ K a."""
    share = NOISE**2 / (1 + NOISE**2)
    return turn.T @ torch.diag(share) @ turn


def test_a_linear_m_finds_the_mixture_of_both_factors():
    expected = torch.linalg.eigh(loss_matrix(rotation(TURN)) - loss_matrix(torch.eye(2)))[1][:, 0]
    off_axis = np.degrees(np.arccos(float(expected.abs().max())))
    assert off_axis == pytest.approx(22.5, abs=0.01)

    contest = linear_contest()
    for step in range(250):
        contest.step(white, torch.tensor(step))
    named = contest.manipulation.named(contest.manipulation.parameters)[MANIPULATION]
    a = named["0.weight"][0, :, 0]
    angle = np.degrees(np.arccos(min(1, abs(float(a @ expected / a.norm())))))
    assert angle < 3


def test_loss_of_optimal_decoders_matches_the_formula():
    contest = linear_contest()
    for step in range(200):
        contest.learn(DECODER, *white(DECODER, step), torch.tensor(step))
    images, w = white("test", 0, 20_000)
    found = contest.losses(images, w, contest.noise("test", 0)).values
    named = contest.manipulation.named(contest.manipulation.parameters)[MANIPULATION]
    a = named["0.weight"][0, :, 0] / named["0.weight"][0, :, 0].norm()
    for loss, turn in zip(found, (torch.eye(2), rotation(TURN)), strict=True):
        K = loss_matrix(turn)
        expected = torch.trace(K) + a @ K @ a
        assert float(loss) == pytest.approx(float(expected), rel=0.03)
    difference = float(contest.difference(found))
    assert difference == pytest.approx(float(found[1] - found[0]))


def test_gradients_of_m_agree_with_finite_differences():
    contest = linear_contest(torch.float64)
    images, w = white("batch", 0, 16, torch.float64)
    noise = contest.noise("batch", 0)
    found = contest.losses(images, w, noise, MANIPULATION)
    goal = contest.difference(found.values)
    (gradient, *_) = torch.autograd.grad(goal, list(found.leaves.values()))
    place = contest.manipulation.parameters
    for k in range(2):
        sides = []
        for change in (1e-6, -2e-6):
            place[0, k] += change
            values = contest.losses(images, w, noise).values
            sides.append(float(contest.difference(values)))
        place[0, k] += 1e-6
        assert float(gradient[0, k, 0]) == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_a_constant_change_costs_a_decoder_nothing(likelihood):
    rng = torch.Generator().manual_seed(0)
    means, images, pattern = (
        torch.rand(2, 3, 4, 4, 1, generator=rng, dtype=torch.float64) for _ in range(3)
    )
    images, pattern = images.requires_grad_(), pattern[:1, :1]

    def loss(means, images):
        decoded = means.logit() if likelihood == "bernoulli" else means
        return LOSSES[likelihood](decoded, images)

    found = loss(means / 2, images)
    expected = (means / 2 - images).square().sum((2, 3, 4))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(loss(means / 2 + pattern / 2, images + pattern / 2), found)
    (gradient,) = torch.autograd.grad(found.sum(), images)
    torch.testing.assert_close(gradient, 2 * (images.detach() - means / 2))


def test_the_mean_over_pairs_counts_each_side_once():
    contest = linear_contest()
    object.__setattr__(contest, "entangling", torch.tensor([False, False, False, True]))
    assert float(contest.difference(torch.tensor([1.0, 2.0, 6.0, 10.0]))) == 7.0


def test_decoders_take_three_steps_for_each_step_of_m():
    contest, seen = linear_contest(), []

    def batch(purpose, number):
        seen.append((purpose, int(number)))
        return white(purpose, number, 4)

    for step in range(2):
        contest.step(batch, torch.tensor(step))
    numbers = [(DECODER, n) for n in range(6)]
    assert seen == [*numbers[:3], (MANIPULATION, 0), *numbers[3:], (MANIPULATION, 1)]


def test_encoders_see_the_original_images():
    contest, seen = linear_contest(), []
    encode = contest.encode
    object.__setattr__(contest, "encode", lambda images: seen.append(images) or encode(images))
    images, w = white("a", 0, 4)
    contest.learn(DECODER, images, w, torch.tensor(0))
    contest.learn(MANIPULATION, images, w, torch.tensor(0))
    assert len(seen) == 2
    assert all(torch.equal(one, images) for one in seen)


def test_each_network_is_updated_on_its_own_batches_only():
    contest = linear_contest()
    before = {name: group.parameters.clone() for name, group in contest.groups.items()}
    contest.learn(DECODER, *white("a", 0), torch.tensor(0))
    assert torch.equal(contest.manipulation.parameters, before[MANIPULATION])
    assert not torch.equal(contest.decoders.parameters, before[DECODER])
    after = contest.decoders.parameters.clone()
    contest.learn(MANIPULATION, *white("a", 0), torch.tensor(0))
    assert torch.equal(contest.decoders.parameters, after)
    assert not torch.equal(contest.manipulation.parameters, before[MANIPULATION])


def test_every_sample_of_a_code_has_its_own_noise():
    contest = linear_contest()
    _, w = images = white("a", 0, 3)
    codes = contest.encode(images[0])
    drawn = contest._sampled(codes, contest.noise("a", 0)).unflatten(1, (4, 3))
    noise = (drawn - codes.mu[:, None]) / NOISE
    assert len(set(noise.flatten().tolist())) == noise.numel()
    assert len(w) == 3
