"""Z-max variance: identify the varied factor from the code with the most variance."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.factor_vae import (
    THRESHOLD,
    active_variances,
    majority_scores,
    relative_variances,
)
from unweave.metrics.tools.grouped_rows import siblings

__all__ = ["Z_MAX_VAR", "z_max_var"]


def z_max_var(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    train: int = 10_000,
    test: int = 5_000,
    batch: int = 64,
    threshold: float = THRESHOLD,
) -> dict[str, float]:
    """Accuracy of a majority vote that identifies the varied factor from the most variable code.

        vote = argmax_j Var_batch(z_j) / Var(z_j),    all factors but v_k the same in the batch
        score = share of votes (j, k) with k = majority factor of code j among the training votes

    Args:
        codes: Mean codes `[n, d]`. If codes are sampled, the noise of passive latents dominates.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling factors, values of the other factors and batches.
        train: Number of votes that determine the majority factor of each code.
        test: Number of votes for the score.
        batch: Number of rows per vote.
        threshold: Standard deviation below which codes are inactive and ignored.

    Returns:
        `z_max_var`, the accuracy on the test votes; `train_accuracy`; `active`, the number of
        active codes. All are 0 if no code is active.

    Notes:
        The name comes from the review of Carbonneau et al. (arXiv:2012.09276). The numbers of
        votes and rows are those of the FactorVAE score, of which this is the reverse. A batch
        needs rows that agree in all other factors. A full grid contains such rows; a small sample
        of a large grid does not and raises an error.

    References:
        Kim et al., Relevance Factor VAE: Learning and Identifying Disentangled Factors,
        arXiv:1902.01568.

    Example:
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> z_max_var(factors, factors)
        {'z_max_var': 1.0, 'train_accuracy': 1.0, 'active': 2.0}
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    variances = active_variances(rows, threshold, generator)
    train_rows, test_rows = cast_votes(rows, variances, (train, test), batch, generator)
    return majority_scores("z_max_var", train_rows, test_rows, variances)


def cast_votes(
    table: Table,
    variances: np.ndarray,
    votes: tuple[int, int],
    batch: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Vary one factor and count the most variable code, in two rounds `[2, d, K]`."""
    num_factors = table.factors.shape[1]
    counts = np.zeros((len(votes), len(variances), num_factors), dtype=np.int64)
    if np.isnan(variances).all():
        return counts
    varied = [
        np.bincount(generator.integers(num_factors, size=count), minlength=num_factors)
        for count in votes
    ]
    for factor in range(num_factors):
        grouped, usable = siblings(table, factor)
        for turn, repeats in enumerate(varied):
            first = generator.choice(usable, size=(repeats[factor], 1))
            rows = grouped.partners(np.repeat(first, batch, 1), generator)
            most = np.nanargmax(relative_variances(table, rows, variances), 1)
            counts[turn, :, factor] = np.bincount(most, minlength=len(variances))
    return counts


Z_MAX_VAR = Metric(
    function=z_max_var,
    label="Z-max variance",
    explanation="All factors but one are fixed. Does the latent that varies most identify it?",
    needs="pairs",
    failure="Noise, such as a sampled passive latent, varies most whichever factor varies.",
)
