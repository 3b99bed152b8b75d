"""Z-max variance: which factor was varied, told from the code that varies most."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.factor_vae import THRESHOLD, active_codes, global_variances, verdict
from unweave.metrics.siblings import siblings

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
    """Accuracy of a majority vote that tells the only factor that varies from the code that does.

        vote = argmax_j Var_batch(z_j) / Var(z_j),    all factors but v_k the same in the batch
        score = share of votes (j, k) with k = majority factor of code j among the training votes

    Args:
        codes: `[n, d]`: mean codes; of sampled ones a passive latent is noise that outvotes all.
        factors: `[n, K]`.
        seed: Draws the factors, the values of the others and the batches.
        train: Votes that fix each code's majority factor.
        test: Votes that are counted.
        batch: Rows per vote.
        threshold: Codes with a standard deviation below this are inactive and left out.

    Returns:
        `z_max_var`, the share on the test votes; `train_accuracy`; `active`, the number of codes
        that are not left out. All are 0 where no code is active.

    Notes:
        The name is that of the review of Carbonneau et al. (arXiv:2012.09276); the numbers of
        votes and rows are those of the FactorVAE score's protocol, of which this is the reverse.
        A batch needs rows that agree in all other factors: a full grid has them, a sample of a
        large one has not, and is refused.

    References:
        Kim et al., Relevance Factor VAE: Learning and Identifying Disentangled Factors,
        arXiv:1902.01568.

    Example:
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> z_max_var(factors, factors)
        {'z_max_var': 1.0, 'train_accuracy': 1.0, 'active': 2.0}
    """
    rows, generator = table(codes, factors), numpy_rng(seed)
    variances = global_variances(rows, generator)
    active = active_codes(variances, threshold)
    if not active.any():
        return {"z_max_var": 0.0, "train_accuracy": 0.0, "active": 0.0}
    learned, tested = cast_votes(rows, variances, active, (train, test), batch, generator)
    return verdict("z_max_var", learned, tested, active)


def cast_votes(
    table: Table,
    variances: np.ndarray,
    active: np.ndarray,
    votes: tuple[int, int],
    batch: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Vary one factor and count the code that varies most, in two turns `[2, d, K]`."""
    num_factors = table.factors.shape[1]
    counts = np.zeros((len(votes), len(active), num_factors), dtype=np.int64)
    numbers = np.flatnonzero(active)
    varied = [
        np.bincount(generator.integers(num_factors, size=count), minlength=num_factors)
        for count in votes
    ]
    for factor in range(num_factors):
        grouped, usable = siblings(table, factor)
        for turn, repeats in enumerate(varied):
            first = generator.choice(usable, size=(repeats[factor], 1))
            rows = grouped.partners(np.repeat(first, batch, 1), generator)
            local = np.take(table.codes, rows, 0).var(1, ddof=1)
            most = np.argmax(local[:, active] / variances[active], 1)
            counts[turn, :, factor] = np.bincount(numbers[most], minlength=len(active))
    return counts


Z_MAX_VAR = Metric(
    name="z_max_var",
    label="Z-max variance",
    explanation="All factors but one are fixed. Does the latent that varies most tell which one?",
    function=z_max_var,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="pairs",
    cost="seconds",
    reference=(
        "Kim et al., Relevance Factor VAE: Learning and Identifying Disentangled Factors, "
        "arXiv:1902.01568"
    ),
    failure="A code of noise, as a sampled passive latent is, varies most whatever is varied.",
)
