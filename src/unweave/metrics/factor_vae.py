"""FactorVAE score: identify the fixed factor from the code with the least variance."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.tools.grouped_rows import groups

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
    """Accuracy of a majority vote that identifies the fixed factor from the least variable code.

        vote = argmin_j Var_batch(z_j) / Var(z_j),    v_k the same in the whole batch
        score = share of votes (j, k) with k = majority factor of code j among the training votes

    Args:
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling factors, their values and batches.
        train: Number of votes that determine the majority factor of each code.
        test: Number of votes for the score.
        batch: Number of rows per vote.
        threshold: Standard deviation below which codes are inactive and ignored.

    Returns:
        `factor_vae`, the accuracy on the test votes; `train_accuracy`; `active`, the number of
        active codes. All are 0 if no code is active.

    Notes:
        The variance is estimated from at most 10,000 rows. The reference reports the number of all
        codes as `num_active_dims`; here `active` counts only active codes.

    References:
        Kim and Mnih, Disentangling by Factorising, arXiv:1802.05983.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> factor_vae(grid.astype(float), grid)
        {'factor_vae': 1.0, 'train_accuracy': 1.0, 'active': 2.0}
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    variances = active_variances(rows, threshold, generator)
    train_rows = cast_votes(rows, variances, train, batch, generator)
    test_rows = cast_votes(rows, variances, test, batch, generator)
    return majority_scores("factor_vae", train_rows, test_rows, variances)


def vote_matrix(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    train: int = 10_000,
    batch: int = 64,
    threshold: float = THRESHOLD,
) -> np.ndarray:
    """Return the training votes of the FactorVAE score: how often code j varied least for fixed k.

    Returns:
        Counts `[d, K]`; rows of inactive codes are 0. Constant factors have no column.
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    variances = active_variances(rows, threshold, generator)
    return cast_votes(rows, variances, train, batch, generator)


def active_variances(table: Table, threshold: float, generator: np.random.Generator) -> np.ndarray:
    """Return the variance of every code over at most 10,000 rows, `[d]`; NaN if inactive."""
    variances = table.draw(generator).codes.var(0, ddof=1)
    active = (np.sqrt(variances) >= threshold) & (variances > 0)
    return np.where(active, variances, np.nan)


def cast_votes(
    table: Table, variances: np.ndarray, votes: int, batch: int, generator: np.random.Generator
) -> np.ndarray:
    """Fix a factor at the value of a random row and count the least variable code, `[d, K]`."""
    num_factors = table.factors.shape[1]
    counts = np.zeros((len(variances), num_factors), dtype=np.int64)
    if np.isnan(variances).all():
        return counts
    fixed = np.bincount(generator.integers(num_factors, size=votes), minlength=num_factors)
    for factor, repeats in enumerate(fixed):
        first = generator.integers(len(table), size=(repeats, 1))
        rows = groups(table, factor).partners(np.repeat(first, batch, 1), generator)
        least = np.nanargmin(relative_variances(table, rows, variances), 1)
        counts[:, factor] = np.bincount(least, minlength=len(variances))
    return counts


def relative_variances(table: Table, rows: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return the variance of codes in each batch `[votes, batch]` relative to that of all rows."""
    return np.take(table.codes, rows, 0).var(1, ddof=1) / variances


def majority_scores(
    name: str, train_rows: np.ndarray, test_rows: np.ndarray, variances: np.ndarray
) -> dict[str, float]:
    """Return the scores of a majority vote from training and test votes `[d, K]`."""
    majority = np.arange(len(train_rows)), train_rows.argmax(1)
    return {
        name: float(test_rows[majority].sum() / max(test_rows.sum(), 1)),
        "train_accuracy": float(train_rows[majority].sum() / max(train_rows.sum(), 1)),
        "active": float(np.isfinite(variances).sum()),
    }


FACTOR_VAE = Metric(
    function=factor_vae,
    label="FactorVAE",
    explanation="One factor is fixed within a batch. Does the latent with the least variance "
    "identify it, by majority vote?",
    needs="pairs",
    failure="Several codes may follow the same factor, and a code may mix factors, at no cost.",
)
