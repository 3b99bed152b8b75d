"""Steps of m can be recorded: they ask the host for nothing, and replaying changes nothing."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import unweave as uw
from unweave.manipulate import manipulate, with_noise
from unweave.manipulate.contest import Contest
from unweave.manipulate.exemplars import joined
from unweave.manipulate.training import OPTIMISER, Training
from unweave.streams import Stream

SETTINGS = {"epsilon": 0.1, "batch": 8, "draws": 2, "held_out": 20, "seed": 1}
ASKING = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "is_nonzero", "equal")


class Questions(TorchDispatchMode):
    """Notes what a GPU would have to tell the host, or to be told by it."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        name = op.overloadpacket.__name__
        by_mask = name.startswith("index") and any(
            place is not None and place.dtype == torch.bool
            for place in (args[1] if isinstance(args[1], list) else [])
        )
        if name in ASKING or by_mask:
            self.asked.append(name)
        return op(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def game(panes, pair):
    return Training(joined(pair, panes), 1, panes, SETTINGS, OPTIMISER)


def test_a_step_asks_the_host_for_nothing(game):
    game.advance()  # what is computed once and kept is not part of a step
    with Questions() as heard:
        assert game.advance(100) == 1  # a CPU replays nothing
    assert heard.asked == []
    assert int(game.step) == 2


def test_questions_are_heard(game, monkeypatch):
    def by_mask(contest, losses):
        return losses[contest.entangling].mean() - losses[~contest.entangling].mean()

    monkeypatch.setattr(Contest, "difference", by_mask)
    with Questions() as heard:
        game.advance()
    assert heard.asked.count("index") == 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_replayed_steps_are_those_taken_one_by_one(panes, pair):
    pairs = joined(pair, panes).to("cuda")
    games = [Training(pairs, 1, panes, SETTINGS, OPTIMISER) for _ in range(2)]
    for _ in range(25):
        games[0]._step()
    taken = 0
    while taken < 25:
        taken += games[1].advance(25 - taken)
    one, other = (game.tensors() for game in games)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_changed_images_can_be_drawn_in_a_graph(panes, pair):
    m = manipulate(panes, *pair, 0.1, 3, batch=8, held_out=20, device="cuda", progress=False)
    for data in (with_noise(panes, 0.1), m.modified(panes)):
        fleet = uw.train(
            uw.methods.VAE(), data, steps=15, latents=2, batch=8, device="cuda", progress=False
        )
        assert len(fleet) == 1
        near = data.to("cuda")
        indices = near.draw_indices(8, Stream(torch.tensor(0, device="cuda"), "draw"))
        assert torch.equal(near.inputs(indices).cpu(), torch.as_tensor(data.images(indices.cpu())))
