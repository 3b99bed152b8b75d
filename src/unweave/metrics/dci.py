"""DCI: disentanglement, completeness and informativeness, from boosted trees."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test

__all__ = ["DCI", "Engine", "completeness", "dci", "disentanglement", "importance_matrix"]

Engine = Literal["fast", "sklearn"]


class Prediction(NamedTuple):
    """What was learned of one factor: importances `[d]`, accuracy on rows learned and tested."""

    importances: np.ndarray
    train_accuracy: float
    test_accuracy: float


def dci(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    engine: Engine = "fast",
) -> dict[str, float]:
    """How few factors a code serves, how few codes a factor needs, how well they predict it.

        D = Σ_j w_j (1 - H_K(R_j: / Σ_k R_jk)),    w_j = Σ_k R_jk / Σ_jk R_jk
        C = Σ_k w_k (1 - H_d(R_:k / Σ_j R_jk)),    w_k = Σ_j R_jk / Σ_jk R_jk
        I = mean accuracy over factors

    with R_jk the importance of code j in boosted trees that predict factor k, H_K and H_d
    entropies to the base of the number of factors and codes.

    Args:
        codes: `[n, d]`; more than 15,000 rows are drawn from.
        factors: `[n, K]`.
        seed: Draws the rows, and decides between codes that split equally well.
        test_codes: Rows to test on; without them, a third of the rows.
        test_factors: Their factors.
        engine: `"fast"`, or `"sklearn"` for the published `GradientBoostingClassifier`. The fast
            one is the default: the same algorithm, more than twenty times as fast.

    Returns:
        `dci` and `disentanglement`, which are D; `completeness`; `informativeness_train` and
        `informativeness_test`.

    Notes:
        The engines differ in how ties are broken and in rounding: scores differ about as much as
        scikit-learn's from one random state to the next. The reference leaves the random state
        open; here it comes from the seed. A code or factor without any importance counts 0; with a
        single factor every other code is disentangled, with a single code every other factor
        complete.

    References:
        Eastwood and Williams, A Framework for the Quantitative Evaluation of Disentangled
        Representations, ICLR 2018.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> mixed = grid @ np.array([[1.0, 0.5], [0.0, 1.0]])
        >>> {name: round(score, 2) for name, score in dci(mixed, grid).items()}
        {'dci': 0.72, 'disentanglement': 0.72, 'completeness': 0.73,
         'informativeness_train': 1.0, 'informativeness_test': 1.0}
    """
    generator = numpy_rng(seed)
    learned, tested = train_and_test(codes, factors, test_codes, test_factors, generator)
    predictions = predict_factors(learned, tested, engine, generator)
    importances = np.stack([prediction.importances for prediction in predictions], 1)
    score = disentanglement(importances)
    return {
        "dci": score,
        "disentanglement": score,
        "completeness": completeness(importances),
        "informativeness_train": float(np.mean([p.train_accuracy for p in predictions])),
        "informativeness_test": float(np.mean([p.test_accuracy for p in predictions])),
    }


def importance_matrix(
    codes: Any, factors: Any, seed: int = 0, *, engine: Engine = "fast"
) -> np.ndarray:
    """The importance R of every code for every factor, on the rows that `dci` learns from.

    Returns:
        `[d, K]`; every column adds up to 1. Factors with one value have no column.
    """
    generator = numpy_rng(seed)
    learned, tested = train_and_test(codes, factors, None, None, generator)
    predictions = predict_factors(learned, tested, engine, generator)
    return np.stack([prediction.importances for prediction in predictions], 1)


def disentanglement(importances: np.ndarray) -> float:
    """D of importances `[d, K]`.

    Example:
        >>> round(disentanglement(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])), 6)
        0.666667
    """
    return _weighted(_concentration(importances), importances.sum(1))


def completeness(importances: np.ndarray) -> float:
    """C of importances `[d, K]`."""
    return _weighted(_concentration(importances.T), importances.sum(0))


def _concentration(shares: np.ndarray) -> np.ndarray:
    """One minus the entropy of each row, to the base of its length; 0 for a row of zeros."""
    p = shares + 1e-11
    p = p / p.sum(1, keepdims=True)
    entropy = -(p * np.log(p)).sum(1) / np.log(max(shares.shape[1], 2))
    return np.where(shares.sum(1) > 0, 1 - entropy, 0)


def _weighted(scores: np.ndarray, weights: np.ndarray) -> float:
    weights = weights if weights.sum() > 0 else np.ones_like(weights)
    return float((scores * weights).sum() / weights.sum())


def predict_factors(
    learned: Table, tested: Table, engine: Engine, generator: np.random.Generator
) -> list[Prediction]:
    """Boosted trees for every factor, several factors at a time."""
    engines: dict[str, Callable[..., Prediction]] = {"fast": _fast, "sklearn": _sklearn}
    if engine not in engines:
        raise MetricError(f"engine must be fast or sklearn, but got {engine!r}")
    seeds = generator.integers(2**32, size=learned.sizes.shape)
    # The most values first, so that no thread is left with a long one at the end.
    longest = np.argsort(-learned.sizes, kind="stable")
    with ThreadPoolExecutor(_cores()) as pool:
        tasks = {
            k: pool.submit(
                engines[engine],
                learned.codes,
                learned.factors[:, k],
                tested.codes,
                tested.factors[:, k],
                int(seeds[k]),
            )
            for k in longest
        }
        return [tasks[k].result() for k in range(len(seeds))]


def _cores() -> int:
    """Cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)  # Linux alone has it
    return len(usable(0)) if usable else os.cpu_count() or 1


def _fast(
    codes: np.ndarray, classes: np.ndarray, test_codes: np.ndarray, test: np.ndarray, seed: int
) -> Prediction:
    from unweave.metrics.trees import BoostedTrees

    model = BoostedTrees.fit(codes, classes, seed)
    return Prediction(
        model.importances,
        float((model.fitted == classes).mean()),
        float((model.predict(test_codes) == test).mean()),
    )


def _sklearn(
    codes: np.ndarray, classes: np.ndarray, test_codes: np.ndarray, test: np.ndarray, seed: int
) -> Prediction:
    from sklearn.ensemble import GradientBoostingClassifier

    if (classes == classes[0]).all():
        return Prediction(np.zeros(codes.shape[1]), 1.0, float((test == classes[0]).mean()))
    model = GradientBoostingClassifier(random_state=seed % 2**32).fit(codes, classes)
    return Prediction(
        model.feature_importances_,
        float(model.score(codes, classes)),
        float(model.score(test_codes, test)),
    )


DCI = Metric(
    name="dci",
    label="DCI",
    explanation="Trees predict the factors. Is each latent important for one factor only? Its "
    "further numbers ask whether each factor needs one latent only (completeness), "
    "and how well factors are predicted (informativeness).",
    function=dci,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Eastwood and Williams, A Framework for the Quantitative Evaluation of Disentangled "
        "Representations, ICLR 2018"
    ),
    failure="Depends on the predictor: trees with other settings give other importances.",
)
