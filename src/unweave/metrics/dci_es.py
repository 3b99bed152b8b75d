"""DCI-ES's explicitness: how little capacity it takes to read factors from codes."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, train_and_test

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

    with ℓ_t the smallest test loss up to capacity κ_t and ℓ_guess that of guessing. It is 1 where
    the simplest probe does as well as any, 0 on a straight line from guessing to no loss, -1 where
    all is gained by the largest probe alone. The probes are random forests, their capacity κ is
    the depth of the trees, the loss is one minus the accuracy.

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: `[n, K]`.
        seed: Draws rows where there are more than 15,000, and grows the forests.
        test_codes: Rows to test on, where they are given apart; then all others train.
        test_factors: Their factors.
        capacities: Depths, at least two, the smallest first.
        trees: Per forest.

    Returns:
        `dci_es`, the explicitness E; `accuracy`, the best mean accuracy, beside which it must be
        read; `size`, K / d, the paper's size score; and `explicitness_k`.

    Notes:
        The paper proposes several families of probes; this is its random forest, with the depths
        and number of trees of the published code, and its assumption of a best possible loss of 0
        in Z. Probes of all depths are one forest cut off at each depth, where the published code
        grows one for each. All factors are classes here; the published code regresses ordered
        ones. No probe counts as worse than guessing the most frequent value.

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
        raise MetricError(f"capacities must be at least two growing depths, not {capacities}")
    generator = numpy_rng(seed)
    learned, tested = train_and_test(codes, factors, test_codes, test_factors, generator)
    scores, best = [], []
    for k in range(learned.factors.shape[1]):
        classes, answers = learned.factors[:, k], tested.factors[:, k]
        guess = float((answers != np.bincount(classes).argmax()).mean())
        losses = loss_curve(
            learned.codes,
            classes,
            tested.codes,
            answers,
            capacities,
            trees,
            int(generator.integers(2**32)),
        )
        losses = np.minimum.accumulate(np.minimum(losses, guess))
        scores.append(explicitness(np.array(capacities), losses, guess))
        best.append(1 - losses[-1])
    return {
        "dci_es": float(np.mean(scores)),
        "accuracy": float(np.mean(best)),
        "size": len(scores) / learned.codes.shape[1],
        **{f"explicitness_{k}": e for k, e in zip(learned.columns, scores, strict=True)},
    }


def explicitness(capacities: np.ndarray, losses: np.ndarray, guess: float) -> float:
    """E of a falling curve of losses `[T]` at capacities `[T]`.

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
    codes: np.ndarray,
    classes: np.ndarray,
    test_codes: np.ndarray,
    answers: np.ndarray,
    capacities: tuple[int, ...],
    trees: int,
    seed: int,
) -> np.ndarray:
    """One minus the test accuracy of a random forest cut off at each of some depths, `[T]`."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        trees, max_depth=capacities[-1], random_state=seed % 2**32, n_jobs=-1
    )
    forest.fit(codes, classes)
    test_codes = test_codes.astype(np.float32)
    votes = np.zeros((len(capacities), len(test_codes), len(forest.classes_)))
    for estimator in forest.estimators_:
        tree = estimator.tree_
        shares = tree.value[:, 0] / tree.value[:, 0].sum(1, keepdims=True)
        nodes = np.zeros(len(test_codes), np.int64)
        depth = 0
        for t, capacity in enumerate(capacities):
            for _ in range(depth, capacity):
                nodes = _descend(tree, nodes, test_codes)
            depth = capacity
            votes[t] += shares[nodes]
    predicted = forest.classes_[votes.argmax(2)]
    return (predicted != answers).mean(1)


def _descend(tree: Any, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The next node of every row; those at a leaf stay."""
    left, features = tree.children_left[nodes], np.maximum(tree.feature[nodes], 0)
    goes_left = codes[np.arange(len(codes)), features] <= tree.threshold[nodes]
    return np.where(left < 0, nodes, np.where(goes_left, left, tree.children_right[nodes]))


DCI_ES = Metric(
    name="dci_es",
    label="DCI-ES",
    explanation="How easily factors are read from the codes: do the simplest predictors do as "
    "well as the largest?",
    function=dci_es,
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Eastwood et al., DCI-ES: An Extended Disentanglement Framework with Connections to "
        "Identifiability, arXiv:2210.00364"
    ),
    failure="Codes that know nothing are perfectly explicit: no probe does better than the least.",
)
