"""JEMMIG: mutual information gap, with a penalty for codes that encode more than their factor."""

from typing import Any, NamedTuple

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, Table, check_logvars, choose_rows, table
from unweave.metrics.tools.discretise import bins, contingency

__all__ = ["JEMMIG", "jemmig"]

BINS = 20
POSTERIOR_BINS = 100
POSTERIOR_RANGE = (-4.0, 4.0)


class Gaps(NamedTuple):
    """Terms of RMIG and JEMMIG, `[K]` each, in nats, and the log of the number of bins."""

    gap: np.ndarray  # I(z_j1; v_k) - I(z_j2; v_k)
    joint: np.ndarray  # H(z_j1, v_k)
    entropy: np.ndarray  # H(v_k)
    capacity: float


def jemmig(
    codes: Any, factors: Any, seed: int = 0, *, logvars: Any = None, count: int | None = None
) -> dict[str, float]:
    """Joint entropy minus mutual information gap, normalised so that 1 is best.

        JEMMIG_k = H(z_j1, v_k) - [I(z_j1; v_k) - I(z_j2; v_k)]
        score = 1/K Σ_k [1 - JEMMIG_k / (H(v_k) + log #bins)]

    where j1, j2 are the codes with the largest and second largest information about v_k.

    Args:
        codes: Mean or sampled codes `[n, d]`, or posterior means if `logvars` are given.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling 10,000 rows if there are more.
        logvars: Posterior log-variances `[n, d]`. If given, the distribution of a code is the
            mixture of the posteriors, on bins between -4 and 4 as in the paper. Otherwise each row
            falls into one bin between the smallest and largest value of the code.
        count: Number of bins per code (default: 100 with `logvars`, as in the paper, else 20).

    Returns:
        `jemmig`; `jemmig_nats`, the mean of JEMMIG_k itself (lower is better).

    Notes:
        As in the published code, the weight of a bin is the posterior density at its centre,
        normalised to sum to 1. A posterior that is too narrow for any centre falls into the
        nearest bin. A single code is compared with a code without information.

    References:
        Do and Tran, Theory and Evaluation Metrics for Learning Disentangled Representations,
        arXiv:1908.09961.

    Example:
        >>> factors = np.indices((20, 20)).reshape(2, -1).T
        >>> scores = jemmig(factors, factors)
        >>> {name: round(score, 3) for name, score in scores.items()}
        {'jemmig': 1.0, 'jemmig_nats': 0.0}
        >>> round(jemmig(factors @ [[1, 1], [0, 1]], factors)["jemmig"], 3)
        0.552
    """
    gaps = information_gaps(codes, factors, seed, logvars, count)
    nats = np.maximum(gaps.joint - gaps.gap, 0)
    return {
        "jemmig": float((1 - nats / (gaps.entropy + gaps.capacity)).mean()),
        "jemmig_nats": float(nats.mean()),
    }


def information_gaps(codes: Any, factors: Any, seed: int, logvars: Any, count: int | None) -> Gaps:
    """Return the gap, joint entropy and entropy of every factor; arguments as for `jemmig`."""
    rows = table(codes, factors)
    chosen = choose_rows(len(rows), numpy_rng(seed))
    if logvars is None:
        count = count or BINS
        joints = _joints_of_bins(rows.rows(chosen), count)
    else:
        count = count or POSTERIOR_BINS
        logvars = check_logvars(logvars, rows.codes)
        joints = _joints_of_posteriors(rows.rows(chosen), logvars[chosen], count)
    return _gaps(joints, float(np.log(count)))


def _gaps(joints: list[list[np.ndarray]], capacity: float) -> Gaps:
    """Compute the gaps from joint probabilities for each factor and code, `[bins, values]`."""
    found = []
    for of_factor in joints:
        entropy = _entropy(of_factor[0].sum(0))
        joint = np.array([_entropy(p) for p in of_factor])
        information = np.array([_entropy(p.sum(1)) for p in of_factor]) + entropy - joint
        best = int(information.argmax())
        second = max([0.0, *np.delete(information, best)])
        found.append((max(information[best] - second, 0.0), joint[best], entropy))
    gap, joint, entropy = np.array(found).T
    return Gaps(gap, joint, entropy, capacity)


def _entropy(probabilities: np.ndarray) -> float:
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


def _joints_of_bins(rows: Table, count: int) -> list[list[np.ndarray]]:
    """Return p(bin, value) for each factor and code."""
    binned = bins(rows.codes, count)
    return [[contingency(z, v) / len(rows) for z in binned.T] for v in rows.factors.T]


def _joints_of_posteriors(rows: Table, logvars: np.ndarray, count: int) -> list[list[np.ndarray]]:
    """Return p(bin, value) for each factor and code, with posteriors spread over the bins."""
    shares = [
        posterior_bins(mu, lv, count) for mu, lv in zip(rows.codes.T, logvars.T, strict=True)
    ]
    joints = []
    for column in rows.factors.T:
        order = np.argsort(column, kind="stable")
        starts = np.flatnonzero(np.diff(column[order], prepend=-1))
        joints.append([np.add.reduceat(share[order], starts).T / len(rows) for share in shares])
    return joints


def posterior_bins(means: np.ndarray, logvars: np.ndarray, count: int) -> np.ndarray:
    """Return the share of each normal distribution in each bin, `[n, count]`; rows sum to 1."""
    edges = np.linspace(*POSTERIOR_RANGE, count + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    distances = np.square(centres - means[:, None], dtype=np.float64)
    # Relative to the nearest bin, which gets posteriors that are too narrow or far for any centre.
    distances -= distances.min(1, keepdims=True)
    precisions = np.exp(-np.clip(logvars[:, None], -60, 60).astype(np.float64))
    density = np.exp(-0.5 * distances * precisions)
    return density / density.sum(1, keepdims=True)


JEMMIG = Metric(
    function=jemmig,
    label="JEMMIG",
    explanation="Like MIG, but penalises a latent that also encodes something else.",
    failure="A code that varies within a value of its factor loses, and more so with more bins.",
)
