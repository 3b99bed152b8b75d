"""Logarithms of gamma variables, also where the variables underflow."""

import pytest
import torch
from scipy import stats

from unweave.priors.gammas import log_gammas, log_gammas_of_stream
from unweave.random import Stream

SHAPES = torch.tensor([0.05, 0.5, 1.0, 3.0, 40.0])
DRAWS = 100_000


def of_torch():
    return log_gammas(SHAPES.expand(DRAWS, -1))


def of_stream():
    return log_gammas_of_stream(Stream(1, "draws"), DRAWS, SHAPES)


@pytest.mark.parametrize("draw", [of_torch, of_stream])
def test_distribution(draw):
    drawn = draw().double()
    assert drawn[:, 0].exp().float().eq(0).sum() > 100  # what the logarithms are for
    for shape, logs in zip(SHAPES.tolist(), drawn.T.numpy(), strict=True):
        assert stats.kstest(logs, stats.loggamma(shape).cdf).pvalue > 0.01


def test_stream_samples_depend_only_on_the_stream():
    shapes = torch.tensor([[0.3, 2.0], [0.7, 5.0]])
    both = log_gammas_of_stream(Stream(torch.tensor([5, 6]), "draws"), 10, shapes)
    alone = log_gammas_of_stream(Stream(6, "draws"), 4, shapes[1])
    torch.testing.assert_close(both[1, :4], alone, rtol=0, atol=1e-6)
    other = log_gammas_of_stream(Stream(6, "others"), 4, shapes[1])
    assert (alone != other).all()
