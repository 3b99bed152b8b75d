"""Fronts against a search over all pairs; reconstruction and KL against the ELBO metric."""

import numpy as np
import pytest

import unweave as uw
from tests.raising import about
from unweave.select import Latents, SelectionError, fronts
from unweave.select.pareto import by_fronts


def peeled(points):
    """Fronts by repeatedly removing the models that no other beats."""
    left, layer, number = set(range(len(points))), {}, 1
    while left:
        front = {
            j
            for j in left
            if not any(
                all(a <= b for a, b in zip(points[i], points[j], strict=True))
                and points[i] != points[j]
                for i in left
            )
        }
        layer |= dict.fromkeys(front, number)
        left -= front
        number += 1
    return [layer[k] for k in range(len(points))]


def test_fronts_are_peeled_off_one_by_one():
    costs = np.random.default_rng(0).integers(0, 8, size=(60, 2)).astype(float)
    expected = peeled([tuple(row) for row in costs])
    assert max(expected) > 4
    assert fronts(*costs.T).tolist() == expected


def test_models_without_costs_are_on_no_front():
    layer = fronts(np.array([np.nan, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(layer, [np.nan, 1, 2])


def test_ranking_is_by_front_then_by_elbo():
    means = np.random.default_rng(0).normal(size=(4, 9, 1))
    latents = Latents(means, kl=[[5.0], [2.0], [3.0], [1.0]], runs=list("abcd"))
    ranking = by_fronts(latents, np.array([1.0, 2.0, 2.0, 9.0]))
    assert ranking["run"].tolist() == ["b", "a", "d", "c"]
    assert ranking["model"].tolist() == [1, 0, 3, 2]
    assert ranking["score"].tolist() == [1, 1, 1, 2]
    assert ranking["dominated_by"].tolist() == [0, 0, 0, 1]
    assert ranking["reason"][3].startswith("1 model is")
    with pytest.raises(SelectionError, check=about("kl", None)):
        by_fronts(Latents(means), np.ones(4))


def test_costs_of_a_fleet_equal_the_elbo_metric():
    data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
    method = uw.methods.BetaVAE(beta=[1.0, 8.0])
    fleet = uw.train(method, data, seeds=1, steps=3, batch=8, progress=False)
    ranking = uw.select.pareto(fleet, data, rows=10_000).sort_values("model")
    table = uw.evaluate(fleet, data, metrics="elbo", progress=False)
    np.testing.assert_allclose(ranking["kl"], table["elbo.kl"], rtol=1e-5)
    expected = table["elbo.reconstruction_error"]
    np.testing.assert_allclose(ranking["reconstruction"], expected, rtol=1e-5)
