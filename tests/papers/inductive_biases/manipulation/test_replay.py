"""Steps of m can be captured in a CUDA graph: they never synchronise with the host.

`benchmarks/check_gpu.py` checks on a GPU that replaying changes nothing.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from unweave.nets import adam
from unweave.papers.inductive_biases.manipulation.contest import Contest
from unweave.papers.inductive_biases.manipulation.pairs import OPTIMISER, PairLearner, joined

SETTINGS = {"epsilon": 0.1, "batch": 8, "draws": 2, "held_out": 20, "seed": 1}
SYNCHRONISING = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "lift_fresh",
    "is_nonzero",
    "equal",
)


class Synchronisations(TorchDispatchMode):
    """Record operations that would synchronise a GPU with the host."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        name = op.overloadpacket.__name__
        by_mask = name.startswith("index") and any(
            place is not None and place.dtype == torch.bool
            for place in (args[1] if isinstance(args[1], list) else [])
        )
        if name in SYNCHRONISING or by_mask:
            self.found.append(name)
        return op(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def game(panes, pair):
    return PairLearner(joined(pair, panes), 1, panes, SETTINGS, OPTIMISER)


def test_a_step_does_not_synchronise(game, monkeypatch):
    monkeypatch.setattr(adam, "_all_on_host", lambda _: False)  # as on a GPU
    game.advance()  # what is computed once and kept is not part of a step
    with Synchronisations() as heard:
        assert game.advance(100) == 1  # a CPU replays nothing
    assert heard.found == []
    assert int(game.step) == 2


def test_synchronisation_is_detected(game, monkeypatch):
    def by_mask(contest, losses):
        return losses[contest.entangling].mean() - losses[~contest.entangling].mean()

    monkeypatch.setattr(Contest, "difference", by_mask)
    with Synchronisations() as heard:
        game.advance()
    assert heard.found.count("index") == 2
