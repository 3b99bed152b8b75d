"""FactorVAE score: which factor was held fixed, told from the code that varies least."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.groups import groups

__all__ = ["FACTOR_VAE", "factor_vae", "vote_matrix"]

THRESHOLD = 0.05


def factor_vae(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    train: int = 10_000,
    test: int = 5_000,
    batch: int = 64,
    threshold: float = THRESHOLD,
) -> dict[str, float]:
    """Accuracy of a majority vote that tells a fixed factor from the code of least variance.

        vote = argmin_j Var_batch(z_j) / Var(z_j),    v_k the same in the whole batch
        score = share of votes (j, k) with k = majority factor of code j among the training votes

    Args:
        codes: `[n, d]`.
        factors: `[n, K]`.
        seed: Draws the factors, their values and the batches.
        train: Votes that fix each code's majority factor.
        test: Votes that are counted.
        batch: Rows per vote.
        threshold: Codes with a standard deviation below this are inactive and left out.

    Returns:
        `factor_vae`, the share on the test votes; `train_accuracy`; `active`, the number of codes
        that are not left out. All are 0 where no code is active.

    Notes:
        The variance is that of all rows up to 10,000, else of 10,000 drawn. The reference reports
        the number of all codes as `num_active_dims`; `active` is the number of active ones.

    References:
        Kim and Mnih, Disentangling by Factorising, arXiv:1802.05983.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> factor_vae(grid.astype(float), grid)
        {'factor_vae': 1.0, 'train_accuracy': 1.0, 'active': 2.0}
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    variances = global_variances(rows, generator)
    active = active_codes(variances, threshold)
    if not active.any():
        return {"factor_vae": 0.0, "train_accuracy": 0.0, "active": 0.0}
    learned = cast_votes(rows, variances, active, train, batch, generator)
    tested = cast_votes(rows, variances, active, test, batch, generator)
    return verdict("factor_vae", learned, tested, active)


def vote_matrix(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    train: int = 10_000,
    batch: int = 64,
    threshold: float = THRESHOLD,
) -> np.ndarray:
    """The training votes of the FactorVAE score: how often code j varied least with k fixed.

    Returns:
        Counts `[d, K]`; rows of inactive codes are 0. Factors with one value have no column.
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    variances = global_variances(rows, generator)
    active = active_codes(variances, threshold)
    return cast_votes(rows, variances, active, train, batch, generator)


def global_variances(table: Table, generator: np.random.Generator) -> np.ndarray:
    """Variance of every code over at most 10,000 rows, `[d]`."""
    return table.draw(10_000, generator).codes.var(0, ddof=1)


def active_codes(variances: np.ndarray, threshold: float) -> np.ndarray:
    """Which codes vary enough to count, `[d]`."""
    return (np.sqrt(variances) >= threshold) & (variances > 0)


def cast_votes(
    table: Table,
    variances: np.ndarray,
    active: np.ndarray,
    votes: int,
    batch: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Hold a factor fixed at some row's value and count the code that varies least, `[d, K]`."""
    num_factors = table.factors.shape[1]
    counts = np.zeros((len(active), num_factors), dtype=np.int64)
    if not active.any():
        return counts
    numbers = np.flatnonzero(active)
    fixed = np.bincount(generator.integers(num_factors, size=votes), minlength=num_factors)
    for factor, repeats in enumerate(fixed):
        first = generator.integers(len(table), size=(repeats, 1))
        rows = groups(table, factor).partners(np.repeat(first, batch, 1), generator)
        local = np.take(table.codes, rows, 0).var(1, ddof=1)
        least = np.argmin(local[:, active] / variances[active], 1)
        counts[:, factor] = np.bincount(numbers[least], minlength=len(active))
    return counts


def verdict(
    name: str, learned: np.ndarray, tested: np.ndarray, active: np.ndarray
) -> dict[str, float]:
    """The scores of a majority vote, from votes `[d, K]` to learn from and to test on."""
    majority = learned.argmax(1)
    return {
        name: share(tested, majority),
        "train_accuracy": share(learned, majority),
        "active": float(active.sum()),
    }


def share(votes: np.ndarray, majority: np.ndarray) -> float:
    """The share of votes `[d, K]` that go to each code's majority factor `[d]`."""
    return float(votes[np.arange(len(votes)), majority].sum() / votes.sum())


FACTOR_VAE = Metric(
    name="factor_vae",
    label="FactorVAE",
    explanation="Within a batch one factor is fixed. Does the latent that varies least tell "
    "which one, by majority vote?",
    function=factor_vae,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="pairs",
    cost="seconds",
    reference="Kim and Mnih, Disentangling by Factorising, arXiv:1802.05983",
    failure="Several codes may share one factor, and a code may mix in others, at no cost.",
)
