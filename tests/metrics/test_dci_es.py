"""Explicitness of DCI-ES: area by hand, truncated forests, order of codes."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from tests.raising import about
from unweave.metrics import MetricError, dci_es
from unweave.metrics.base import table
from unweave.metrics.dci_es import explicitness, loss_curve


@pytest.fixture
def factors():
    return np.random.default_rng(0).integers(0, 4, (900, 2))


def noisy(codes, scale=0.05):
    return codes + scale * np.random.default_rng(1).normal(size=codes.shape)


def test_area_by_hand():
    """Half a unit above the end over 2 of 4 units of capacity, and a triangle over 1."""
    capacities, losses = np.array([1, 3, 4, 5]), np.array([0.6, 0.6, 0.1, 0.1])
    area = 0.5 * 2 + 0.25
    assert explicitness(capacities, losses, 0.8) == pytest.approx(1 - area / (0.8 * 4 / 2))
    late = np.array([0.8, 0.8, 0.8, 0.0])
    assert explicitness(np.array([1, 2, 3, 3.001]), late, 0.8) == pytest.approx(-1, abs=0.001)


def test_truncated_forest_equals_trees_at_that_depth(factors):
    """At full depth it is the forest; at depth 1 its trees are stumps."""
    codes, classes = noisy(factors.astype(float), 0.3), factors[:, 0]
    rows = table(codes, factors)
    losses = loss_curve(rows.rows(slice(600)), rows.rows(slice(600, None)), 0, (1, 30), 20, 7)
    full = RandomForestClassifier(20, max_depth=30, random_state=7).fit(codes[:600], classes[:600])
    assert losses[1] == pytest.approx(1 - full.score(codes[600:], classes[600:]))
    votes = 0
    for estimator in full.estimators_:
        tree, x = estimator.tree_, codes[600:].astype(np.float32)
        goes_left = x[:, tree.feature[0]] <= tree.threshold[0]
        child = np.where(goes_left, tree.children_left[0], tree.children_right[0])
        votes = votes + tree.value[child, 0] / tree.value[child, 0].sum(1, keepdims=True)
    assert losses[0] == pytest.approx((votes.argmax(1) != classes[600:]).mean())


def test_mixed_codes_take_more_capacity(factors):
    turned = factors @ np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    plain, mixed = dci_es(noisy(factors), factors), dci_es(noisy(turned), factors)
    assert plain["accuracy"] > 0.99
    assert mixed["accuracy"] > 0.98
    assert plain["dci_es"] > mixed["dci_es"] + 0.01
    assert plain["size"] == 1


def test_explicitness_ignores_missing_information(factors):
    """The known failure: without information no probe gains anything."""
    scores = dci_es(np.ones((900, 4)), factors)
    assert scores["dci_es"] == 1
    assert scores["accuracy"] < 0.4
    assert scores["size"] == 0.5


def test_capacities_must_increase(factors):
    for capacities in ((3,), (3, 2), (0, 1)):
        with pytest.raises(MetricError, check=about("capacities", capacities)):
            dci_es(factors, factors, capacities=capacities)
