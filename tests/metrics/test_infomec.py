"""InfoMEC against a transcription of its published definition."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score

from unweave.errors import UnknownNameError
from unweave.metrics import infomec


def published(codes, factors, discrete, neighbours=10, active=None):
    nmi = np.array(
        [
            [
                mutual_info_score(v, np.unique(z, return_inverse=True)[1])
                if discrete
                else mutual_info_classif(
                    ((z - z.mean()) / z.std())[:, None], v, n_neighbors=neighbours, random_state=1
                )[0]
                for z in codes.T
            ]
            for v in factors.T
        ]
    ) / np.array([[mutual_info_score(v, v)] for v in factors.T])
    ranges = codes.max(0) - codes.min(0)
    nmi = nmi[:, ranges > (0 if discrete else ranges.max() / 20) if active is None else active]
    k, a = nmi.shape
    modularity = (np.mean(nmi.max(0) / nmi.sum(0)) - 1 / k) / (1 - 1 / k)
    compactness = (np.mean(nmi.max(1) / nmi.sum(1)) - 1 / a) / (1 - 1 / a)
    return modularity, compactness


def blind_loss(factor):
    """Log-loss of the published null model, which is fitted to zeros."""
    zeros = np.zeros((len(factor), 1))
    model = LogisticRegression(C=np.inf, class_weight="balanced").fit(zeros, factor)
    return log_loss(factor, model.predict_proba(zeros))


def linear_loss(codes, factor):
    model = LogisticRegression(C=np.inf, class_weight="balanced")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit((codes - codes.mean(0)) / codes.std(0), factor)
    return log_loss(factor, model.predict_proba((codes - codes.mean(0)) / codes.std(0)))


def test_continuous_codes_equal_the_published_definition(golden):
    codes, factors = (part[:2000] for part in golden.train)
    codes = codes.astype(float)
    scores = infomec(codes, factors)
    modularity, compactness = published(codes, factors, discrete=False)
    # The tie-breaking noise of 1e-10 is sampled in another order.
    assert scores["infomec"] == scores["modularity"] == pytest.approx(modularity, abs=2e-3)
    assert scores["compactness"] == pytest.approx(compactness, abs=2e-3)
    expected = np.mean([1 - linear_loss(codes, v) / blind_loss(v) for v in factors.T])
    assert scores["explicitness"] == pytest.approx(expected, abs=1e-6)


def test_discrete_codes_are_counted():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [3, 4, 5], (1000, 3))
    codes = (factors @ rng.integers(0, 3, (3, 4))) // 2
    scores = infomec(codes, factors, discrete_codes=True)
    modularity, compactness = published(codes, factors, discrete=True)
    assert scores["modularity"] == pytest.approx(modularity, abs=1e-9)
    assert scores["compactness"] == pytest.approx(compactness, abs=1e-9)


def wide_and_narrow(discrete):
    """Three informative codes whose ranges are 1, 1/10 and 1/30 of the largest."""
    rng = np.random.default_rng(0)
    factors = rng.integers(0, [3, 4, 5], (1000, 3))
    codes = factors / factors.max(0)
    noise = 0 if discrete else rng.normal(scale=0.02, size=codes.shape)
    return (codes + noise) * [1, 0.1, 0.03], factors


@pytest.mark.parametrize(
    ("form", "neighbours", "discrete", "active"),
    [
        ("standalone", 10, False, [0, 1]),
        ("standalone", 10, True, [0, 1, 2]),
        ("qlae", 3, False, [0]),
        ("qlae", 3, True, [0]),
        ("tripod", 10, False, [0]),
        ("tripod", 10, True, [0]),
    ],
)
def test_each_form_follows_its_program(form, neighbours, discrete, active):
    codes, factors = wide_and_narrow(discrete)
    # The middle half of the second code covers 2/3 of its range: 0.067 of the largest, 1.0.
    scores = infomec(codes, factors, discrete_codes=discrete, form=form)
    assert scores["num_active"] == len(active)
    if len(active) > 1:
        modularity, compactness = published(codes, factors, discrete, neighbours, active)
        assert scores["modularity"] == pytest.approx(modularity, abs=2e-3)
        assert scores["compactness"] == pytest.approx(compactness, abs=2e-3)


def test_neighbours_of_each_form():
    rng = np.random.default_rng(1)
    factors = rng.integers(0, 3, (300, 2))
    codes = factors + rng.normal(scale=0.7, size=(300, 2))
    for form, neighbours in (("standalone", 10), ("qlae", 3), ("tripod", 10)):
        modularity, _ = published(codes, factors, False, neighbours, [0, 1])
        assert infomec(codes, factors, form=form)["modularity"] == pytest.approx(
            modularity, abs=2e-3
        )
    assert abs(published(codes, factors, False, 3, [0, 1])[0] - modularity) > 5e-3


def test_qlae_reads_discrete_codes_as_numbers_and_drops_empty_ones():
    codes = np.column_stack([np.arange(1000) % 4, np.arange(1000) % 7])
    parity = codes[:, 0] % 2
    assert infomec(codes, parity, discrete_codes=True, form="qlae")["explicitness"] < 0.5
    independent = np.indices((4, 5, 7)).reshape(3, -1).T
    known, empty = independent[:, :2], independent
    for form, expected in (("qlae", 1.0), ("standalone", 2 / 3)):
        found = infomec(empty, known, discrete_codes=True, form=form)["modularity"]
        assert found == pytest.approx(expected)


def test_bins_ignore_traces_that_neighbours_see():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 10, (5000, 3))
    codes = factors + 1e-3 * factors[:, [1, 2, 0]]
    scores = infomec(codes, factors)
    assert scores["modularity"] < 0.6
    assert scores["binned_modularity"] > 0.98
    counts = infomec(np.digitize(codes, np.arange(10) + 0.5), factors, discrete_codes=True)
    assert scores["binned_modularity"] == pytest.approx(counts["modularity"], abs=1e-9)


def test_unknown_forms_are_refused():
    with pytest.raises(UnknownNameError):
        infomec(np.eye(4), np.arange(4), form="other")


def test_one_hot_codes_are_decoded_where_linear_codes_fail():
    """Parity of a code: not linear in the code, but linear in its one-hot encoding."""
    codes = np.column_stack([np.arange(1000) % 4, np.arange(1000) % 7])
    factor = codes[:, 0] % 2
    assert infomec(codes, factor)["explicitness"] < 0.5
    assert infomec(codes, factor, discrete_codes=True)["explicitness"] > 0.99


def test_narrow_codes_are_pruned():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (500, 2))
    mixing = 1e-2 * (factors.sum(1, keepdims=True) + 0.1 * rng.normal(size=(500, 1)))
    codes = factors + 0.1 * rng.normal(size=(500, 2))
    scores = infomec(np.hstack([codes, mixing]), factors)
    assert scores["num_active"] == 2
    assert scores["modularity"] > 0.95
    assert infomec(np.hstack([codes, 100 * mixing]), factors)["modularity"] < 0.7


def test_degenerate_tables_are_finite():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (500, 2))
    nothing = infomec(np.ones((500, 2)), factors)
    assert set(nothing.values()) == {0.0}
    single = infomec(factors[:, 0] + 0.1 * rng.normal(size=500), factors[:, 0])
    assert single["modularity"] == single["compactness"] == 1
    noise = infomec(rng.normal(size=(500, 3)), factors)
    assert all(np.isfinite(list(noise.values())))
    assert noise["explicitness"] < 0.05
