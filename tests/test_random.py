"""Random streams: right bits, right distributions, dependence on their keys alone."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.raising import about
from unweave.errors import UnweaveError
from unweave.random import Stream, _philox, _philox_on_cpu


@pytest.mark.parametrize("philox", [_philox, _philox_on_cpu])
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_known_answers(counter, key, expected, philox):
    key = tuple(torch.tensor(word) for word in key)
    as_numbers = philox(counter, key)
    as_tensors = philox(tuple(torch.tensor(word) for word in counter), key)
    assert tuple(as_numbers.flatten().tolist()) == expected
    assert tuple(as_tensors.flatten().tolist()) == expected


def test_both_versions_of_philox_broadcast_alike():
    counter = (torch.arange(3), torch.tensor([[[4], [2**40]], [[-1], [0]]]), 2**33, 7)
    key = (
        torch.tensor([0xA4093822, 1])[:, None, None],
        torch.tensor([0, 0xFFFFFFFF])[:, None, None],
    )
    found = _philox(counter, key)
    assert found.shape == (2, 2, 3, 4)
    assert torch.equal(_philox_on_cpu(counter, key), found)


def test_numbers_of_a_model_do_not_depend_on_its_fleet():
    fleet = Stream(torch.tensor([5, 11, 2**40 + 3]), "noise", step=7).normal(4, 6)
    for place, seed in enumerate([5, 11, 2**40 + 3]):
        assert torch.equal(fleet[place], Stream(seed, "noise", step=7).normal(4, 6))


def test_numbers_do_not_depend_on_batches():
    stream = Stream(3, "noise")
    whole = stream.uniform(10, 5)
    parts = [stream.uniform(torch.arange(start, start + 2), 5) for start in range(0, 10, 2)]
    assert torch.equal(whole, torch.cat(parts))
    assert torch.equal(whole[:, :3], stream.uniform(10, 3))


def test_seed_purpose_step_item_and_position_all_matter():
    base = Stream(1, "a", 1).words(2, 8).flatten()
    others = [
        Stream(2, "a", 1).words(2, 8),
        Stream(1 + 2**32, "a", 1).words(2, 8),
        Stream(1, "b", 1).words(2, 8),
        Stream(1, "a", 2).words(2, 8),
    ]
    for other in others:
        assert not (base == other.flatten()).any()
    assert len(set(base.tolist())) == 16


def test_a_step_on_the_device_counts_like_a_number():
    assert torch.equal(
        Stream(9, "draw", torch.tensor(1234)).words(3, 5), Stream(9, "draw", 1234).words(3, 5)
    )


def test_uniform_is_uniform_and_below_one():
    uniform = Stream(0, "test").uniform(1000, 100).flatten().numpy()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    fine = Stream(0, "test").uniform64(100_000).numpy()
    assert stats.kstest(fine, "uniform").pvalue > 1e-3
    assert len(np.unique(fine)) == 100_000


def test_normal_is_standard_normal_and_uncorrelated():
    normal = Stream(0, "test").normal(50_000, 3).numpy()
    assert stats.kstest(normal.flatten(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(normal.T) - np.eye(3)).max() < 0.02


@pytest.mark.parametrize("seed", [-1, 2**63, 10**30])
def test_seeds_out_of_range_are_errors(seed):
    with pytest.raises(UnweaveError, check=about("seed", seed)):
        Stream(seed, "test")


@pytest.mark.parametrize("high", [2, 3, 64])
def test_integers_hit_every_value_equally_often(high):
    drawn = Stream(4, "test").integers(high, 30_000, 1).flatten().numpy()
    counts = np.bincount(drawn, minlength=high)
    assert len(counts) == high
    assert stats.chisquare(counts).pvalue > 1e-3
