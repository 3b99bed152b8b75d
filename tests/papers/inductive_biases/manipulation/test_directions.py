"""m learned from images alone: its objective, mixing of factors, and resuming."""

from contextlib import contextmanager
from itertools import combinations

import numpy as np
import pytest
import torch

import unweave as uw
from tests.raising import about
from unweave.errors import DataError, InterruptedTrainingError
from unweave.papers.inductive_biases.manipulation import (
    Manipulation,
    change_sizes,
    training,
    turn_directions,
)
from unweave.papers.inductive_biases.manipulation.directions import (
    IMPERCEPTIBLE,
    DirectionLearner,
    excess,
    strides,
)

QUICK = {"batch": 8, "device": "cpu", "progress": False}
FAST = uw.Adam(lr=3e-3, eps=1e-7)
SCALE = 100.0
"""Length of directions for which ρ is negligible."""


def test_excess_is_its_formula_and_never_negative():
    rng = torch.Generator().manual_seed(0)
    directions = torch.randn(50, 4, 9, generator=rng, dtype=torch.float64)
    gram = directions @ directions.mT + IMPERCEPTIBLE * torch.eye(4, dtype=torch.float64)
    expected = (gram.diagonal(dim1=1, dim2=2).log().sum(1) - torch.logdet(gram)) / 2
    torch.testing.assert_close(excess(directions), expected)
    assert float(expected.min()) > 0
    orthogonal = torch.linalg.qr(directions.mT)[0].mT * torch.tensor([[5.0], [3], [2], [0]])
    torch.testing.assert_close(excess(orthogonal), torch.zeros(50, dtype=torch.float64))


def test_excess_is_the_extra_cost_of_one_latent_per_factor():
    """Linear images C w: a latent's share is log σ² and C's columns, with the best σ of each."""
    rng = torch.Generator().manual_seed(1)
    directions = SCALE * torch.randn(3, 7, generator=rng, dtype=torch.float64)

    def cost(codes):
        """min over σ of Σ_k (σ_k² c_k² - log σ_k²) / 2: the image moves by c_k with code k."""
        squares = codes.square().sum(1)
        noise = 1 / squares
        return float((noise * squares - noise.log()).sum() / 2)

    turn = torch.linalg.svd(directions, full_matrices=False)[0].T
    assert cost(directions) - cost(turn @ directions) == pytest.approx(
        float(excess(directions)), rel=1e-3
    )
    for _ in range(20):
        other = torch.linalg.qr(torch.randn(3, 3, generator=rng, dtype=torch.float64))[0]
        assert cost(other @ directions) >= cost(turn @ directions)


def test_excess_of_an_orthogonal_mixture_matches_a_manual_result():
    v, a, size = np.array([1.0, 0.9, 0.3]), np.array([0.6, 0.8, 0.0]), 0.5
    directions = np.hstack([np.diag(np.sqrt(v)), np.sqrt(size) * a[:, None]])
    together = np.log(v).sum() + np.log(1 + size * (a**2 / v).sum())
    expected = (np.log(v + size * a**2).sum() - together) / 2
    found = excess(SCALE * torch.as_tensor(directions))
    assert float(found) == pytest.approx(expected, rel=1e-3)
    pure = np.hstack([np.diag(np.sqrt(v)), np.array([[0.7], [0], [0]])])
    assert float(excess(SCALE * torch.as_tensor(pure))) == pytest.approx(0, abs=1e-9)


def test_gradients_agree_with_finite_differences():
    rng = torch.Generator().manual_seed(2)
    directions = torch.randn(3, 5, generator=rng, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(excess, directions)


def test_m_makes_directions_similar_within_epsilon(panes):
    m = turn_directions(panes, 0.2, 30, optimiser=FAST, **QUICK)
    curve = m.curve["excess"]
    assert curve.iloc[0] < 0.05
    assert curve.iloc[-1] > 0.5
    *_, second, first = m.parameters["0.weight"].abs().ravel().sort().values
    assert float(second) > 0.2 * float(first)
    changed = m.modified(panes)
    assert change_sizes(panes, changed)["linf"] <= 0.2
    before, after = (largest_cosine(data) for data in (panes, changed))
    assert before == pytest.approx(0, abs=1e-6)
    assert after > 0.5


def largest_cosine(data):
    """Of what two factors do to images: the mean |cosine| of the pair that is most alike."""
    cube = (data.images(np.arange(len(data))) / 255).reshape(*data.grid.sizes, -1)
    at = cube[:-1, :-1, :-1]
    moves = [cube[1:, :-1, :-1] - at, cube[:-1, 1:, :-1] - at, cube[:-1, :-1, 1:] - at]
    units = [move / np.linalg.norm(move, axis=-1, keepdims=True) for move in moves]
    return max(float(np.abs((u * v).sum(-1)).mean()) for u, v in combinations(units, 2))


def test_steps_stay_in_the_grid_and_reach_every_position(panes):
    game = DirectionLearner(
        panes, {"epsilon": 0.1, "seed": 0, "batch": 8}, FAST, torch.device("cpu")
    )
    places = game.places(2_000, "places", 0)
    steps = torch.tensor(strides(panes.grid))
    assert strides(panes.grid) == [1, 2, 2]
    assert torch.equal(places.amin(0), torch.zeros(3, dtype=torch.int64))
    assert torch.equal(places.amax(0) + steps, torch.tensor(panes.grid.sizes) - 1)
    assert torch.equal(game.moves, torch.tensor([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 2]]))


def test_a_factor_of_one_class_has_no_effect(panes):
    settings = {"epsilon": 0.1, "seed": 0, "batch": 8}
    part = panes.slice(corner=[1])
    game = DirectionLearner(part, settings, FAST, torch.device("cpu"))
    assert len(game.moves) == 3
    images = part.images(np.arange(len(part))) / 255
    m = game.m.named(torch.zeros_like(game.m.parameters))["m"]
    place = torch.tensor([[0, 1, 2]])
    at, one, other = (part.grid.index(np.array([[0, *c]]))[0] for c in ((1, 2), (3, 2), (1, 4)))
    expected = excess(torch.tensor(images[[one, other]] - images[at]).flatten(1))
    assert float(game.excess(place, m)) == pytest.approx(float(expected), abs=1e-5)


def test_resumed_training_gives_the_same_result(panes, tmp_path, monkeypatch):
    whole = turn_directions(panes, 0.1, 5, seed=3, **QUICK)
    out = tmp_path / "m.safetensors"

    @contextmanager
    def soon():
        asked = iter(range(100))
        yield lambda: next(asked) // 2 >= 1

    monkeypatch.setattr(training, "interruptible", soon)
    with pytest.raises(InterruptedTrainingError, check=about("step", 2)):
        turn_directions(panes, 0.1, 5, seed=3, out=out, **QUICK)
    monkeypatch.undo()
    resumed = turn_directions(panes, 0.1, 5, seed=3, out=out, **QUICK)
    assert resumed.digest == whole.digest
    assert resumed.curve.equals(whole.curve)
    loaded = Manipulation.load(out)
    assert list(loaded.curve) == ["step", "excess"]
    assert loaded.digest == whole.digest
    assert "nats" in repr(loaded)


def test_it_needs_a_grid_of_two_factors(panes):
    for few in (panes.slice(corner=[0], large=[0]), uw.data.load(panes.images(np.arange(9)))):
        with pytest.raises(DataError, check=about("data", few.name)):
            turn_directions(few, 0.1, 1, **QUICK)
