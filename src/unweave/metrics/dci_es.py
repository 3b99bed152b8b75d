"""Explicitness of DCI-ES: how much predictor capacity is needed to decode factors from codes."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test

__all__ = ["DCI_ES", "dci_es"]

CAPACITIES = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)
TREES = 100


def dci_es(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    capacities: tuple[int, ...] = CAPACITIES,
    trees: int = TREES,
) -> dict[str, float]:
    """One minus the normalised area under the curve of test loss against capacity.

        E_k = 1 - A_k / Z_k,    E = 1/K Σ_k E_k
        A_k = Σ_t ½ [(ℓ_t - ℓ_T) + (ℓ_t+1 - ℓ_T)] (κ_t+1 - κ_t),    Z_k = ½ (κ_T - κ_1) ℓ_guess

    where ℓ_t is the smallest test loss up to capacity κ_t, and ℓ_guess the loss of the most
    frequent value. E is 1 if the simplest probe is as good as any, 0 if the loss falls linearly
    from guessing to 0, and -1 if only the largest probe improves on guessing. Probes are random
    forests, capacity κ is the depth of their trees, and the loss is one minus the accuracy.

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for the forests, and for sampling 15,000 rows if there are more.
        test_codes: Codes of separate test rows; all other rows are then used for training.
        test_factors: Factors of the test rows.
        capacities: At least two depths, in increasing order.
        trees: Number of trees per forest.

    Returns:
        `dci_es`, the explicitness E; `accuracy`, the best mean accuracy, needed to interpret E;
        `size`, which is K / d, the size score of the paper; and `explicitness_k` for each factor.

    Notes:
        The paper proposes several families of probes. This is its random forest, with the depths
        and number of trees of the published code, and its assumption in Z of a best possible loss
        of 0. Probes of all depths are one forest, truncated at each depth; the published code
        grows a forest for each depth. All factors are treated as classes; the published code uses
        regression for ordered factors. A
        probe that is worse than guessing the most frequent value is replaced by this guess.

    References:
        Eastwood et al., DCI-ES: An Extended Disentanglement Framework with Connections to
        Identifiability, arXiv:2210.00364.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.integers(0, 2, (1500, 2))
        >>> scores = dci_es(factors + 0.2 * rng.normal(size=(1500, 2)), factors, trees=10)
        >>> {name: round(score, 2) for name, score in scores.items()}
        {'dci_es': 1.0, 'accuracy': 1.0, 'size': 1.0, 'explicitness_0': 1.0,
        'explicitness_1': 1.0}
    """
    if len(capacities) < 2 or list(capacities) != sorted(set(capacities)) or capacities[0] < 1:
        raise MetricError.expected("capacities", "be at least two increasing depths", capacities)
    generator = numpy_rng(seed)
    train_rows, test_rows = train_and_test(codes, factors, test_codes, test_factors, generator)
    scores, best = [], []
    for k in range(train_rows.factors.shape[1]):
        guess = float(
            (test_rows.factors[:, k] != np.bincount(train_rows.factors[:, k]).argmax()).mean()
        )
        forest_seed = int(generator.integers(2**32))
        losses = loss_curve(train_rows, test_rows, k, capacities, trees, forest_seed)
        losses = np.minimum.accumulate(np.minimum(losses, guess))
        scores.append(explicitness(np.array(capacities), losses, guess))
        best.append(1 - losses[-1])
    return {
        "dci_es": float(np.mean(scores)),
        "accuracy": float(np.mean(best)),
        "size": len(scores) / train_rows.codes.shape[1],
        **{f"explicitness_{k}": e for k, e in zip(train_rows.columns, scores, strict=True)},
    }


def explicitness(capacities: np.ndarray, losses: np.ndarray, guess: float) -> float:
    """Return E for a decreasing curve of losses `[T]` at capacities `[T]`.

    Example:
        >>> explicitness(np.array([1, 2, 3]), np.array([0.5, 0.25, 0.0]), 0.5)
        0.0
        >>> explicitness(np.array([1, 2, 3]), np.array([0.1, 0.1, 0.1]), 0.5)
        1.0
    """
    above = losses - losses[-1]
    area = ((above[1:] + above[:-1]) / 2 * np.diff(capacities)).sum()
    triangle = (capacities[-1] - capacities[0]) * guess / 2
    return float(1 - area / triangle) if triangle > 0 else 1.0


def loss_curve(
    train_rows: Table,
    test_rows: Table,
    factor: int,
    capacities: tuple[int, ...],
    trees: int,
    seed: int,
) -> np.ndarray:
    """Return one minus the test accuracy of a random forest truncated at each depth, `[T]`."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        trees, max_depth=capacities[-1], random_state=seed % 2**32, n_jobs=-1
    )
    forest.fit(train_rows.codes, train_rows.factors[:, factor])
    codes = test_rows.codes.astype(np.float32)
    votes = np.zeros((len(capacities), len(codes), len(forest.classes_)))
    for estimator in forest.estimators_:
        tree = estimator.tree_
        shares = tree.value[:, 0] / tree.value[:, 0].sum(1, keepdims=True)
        nodes = np.zeros(len(codes), np.int64)
        depth = 0
        for t, capacity in enumerate(capacities):
            for _ in range(depth, capacity):
                nodes = _descend(tree, nodes, codes)
            depth = capacity
            votes[t] += shares[nodes]
    predicted = forest.classes_[votes.argmax(2)]
    return (predicted != test_rows.factors[:, factor]).mean(1)


def _descend(tree: Any, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the next node of every row; rows at a leaf stay there."""
    left, features = tree.children_left[nodes], np.maximum(tree.feature[nodes], 0)
    goes_left = codes[np.arange(len(codes)), features] <= tree.threshold[nodes]
    return np.where(left < 0, nodes, np.where(goes_left, left, tree.children_right[nodes]))


DCI_ES = Metric(
    function=dci_es,
    label="DCI-ES",
    explanation="How easily can factors be decoded from the codes: are the simplest predictors as "
    "good as the largest?",
    bounds=(-1.0, 1.0),
    failure="Codes without any information are perfectly explicit: no probe beats the simplest.",
)
