"""Step statistics: detection of diverged models, and sums of reported values."""

import math

import pytest
import torch

from unweave.fleet import step_statistics


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("group", [0, 1])
def test_one_loss_that_is_not_finite_stops_its_model(value, group):
    alive = torch.tensor([True, True, False, True])
    losses = [torch.full((4,), 3e38), torch.full((4,), 3e38)]
    losses[group][1] = value
    finite = step_statistics.stop_diverged(alive, losses)
    assert alive.tolist() == finite.tolist() == [True, False, False, True]
    finite[0] = False
    assert alive[0]


def test_a_fall_is_noted_once_and_the_fallen_do_not_count():
    alive = torch.tensor([True, False, True, False])
    diverged_at = torch.tensor([-1, -1, -1, 7])
    sums, count = torch.ones(1, 4), torch.ones(())
    values = [torch.tensor([math.nan, math.nan, 2.0, 5.0])]
    finite = torch.tensor([False, False, True, True])
    for step in (2**33, 2**33 + 1):
        step_statistics.accumulate(
            alive, finite, diverged_at, torch.tensor(step), values, sums, count
        )
    assert alive.tolist() == [False, False, True, False]
    assert diverged_at.tolist() == [2**33, 2**33, -1, 7]
    assert sums.tolist() == [[1, 1, 5, 1]]
    assert count == 3
