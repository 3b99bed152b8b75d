"""Data sets: contents, sampling, and agreement of host and device."""

import numpy as np
import pytest
import torch
from scipy import stats

import unweave as uw
from tests.raising import about
from unweave.data import load
from unweave.data.dataset import Dataset, scaled_factors
from unweave.data.dsprites_variants import Colored
from unweave.data.grid import Factor, Grid, Labels
from unweave.data.stores import Bytes
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.random import Stream

GRID = Grid((Factor("a", "xyz"), Factor("b", [0.0, 0.5, 1.0, 1.5]), Factor("c", list(range(5)))))


def numbered(count, variants=1):
    """Images in which every byte is the index."""
    return np.broadcast_to(
        np.arange(count * variants, dtype=np.uint8)[:, None, None, None],
        (count * variants, 4, 4, 1),
    ).copy()


@pytest.fixture
def data():
    return Dataset("numbered", Bytes(numbered(60)), GRID)


def test_images_match_their_factors(data):
    assert len(data) == 60
    assert data.shape == (4, 4, 1)
    assert data.images([7, 59])[:, 0, 0, 0].tolist() == [7, 59]
    assert data.index(data.factors([7, 59])).tolist() == [7, 59]
    assert data[7].shape == (4, 4, 1)
    assert data[10:13][:, 0, 0, 0].tolist() == [10, 11, 12]
    assert data.images(np.arange(6).reshape(2, 3)).shape == (2, 3, 4, 4, 1)
    np.testing.assert_allclose(data.pixels([51]).numpy(), 51 / 255)


def test_samples_are_uniform_and_depend_only_on_seed_and_step(data):
    batch = data.draw(30_000, seed=3)
    counts = np.bincount(batch.indices, minlength=60)
    assert stats.chisquare(counts).pvalue > 1e-3
    np.testing.assert_array_equal(batch.images[:, 0, 0, 0], batch.indices)
    np.testing.assert_array_equal(batch.factors, data.factors(batch.indices))
    np.testing.assert_array_equal(data.draw(50, seed=3).indices, batch.indices[:50])
    assert (data.draw(50, seed=4).indices != batch.indices[:50]).any()
    assert (data.draw(50, seed=3, step=1).indices != batch.indices[:50]).any()


def test_fixed_factors_are_constant_and_the_others_uniform(data):
    batch = data.draw(20_000, seed=0, fixed={"a": 2, "c": [1, 3]})
    assert set(batch.factors[:, 0]) == {2}
    assert stats.chisquare(np.bincount(batch.factors[:, 1])).pvalue > 1e-3
    counts = np.bincount(batch.factors[:, 2], minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert stats.chisquare(counts[[1, 3]]).pvalue > 1e-3


def test_host_and_device_agree(data):
    device = data.to("cpu")
    host, moved = data.draw(40, seed=5), device.draw(40, seed=5)
    for one, other in zip(host, moved, strict=True):
        assert isinstance(other, torch.Tensor)
        np.testing.assert_array_equal(one, other.numpy())
    first, second = data.draw_pairs(40, seed=5), device.draw_pairs(40, seed=5)
    np.testing.assert_array_equal(first[1].factors, second[1].factors.numpy())
    assert device.index(device.factors([3, 4])).tolist() == [3, 4]


def test_sampling_several_seeds_equals_sampling_each_alone(data):
    seeds = torch.tensor([4, 9])
    fleet = data.draw_indices(16, Stream(seeds, "draw", 2))
    for place, seed in enumerate(seeds.tolist()):
        assert fleet[place].tolist() == data.draw(16, seed, step=2).indices.tolist()


def test_variants_depend_on_seed_and_index():
    data = Dataset(
        "toys", Bytes(numbered(20, variants=10)), Grid((Factor("k", range(20)),)), variants=10
    )
    assert len(data) == 20
    everything = np.stack([data.images(np.arange(20), seed)[:, 0, 0, 0] for seed in range(300)])
    assert (everything // 10 == np.arange(20)).all()
    assert stats.chisquare(np.bincount(everything.flatten() % 10)).pvalue > 1e-3
    np.testing.assert_array_equal(data.images([5, 3], 8), data.images([3, 5], 8)[::-1])
    device = data.to("cpu")
    np.testing.assert_array_equal(device.images([5, 3], 8).numpy(), data.images([5, 3], 8))
    assert "20 × 10 variants" in repr(data)


def test_random_images_of_several_seeds_equal_those_of_each_alone():
    images = np.full((60, 4, 4, 1), 255, dtype=np.uint8)
    data = Dataset("white", Bytes(images), GRID, appearance=Colored()).to("cpu")
    seeds, places = torch.tensor([1, 2]), torch.arange(3)
    fleet = data.pixels(torch.tensor([[0, 1, 2], [3, 4, 5]]), seeds, step=6, items=places)
    assert fleet.shape == (2, 3, 4, 4, 3)
    for model, indices in enumerate([[0, 1, 2], [3, 4, 5]]):
        alone = data.pixels(torch.tensor(indices), int(seeds[model]), step=6, items=places)
        assert torch.equal(fleet[model], alone)
    assert not torch.equal(fleet[0], fleet[1])


def test_leave_out_and_only_are_complements(data):
    train, test = data.leave_out(a=0, b=[0, 1]), data.only(a=0, b=[0, 1])
    assert len(train.support) + len(test.support) == 60
    assert len(test.support) == 2 * 5
    drawn = train.draw(20_000, seed=1)
    assert set(drawn.indices) == set(train.support)
    assert not ((drawn.factors[:, 0] == 0) & (drawn.factors[:, 1] <= 1)).any()
    assert stats.chisquare(np.bincount(drawn.indices)[train.support]).pvalue > 1e-3
    assert set(test.draw(2_000).indices) == set(test.support)
    fixed = train.draw(500, fixed={"a": 0}).factors
    assert set(fixed[:, 0]) == {0}
    assert set(fixed[:, 1]) == {2, 3}
    np.testing.assert_array_equal(train.to("cpu").draw(9).indices.numpy(), train.draw(9).indices)


def test_correlated_factors_have_the_given_correlation_and_uniform_marginals(data):
    drawn = data.correlate("b", "c", -0.6).draw(40_000, seed=2).factors
    assert np.corrcoef(drawn[:, 1], drawn[:, 2])[0, 1] == pytest.approx(-0.6, abs=0.015)
    for k in range(3):
        assert stats.chisquare(np.bincount(drawn[:, k])).pvalue > 1e-3
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 2])[0, 1]) < 0.02
    both = data.correlate("b", "c", 0.9).leave_out(a=1).draw(5_000).factors
    assert set(both[:, 0]) == {0, 2}
    assert np.corrcoef(both[:, 1], both[:, 2])[0, 1] > 0.85


