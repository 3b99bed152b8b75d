"""Step statistics for a GPU against the reference; without a GPU, in Triton's interpreter."""

import math

import pytest
import torch

from unweave.fleet import step_statistics
from unweave.kernels import gpu_step_statistics as on_gpu

# A block of models, fewer, and a few more.
SIZES = pytest.mark.parametrize("models", [1, 5, 128, 131])
NOT_FINITE = (math.nan, math.inf, -math.inf)


class Books:
    """State of some models, and the values of some steps."""

    def __init__(self, device, models, terms=3):
        self.device, self.models, self.terms = device, models, terms
        self.alive = torch.ones(models, dtype=torch.bool, device=device)
        self.diverged_at = torch.full((models,), -1, device=device)
        self.sums = torch.zeros(terms, models, device=device)
        self.count = torch.zeros((), device=device)

    def values(self, step):
        """Reported values; the first and the last are losses, not finite for some models."""
        generator = torch.Generator().manual_seed(step)
        values = torch.randn(self.terms, self.models, generator=generator)
        for term, place in ((0, 7), (-1, 11), (1, 13)):
            values[term, step + term + 1 :: place] = NOT_FINITE[(step + term) % 3]
        return list(values.to(self.device))

    def take(self, version, step, values=None):
        """Run a step with some non-finite gradients; return which models were updated."""
        values = self.values(step) if values is None else values
        finite = version.stop_diverged(self.alive, [values[0], values[-1]])
        moved = self.alive.clone()
        assert torch.equal(finite, moved)
        finite[3 * step + 1 :: 9] = False
        assert torch.equal(self.alive, moved)
        now = torch.tensor(step + 2**40, device=self.device)
        state = (self.alive, finite, self.diverged_at, now, values, self.sums, self.count)
        version.accumulate(*state)
        return moved

    def state(self):
        return self.alive, self.diverged_at, self.sums, self.count


@SIZES
@pytest.mark.parametrize("terms", [3, 5])
def test_steps_are_those_of_the_plain_version(device, models, terms):
    ours, theirs = Books(device, models, terms), Books("cpu", models, terms)
    for step in range(4):
        assert torch.equal(ours.take(on_gpu, step).cpu(), theirs.take(step_statistics, step))
        for one, other in zip(ours.state(), theirs.state(), strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=0, atol=0, equal_nan=True)
    assert not ours.alive.all()
    assert ours.count == 4
    assert models == 1 or len(ours.diverged_at.unique()) > 2


def test_values_may_be_views(device):
    wide = torch.arange(10.0, device=device).view(5, 2)
    ours, theirs = Books(device, 5), Books("cpu", 5)
    values = [wide[:, 1], wide[0, 0], wide[1, 1].expand(5)]
    ours.take(on_gpu, 0, values)
    theirs.take(step_statistics, 0, [value.cpu().expand(5) for value in values])
    for one, other in zip(ours.state(), theirs.state(), strict=True):
        assert torch.equal(one.cpu(), other)


def test_a_loss_of_another_length_is_an_error(device):
    alive = torch.ones(4, dtype=torch.bool, device=device)
    with pytest.raises(RuntimeError, match="size"):
        on_gpu.stop_diverged(alive, [torch.ones(3, device=device)])


@pytest.mark.parametrize("name", step_statistics.__all__)
def test_gpus_use_their_own_version(device, name, monkeypatch):
    called = []
    monkeypatch.setattr(step_statistics, "fused", lambda x: True)
    monkeypatch.setattr(on_gpu, name, lambda *arguments: called.append(arguments))
    one = torch.ones(1, device=device)
    arguments = (one,) * 7 if name == "accumulate" else (one, [one])
    getattr(step_statistics, name)(*arguments)
    assert called == [arguments]
