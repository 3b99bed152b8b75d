"""Boosted trees against scikit-learn's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import GradientBoostingClassifier

from unweave.metrics.tools.trees import BoostedTrees


def sample(classes, rows=300, seed=0):
    """Three codes, two of which predict the class and overlap."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, rows)
    codes = np.stack([y, y % 2, np.zeros(rows)], 1) + generator.normal(0, 0.6, (rows, 3))
    return codes.astype(np.float32), y


# Few rounds with many rows: otherwise several splits are equally good, and scikit-learn
# chooses between them at random.
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("rounds", [1, 5])
def test_few_rounds_equal_scikit_learn(classes, rounds):
    codes, y = sample(classes, rows=3000)
    ours = BoostedTrees.fit(codes, y, rounds=rounds)
    theirs = GradientBoostingClassifier(n_estimators=rounds, random_state=0).fit(codes, y)
    assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-9)
    new, _ = sample(classes, seed=1)
    assert (ours.predict(new) == theirs.predict(new)).all()
    assert (ours.predict(codes) == theirs.predict(codes)).all()


@pytest.mark.parametrize("classes", [2, 5])
def test_all_rounds_are_close_to_scikit_learn(classes):
    codes, y = sample(classes, rows=1000)
    ours = BoostedTrees.fit(codes, y)
    theirs = GradientBoostingClassifier(random_state=0).fit(codes, y)
    assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=0.003)
    new, truth = sample(classes, rows=1000, seed=1)
    assert abs((ours.predict(new) == truth).mean() - theirs.score(new, truth)) < 0.01


def test_first_tree_by_hand():
    codes = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = BoostedTrees.fit(codes, np.array([0, 0, 0, 1]), rounds=1)
    assert model.thresholds[0, 0, 0] == 2.5
    # One Newton step from the share 1/4: Σ (y - 1/4) / Σ 3/16, times the learning rate.
    assert_allclose(model.values[0, 0][model.values[0, 0] != 0], [-0.1 * 4 / 3, 0.1 * 4])


def test_repeated_values():
    codes, y = sample(4, rows=1000)
    coarse = np.round(codes)
    ours = BoostedTrees.fit(coarse, y, rounds=20)
    theirs = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(coarse, y)
    assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-6)


def test_equal_codes_share_the_importance():
    codes, y = sample(6)
    model = BoostedTrees.fit(codes[:, [0, 0, 0]], y)
    assert_allclose(model.feature_importances_, 1 / 3, atol=0.06)
    again = BoostedTrees.fit(codes[:, [0, 0, 0]], y)
    assert (model.feature_importances_ == again.feature_importances_).all()
    other = BoostedTrees.fit(codes[:, [0, 0, 0]], y, seed=1)
    assert (model.feature_importances_ != other.feature_importances_).any()


def test_nothing_to_learn():
    codes, y = sample(3)
    alone = BoostedTrees.fit(codes, np.full(len(y), 7))
    assert (alone.predict(codes) == 7).all()
    assert (alone.feature_importances_ == 0).all()
    constant = BoostedTrees.fit(np.ones_like(codes), y)
    assert (constant.feature_importances_ == 0).all()
    assert (constant.predict(codes) == np.bincount(y).argmax()).all()


def test_classes_keep_their_labels():
    codes, y = sample(3)
    model = BoostedTrees.fit(codes, 10 * y + 3)
    assert set(model.predict(codes)) == {3, 13, 23}
    assert (model.predict(codes) == 10 * BoostedTrees.fit(codes, y).predict(codes) + 3).all()
