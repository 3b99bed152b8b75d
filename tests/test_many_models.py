"""Other ways to train M models at once take the steps of a plain loop."""

import pytest
import torch

from benchmarks import many_models
from benchmarks.many_models import LATENTS, Loop, PlainVAE, installed

MODELS, BATCH, STEPS = 2, 3, 6


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", sorted(installed().keys() - {"plain loop"}))
def test_every_way_computes_the_losses_of_a_plain_loop(name, channels, monkeypatch):
    monkeypatch.setattr(many_models, "LEARNING_RATE", 3e-3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        models = [PlainVAE(channels) for _ in range(MODELS)]
        x = torch.rand(MODELS, BATCH, channels, 64, 64)
        noise = torch.randn(STEPS, MODELS, BATCH, LATENTS)
    before = [value.clone() for model in models for value in model.parameters()]
    loop, other = Loop(models), installed()[name](models)
    expected = torch.stack([loop.step(x, of_step) for of_step in noise])
    found = torch.stack([other.step(x, of_step) for of_step in noise])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    moved = (expected[0] - expected[-1]) / expected[0]
    assert (moved > 1e-3).all(), moved
    assert (expected[:, 0] / expected[:, 1] - 1).abs().max() > 1e-4
    after = [value for model in models for value in model.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
