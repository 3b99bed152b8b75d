"""MIG, the mutual information gap between the two most informative codes of each factor."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.tools.discretise import bins, entropy, gap, mutual_information

__all__ = ["MIG", "information_matrix", "mig", "mig_of_factors"]


def mig(codes: Any, factors: Any, seed: int = 0, *, count: int = 20) -> dict[str, float]:
    """Mutual information gap between the two most informative codes of each factor.

        MIG = 1/K Σ_k [I(z_j1; v_k) - I(z_j2; v_k)] / H(v_k)

    where j1, j2 are the codes with the largest and second largest information, in histogram bins.

    Args:
        codes: Codes `[n, d]`; if there are more than 10,000 rows, that many are sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling rows.
        count: Number of bins per code.

    Returns:
        `mig`.

    Notes:
        A single code is compared with a code without information.

    References:
        Chen et al., Isolating Sources of Disentanglement in VAEs, arXiv:1802.04942.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> round(mig(grid @ np.array([[1.0, 0.5], [0.0, 1.0]]), grid)["mig"], 4)
        0.5277
    """
    gaps = mig_of_factors(codes, factors, seed, count=count)
    return {"mig": float(np.mean(list(gaps.values())))}


def mig_of_factors(
    codes: Any, factors: Any, seed: int = 0, *, count: int = 20
) -> dict[int, float]:
    """Return the gap of each factor, whose mean is `mig`; arguments as there.

    Returns:
        Gaps by factor column, without constant factors.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> gaps = mig_of_factors(grid @ np.array([[1.0, 0.5], [0.0, 1.0]]), grid)
        >>> {factor: round(gap, 4) for factor, gap in gaps.items()}
        {0: 0.4, 1: 0.6555}
    """
    rows = table(codes, factors).draw(numpy_rng(seed))
    gaps = gap(information_of(rows, count)) / entropy(rows.factors)
    return dict(zip(rows.columns, gaps.tolist(), strict=True))


def information_matrix(codes: Any, factors: Any, seed: int = 0, *, count: int = 20) -> np.ndarray:
    """Return the mutual information of every binned code with every factor.

    Returns:
        `[d, K]` in nats. Constant factors have no column.
    """
    return information_of(table(codes, factors).draw(numpy_rng(seed)), count)


def information_of(table: Table, count: int = 20) -> np.ndarray:
    """Return the information matrix `[d, K]` of all rows of a table."""
    return mutual_information(bins(table.codes, count), table.factors)


MIG = Metric(
    function=mig,
    label="MIG",
    explanation="For each factor: how much more informative is the best latent than the second "
    "best? Relative to the entropy of the factor.",
    failure="Twenty bins limit it: a perfect code of a factor with 40 values cannot reach 1.",
)
