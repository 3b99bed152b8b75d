"""Reduced downstream accuracy: what is left of a factor without the codes that know it best."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, train_and_test
from unweave.metrics.predictors import accuracies, fit, importances

__all__ = ["REDUCED_DOWNSTREAM", "reduced_downstream"]


def reduced_downstream(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    test_codes: Any = None,
    test_factors: Any = None,
    removed: int = 1,
    train: int = 10_000,
    test: int = 5_000,
    predictor: str = "trees",
    engine: str = "fast",
) -> dict[str, float]:
    """Test accuracy of each factor after its most important codes were taken away.

        A_ik = accuracy of predicting v_i from the codes without those most important for v_k
        score = 1/K Σ_k A_kk

    In a disentangled code nothing else knows the factor: A_kk falls to guessing, while A_ik of the
    other factors stays as it was.

    Args:
        codes: `[n, d]`, mean or sampled.
        factors: `[n, K]`.
        seed: Draws rows where there are more than `train + test`.
        test_codes: Rows to test on, where they are given apart; then all others train.
        test_factors: Their factors.
        removed: How many codes are taken away, one after the other, each the most important in
            boosted trees on those that are left (as DCI has it).
        train: How many rows to learn from.
        test: How many rows to test on.
        predictor: `"trees"` or `"logistic"`.
        engine: Of the trees: `"fast"`, or `"sklearn"`, the published one.

    Returns:
        `reduced_downstream`, the accuracy left; `plain_accuracy`, with all codes; `drop`, their
        difference; `other_accuracy`, the mean of A_ik over i ≠ k (with several factors); and
        `accuracy_i_without_k`, A_ik.

    Notes:
        disentanglement_lib reports A alone, and ships one setting, of its own tests (100 rows to
        learn from and to test on); the numbers of rows here are those of the other downstream
        scores. Where no code is left, the most frequent value is predicted.

    References:
        Locatello et al., disentanglement_lib, `reduced_downstream_task`; Eastwood and Williams,
        ICLR 2018, for the importances.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> factors = rng.integers(0, 2, (600, 2))
        >>> codes = factors + 0.1 * rng.normal(size=(600, 2))
        >>> scores = reduced_downstream(codes, factors)
        >>> {name: round(score, 1) for name, score in scores.items()}
        {'reduced_downstream': 0.5, 'plain_accuracy': 1.0, 'drop': 0.5, 'other_accuracy': 1.0,
        'accuracy_0_without_0': 0.5, 'accuracy_1_without_0': 1.0, 'accuracy_0_without_1': 1.0,
        'accuracy_1_without_1': 0.5}
    """
    if removed < 1:
        raise MetricError(f"at least one code must be removed, but got {removed}")
    learned, tested = train_and_test(
        codes, factors, test_codes, test_factors, numpy_rng(seed), train, test
    )
    plain = accuracies(predictor, learned, tested, seed, engine)
    num_factors = len(plain)
    reduced = np.empty((num_factors, num_factors))
    for k in range(num_factors):
        kept = codes_kept(learned, k, removed, seed, engine)
        fewer = _with_codes(learned, kept), _with_codes(tested, kept)
        reduced[:, k] = accuracies(predictor, *fewer, seed, engine)
    own = reduced.diagonal()
    others = reduced[~np.eye(num_factors, dtype=bool)]
    return {
        "reduced_downstream": float(own.mean()),
        "plain_accuracy": float(plain.mean()),
        "drop": float((plain - own).mean()),
        **({"other_accuracy": float(others.mean())} if num_factors > 1 else {}),
        **{
            f"accuracy_{learned.columns[i]}_without_{learned.columns[k]}": float(reduced[i, k])
            for k in range(num_factors)
            for i in range(num_factors)
        },
    }


def codes_kept(rows: Table, factor: int, removed: int, seed: int, engine: str) -> np.ndarray:
    """The numbers of the codes that are left when the most important ones are gone."""
    kept = np.arange(rows.codes.shape[1])
    for _ in range(min(removed, len(kept))):
        trees = fit("trees", rows.codes[:, kept], rows.factors[:, factor], seed, engine)
        kept = np.delete(kept, importances(trees, len(kept)).argmax())
    return kept


def _with_codes(rows: Table, kept: np.ndarray) -> Table:
    return Table(rows.codes[:, kept], rows.factors, rows.columns)


REDUCED_DOWNSTREAM = Metric(
    name="reduced_downstream",
    explanation="How well a factor is still predicted once its most important latent was taken "
    "away. In a disentangled code, hardly.",
    function=reduced_downstream,
    higher_is_better=False,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="minutes",
    reference="Locatello et al., disentanglement_lib, reduced_downstream_task",
    failure="Codes that know nothing at all score best; read it beside the plain accuracy.",
)
