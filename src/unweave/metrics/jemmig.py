"""JEMMIG: the information gap, and how little a factor's best code says beyond the factor."""

from typing import Any, NamedTuple

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import (
    Metric,
    Table,
    check_logvars,
    choose_rows,
    table,
)
from unweave.metrics.discretise import bins, contingency

__all__ = ["JEMMIG", "jemmig"]

BINS = 20
POSTERIOR_BINS = 100
POSTERIOR_RANGE = (-4.0, 4.0)


class Gaps(NamedTuple):
    """What RMIG and JEMMIG are made of, `[K]` each, in nats.

    Args:
        gap: I(z_j1; v_k) - I(z_j2; v_k).
        joint: H(z_j1, v_k).
        entropy: H(v_k).
        capacity: log of the number of bins.
    """

    gap: np.ndarray
    joint: np.ndarray
    entropy: np.ndarray
    capacity: float


def jemmig(
    codes: Any, factors: Any, seed: int = 0, *, logvars: Any = None, count: int | None = None
) -> dict[str, float]:
    """Joint entropy minus mutual information gap, normalised such that 1 is best.

        JEMMIG_k = H(z_j1, v_k) - [I(z_j1; v_k) - I(z_j2; v_k)]
        score = 1/K Σ_k [1 - JEMMIG_k / (H(v_k) + log #bins)]

    with j1, j2 the codes of largest and second largest information about v_k.

    Args:
        codes: `[n, d]`: mean or sampled codes, or posterior means where `logvars` are given.
        factors: `[n, K]`.
        seed: Draws 10,000 rows where there are more.
        logvars: Posterior log-variances `[n, d]`. With them the law of a code is the mixture of
            the posteriors on bins between -4 and 4, as in the paper; without them each row is in
            one bin between the code's smallest and largest value.
        count: Bins per code: by default 100 with `logvars`, as in the paper, else 20.

    Returns:
        `jemmig`; `jemmig_nats`: the mean of JEMMIG_k itself, of which less is better.

    Notes:
        The bins of a posterior have its density at their centre times their width, scaled to sum
        to 1, as in the published code; a posterior too narrow for any centre falls into the
        nearest bin. A single code is compared with no information.

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
    """The gap, joint entropy and entropy of every factor; arguments as for `jemmig`."""
    rows = table(codes, factors)
    chosen = choose_rows(len(rows), 10_000, numpy_rng(seed))
    picked = slice(None) if chosen is None else chosen
    if logvars is None:
        count = count or BINS
        joints = _joints_of_bins(rows.rows(picked), count)
    else:
        count = count or POSTERIOR_BINS
        logvars = check_logvars(logvars, rows.codes)
        joints = _joints_of_posteriors(rows.rows(picked), logvars[picked], count)
    return _gaps(joints, float(np.log(count)))


def _gaps(joints: list[list[np.ndarray]], capacity: float) -> Gaps:
    """From joint probabilities, per factor and code `[bins, values]`."""
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
    """p(bin, value) per factor and code."""
    binned = bins(rows.codes, count)
    return [[contingency(z, v) / len(rows) for z in binned.T] for v in rows.factors.T]


def _joints_of_posteriors(rows: Table, logvars: np.ndarray, count: int) -> list[list[np.ndarray]]:
    """p(bin, value) per factor and code, the rows' posteriors spread over the bins."""
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
    """How much of each normal law falls into each bin, `[n, count]`, rows summing to 1."""
    edges = np.linspace(*POSTERIOR_RANGE, count + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    distances = np.square(centres - means[:, None], dtype=np.float64)
    # Relative to the nearest bin: a law too narrow or too far for any centre falls into that one.
    distances -= distances.min(1, keepdims=True)
    precisions = np.exp(-np.clip(logvars[:, None], -60, 60).astype(np.float64))
    density = np.exp(-0.5 * distances * precisions)
    return density / density.sum(1, keepdims=True)


JEMMIG = Metric(
    name="jemmig",
    label="JEMMIG",
    explanation="As MIG, but a latent that also knows other things pays for it.",
    function=jemmig,
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs="factors",
    cost="seconds",
    reference=(
        "Do and Tran, Theory and Evaluation Metrics for Learning Disentangled Representations, "
        "arXiv:1908.09961"
    ),
    failure="A code that varies within one value of its factor loses, and more so with more bins.",
)
