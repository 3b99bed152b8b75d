"""MIG: by how much one code knows more of a factor than any other code does."""

from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, table
from unweave.metrics.discretise import bins, entropy, mutual_information

__all__ = ["MIG", "information_matrix", "mig", "mig_of_factors"]


def mig(codes: Any, factors: Any, seed: int = 0, *, count: int = 20) -> dict[str, float]:
    """Mutual information gap between the two codes that know most of a factor.

        MIG = 1/K Σ_k [I(z_j1; v_k) - I(z_j2; v_k)] / H(v_k)

    with j1, j2 the codes of largest and second largest information, cut into histogram bins.

    Args:
        codes: `[n, d]`; more than 10,000 rows are drawn from.
        factors: `[n, K]`.
        seed: Draws the rows.
        count: Bins per code.

    Returns:
        `mig`.

    Notes:
        A single code is compared with no information.

    References:
        Chen et al., Isolating Sources of Disentanglement in VAEs, arXiv:1802.04942.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> round(mig(grid @ np.array([[1.0, 0.5], [0.0, 1.0]]), grid)["mig"], 4)
        0.5277
    """
    rows = table(codes, factors).draw(10_000, numpy_rng(seed))
    return {"mig": float(_gaps(rows, count).mean())}


def mig_of_factors(
    codes: Any, factors: Any, seed: int = 0, *, count: int = 20
) -> dict[int, float]:
    """The gap of each factor, of which `mig` is the mean; arguments as there.

    Returns:
        By column of the factors. Those with one value have none.

    Example:
        >>> grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)
        >>> gaps = mig_of_factors(grid @ np.array([[1.0, 0.5], [0.0, 1.0]]), grid)
        >>> {factor: round(gap, 4) for factor, gap in gaps.items()}
        {0: 0.4, 1: 0.6555}
    """
    rows = table(codes, factors).draw(10_000, numpy_rng(seed))
    return dict(zip(rows.columns, _gaps(rows, count).tolist(), strict=True))


def _gaps(rows: Table, count: int) -> np.ndarray:
    information = information_of(rows, count)
    padded = np.concatenate([np.zeros((1, information.shape[1])), information])
    second, first = np.sort(padded, 0)[-2:]
    return (first - second) / entropy(rows.factors)


def information_matrix(codes: Any, factors: Any, seed: int = 0, *, count: int = 20) -> np.ndarray:
    """Mutual information of every code, cut into bins, with every factor.

    Returns:
        `[d, K]` in nats. Factors with one value have no column.
    """
    rows = table(codes, factors).draw(10_000, numpy_rng(seed))
    return information_of(rows, count)


def information_of(table: Table, count: int = 20) -> np.ndarray:
    """The information matrix `[d, K]` of all rows of a table."""
    return mutual_information(bins(table.codes, count), table.factors)


MIG = Metric(
    name="mig",
    label="MIG",
    explanation="For each factor: by how much does the latent that knows most about it beat the "
    "second best? In shares of what there is to know.",
    function=mig,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference="Chen et al., Isolating Sources of Disentanglement in VAEs, arXiv:1802.04942",
    failure="Twenty bins cap it: a perfect code of a factor with 40 values cannot reach 1.",
)
