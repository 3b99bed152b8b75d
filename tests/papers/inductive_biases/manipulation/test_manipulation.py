"""The network m: one neuron, its range, and the reflection."""

import numpy as np
import pytest
import torch

from tests.raising import about
from unweave.data.grid import Factor, Grid
from unweave.errors import DataError
from unweave.papers.inductive_biases.manipulation.manipulation import (
    manipulation_network,
    reflect,
    standardised,
)


def test_reflection_maps_to_the_range_and_keeps_inner_values():
    values = torch.linspace(-1, 2, 3001, dtype=torch.float64)
    images = reflect(values)
    assert images.min() >= 0
    assert images.max() <= 1
    inside = (values >= 0) & (values <= 1)
    assert torch.equal(images[inside], values[inside])
    assert torch.allclose(
        reflect(torch.tensor([1.1, -0.1, 2.0, -1.0])), torch.tensor([0.9, 0.1, 0, 1])
    )
    # It never moves two values apart, so that no pixel ends further than ε from where it was.
    assert (images.diff().abs() <= values.diff() + 1e-12).all()


def test_the_network_is_one_neuron_and_the_decoder():
    shapes = manipulation_network(5, (64, 64, 3)).shapes
    weights = [shape for name, shape in shapes.items() if name.endswith("weight")]
    assert weights[:3] == [(5, 1), (1, 256), (256, 1024)]
    assert [shape[:2] for shape in weights[3:]] == [(4, 4)] * 4
    assert [shape[3] for shape in weights[3:]] == [64, 64, 32, 32]
    assert weights[-1][2] == 3


def test_change_depends_on_one_combination_of_factors(make_up):
    m = make_up((32, 32, 3), (4, 5, 6), 0.1)
    parameters = {name: value[None].double() for name, value in m.parameters.items()}

    def change(w):
        return m.network(parameters, w[None, None]).tanh().flatten()

    rng = torch.Generator().manual_seed(0)
    for _ in range(3):
        w = torch.randn(3, generator=rng, dtype=torch.float64)
        # Row by row by finite differences, since the kernels are written for first derivatives.
        columns = [(change(w + h) - change(w - h)) / 2e-5 for h in 1e-5 * torch.eye(3).double()]
        found = torch.linalg.svdvals(torch.stack(columns))
        assert found[0] > 1e-3
        assert found[1] < 1e-6 * found[0]


def test_change_is_that_of_the_network_and_within_epsilon(make_up):
    m = make_up((32, 32, 1), (4, 5), 0.15)
    w = np.random.default_rng(0).normal(size=(7, 2))
    parameters = {name: value[None] for name, value in m.parameters.items()}
    plain = 0.15 * m.network(parameters, torch.tensor(w[None]).float()).tanh()[0]
    assert np.allclose(m(w), plain.numpy(), atol=1e-5)
    assert 0.05 < np.abs(m(w)).max() <= 0.15


def test_factors_have_mean_0_and_variance_1_over_the_grid():
    grid = Grid((Factor("a", [3, 4, 9]), Factor("one", ["x"]), Factor("b", range(7))))
    columns = [
        w[c] for w, c in zip(standardised(grid), grid.factors(np.arange(21)).T, strict=True)
    ]
    assert np.allclose(np.mean(columns, 1), 0)
    assert np.allclose(np.var(columns, 1), [1, 0, 1])


def test_parameters_of_another_network_are_rejected(make_up):
    m = make_up((32, 32, 1), (4, 5), 0.1)
    with pytest.raises(DataError, check=about("parameters")):
        type(m)(m.parameters, 0.1, m.shape, (4, 5, 6), {}, m.curve)
    with pytest.raises(DataError, check=about("epsilon", 0.7)):
        type(m)(m.parameters, 0.7, m.shape, m.sizes, {}, m.curve)
