"""Steps of m can be recorded: they ask the host for nothing.

That replaying changes nothing is for a GPU to say: `benchmarks/check_gpu.py`.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unweave.papers.inductive_biases.manipulation.contest import Contest
from unweave.papers.inductive_biases.manipulation.exemplars import joined
from unweave.papers.inductive_biases.manipulation.training import OPTIMISER, Training

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