def test_a_slice_is_a_smaller_grid_with_the_same_images(data):
    small = data.slice(b=[3, 1], c=2)
    assert small.grid.sizes == (3, 2, 1)
    assert list(small.grid.axes[1].values) == [0.5, 1.5]
    original = data.index(np.array([[1, 3, 2]]))
    assert small.images([3])[0, 0, 0, 0] == original[0]


def test_labels_replace_a_missing_grid():
    labels = Labels((Factor("digit", range(3)),), np.array([[2], [0], [1]]))
    data = Dataset("digits", Bytes(numbered(3)), labels=labels)
    assert data.factors([0, 2]).tolist() == [[2], [1]]
    assert data.draw(5).factors.shape == (5, 1)
    with pytest.raises(DataError, check=about("grid", "digits")):
        data.leave_out(digit=1)


@pytest.mark.parametrize(
    ("act", "subject", "value"),
    [
        (lambda data: data.images([60]), "indices", None),
        (lambda data: data.images([-1]), "indices", None),
        (lambda data: data.images([0.5]), "values", np.float64),
        (lambda data: data.draw(3, fixed={"a": 3}), "a", [3]),
        (lambda data: data.draw(3, fixed={"z": 3}), "factor", "z"),
        (lambda data: data.leave_out(a=range(3)), "weights", None),
        (lambda data: data.only(a=0).draw(3, fixed={"a": 1}), "weights", None),
        (lambda data: data.only(a=0).draw_pairs(3), "pairs", None),
        (lambda data: data.correlate("b", "b", 0.5), "second", "b"),
        (lambda data: data.only(a=0).slice(b=1), "slice", "numbered"),
        (lambda data: Dataset("few", Bytes(numbered(59)), GRID), "factors", 60),
        (lambda data: Dataset("bare", Bytes(numbered(5))).factors([0]), "factors", "bare"),
    ],
)
def test_invalid_arguments_are_rejected(data, act, subject, value):
    with pytest.raises(UnweaveError, check=about(subject, value)):
        act(data)


def test_repr(data):
    text = repr(data)
    assert text.splitlines()[0] == "numbered: 60 images of 4 × 4 × 1, 0.0 MB in memory"
    assert "a                    3   x, y, z" in text
    assert "sampled with weights from 20 of them" in repr(data.only(a=0))


@pytest.mark.parametrize("seed", [-1, 10**30])
def test_seeds_out_of_range_are_rejected(seed):
    data = load("color-dsprites")
    for draw in (lambda: data.images([0], seed), lambda: data.draw(3, seed)):
        with pytest.raises(UnweaveError, match="seed"):
            draw()


def with_factors(known=True):
    classes = np.stack(np.indices((2, 3, 4)), -1).reshape(-1, 3)
    images = np.zeros((24, 8, 8, 1), np.uint8)
    return uw.data.load(images, **({"factors": classes} if known else {}))


def test_every_factor_has_mean_0_and_variance_1():
    data = with_factors()
    names = data.grid.names
    scaled = scaled_factors(data, names)
    assert scaled.shape == (24, 3)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.var(0, correction=0), 1, rtol=1e-6)


def test_factors_are_chosen_by_name_and_images_by_index():
    data = with_factors()
    names, classes = data.grid.names, data.factors(range(24))
    scaled = scaled_factors(data, [names[2], names[0]], [5, 20, 7]).numpy()
    spread = np.sqrt([(16 - 1) / 12, (4 - 1) / 12])
    expected = (classes[[5, 20, 7]][:, [2, 0]] - [1.5, 0.5]) / spread
    np.testing.assert_allclose(scaled, expected, rtol=1e-6)
    np.testing.assert_array_equal(
        scaled, scaled_factors(data.to("cpu"), [names[2], names[0]])[[5, 20, 7]]
    )


def test_a_factor_of_one_class_is_0():
    data = with_factors()
    name = data.grid.names[1]
    assert (scaled_factors(data.slice(**{name: 1}), [name]) == 0).all()


def test_factors_must_be_known():
    with pytest.raises(UnknownNameError, check=about("factor", "colour")):
        scaled_factors(with_factors(), ["colour"])
    with pytest.raises(DataError, check=about("factors", "images")):
        scaled_factors(with_factors(known=False), ["colour"])
