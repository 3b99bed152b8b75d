"""RMIG, the robust mutual information gap: MIG over the posteriors instead of one code per row."""

from typing import Any

from unweave.metrics.base import Metric
from unweave.metrics.jemmig import information_gaps

__all__ = ["RMIG", "rmig"]


def rmig(
    codes: Any, factors: Any, seed: int = 0, *, logvars: Any = None, count: int | None = None
) -> dict[str, float]:
    """Mutual information gap of the two codes that know most of a factor.

        RMIG = 1/K Σ_k [I(z_j1; v_k) - I(z_j2; v_k)] / H(v_k)

    Args:
        codes: `[n, d]`: mean or sampled codes, or posterior means where `logvars` are given.
        factors: `[n, K]`.
        seed: Draws 10,000 rows where there are more.
        logvars: Posterior log-variances `[n, d]`, see `jemmig`. Without them RMIG is MIG.
        count: Bins per code: by default 100 with `logvars`, else 20.

    Returns:
        `rmig`; `rmig_nats`: the mean gap, not divided by the entropy, as the paper first has it.

    References:
        Do and Tran, Theory and Evaluation Metrics for Learning Disentangled Representations,
        arXiv:1908.09961.

    Example:
        >>> import numpy as np
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> round(rmig(factors - 2.0, factors, logvars=np.full((20, 2), -2.0))["rmig"], 3)
        0.78
    """
    gaps = information_gaps(codes, factors, seed, logvars, count)
    return {"rmig": float((gaps.gap / gaps.entropy).mean()), "rmig_nats": float(gaps.gap.mean())}


RMIG = Metric(
    name="rmig",
    label="RMIG",
    explanation="As MIG, computed from the posteriors, so that their noise counts.",
    function=rmig,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Do and Tran, Theory and Evaluation Metrics for Learning Disentangled Representations, "
        "arXiv:1908.09961"
    ),
    failure="A code that mixes several factors is not punished, as long as no other knows them.",
)
