"""OMES: does each factor change one code, and each code follow one factor?"""

from typing import Any

import numpy as np

from unweave.errors import UnknownNameError
from unweave.io.arguments import check_count, numpy_rng
from unweave.metrics.base import Metric, MetricError, Table, standardised, table
from unweave.metrics.factor_vae import THRESHOLD, active_variances
from unweave.metrics.tools.grouped_rows import siblings

__all__ = ["OMES", "omes"]

POOLINGS = ("average", "max")
MAX_PAIRS = 10**7


def omes(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    alpha: float = 0.5,
    pooling: str = "average",
    pairs: int = 100_000,
    threshold: float = THRESHOLD,
) -> dict[str, float]:
    """Overlap and multiple encoding scores (OMES), from pairs of images that differ in one factor.

        OMES  = 1/K Σ_k [α pool_j(O_jk S_jk) + (1 - α) pool_j(E_jk S_jk)]
        S_jk  = 1 - |corr(z_j, z'_j)|,    z and z' the codes of pairs that differ only in v_k
        O_jk  = 1 - 1/K Σ_l |[l = k] - S_jl|,    overlap: 1 if code j follows only factor k
        E_jk  = 1 - 1/d Σ_i |[i = j] - S_ik|,    multiple encoding: 1 if only code j follows k

    A code that does not depend on factor k is equal in both images of such a pair, so S_jk = 0.
    The average over codes is weighted: pool_j(x_j) = Σ_j S_jk x_j / Σ_j S_jk.

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling pairs.
        alpha: Weight of the overlap score.
        pooling: `"average"` (default) over the codes, weighted by S, or `"max"`.
        pairs: Number of pairs for each factor.
        threshold: Standard deviation below which codes are inactive and ignored.

    Returns:
        `omes`; `overlap` and `multiple_encoding`, its two terms for α = 1 and α = 0; `active`, the
        number of active codes. All are 0 if no code is active.

    Notes:
        The equation is that of the authors' code. They pair the rows of a combination of the other
        factors at random, at most once each, and keep 100,000 pairs or all if there are fewer.
        Here pairs are drawn with replacement, from all rows that have a counterpart. A code that
        is equal in all pairs of a factor has S = 0 (NaN in their code). They round S and the score
        to four digits.

    References:
        Dapueto et al., Transferring Disentangled Representations: Bridging the Gap between
        Synthetic and Real Images, arXiv:2409.18017.

    Example:
        >>> factors = np.indices((4, 5, 6)).reshape(3, -1).T
        >>> found = omes(factors, factors)
        >>> {name: round(score, 2) for name, score in found.items()}
        {'omes': 0.68, 'overlap': 0.68, 'multiple_encoding': 0.68, 'active': 3.0}
        >>> mixed = factors @ [[1, 1, 0], [1, -1, 0], [0, 0, 1]]
        >>> round(omes(mixed, factors)["omes"], 2)
        0.54
    """
    if not 0 <= alpha <= 1:
        raise MetricError.expected("alpha", "be between 0 and 1", alpha)
    if pooling not in POOLINGS:
        raise UnknownNameError("pooling", pooling, POOLINGS)
    check_count("pairs", pairs, 2, MAX_PAIRS)
    rows, generator = table(codes, factors), numpy_rng(seed)
    active = np.isfinite(active_variances(rows, threshold, generator))
    association = association_matrix(rows, pairs, generator)[active]
    overlap, encoding = (_pooled(term, association, pooling) for term in _terms(association))
    return {
        "omes": alpha * overlap + (1 - alpha) * encoding,
        "overlap": overlap,
        "multiple_encoding": encoding,
        "active": float(active.sum()),
    }


def association_matrix(rows: Table, pairs: int, generator: np.random.Generator) -> np.ndarray:
    """Return S, how strongly each code depends on each factor, `[d, K]`."""
    columns = []
    for factor in range(rows.factors.shape[1]):
        first, second = pairs_that_differ(rows, factor, pairs, generator)
        z, other = (rows.codes[chosen].astype(np.float64) for chosen in (first, second))
        correlation = (standardised(z) * standardised(other)).mean(0)
        varies = (z != other).any(0)
        columns.append(np.where(varies, 1 - np.minimum(np.abs(correlation), 1), 0.0))
    return np.stack(columns, 1)


def pairs_that_differ(
    rows: Table, factor: int, count: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Sample pairs of rows, `[count]` each, that differ in one factor and in no other."""
    families, usable = siblings(rows, factor)
    first = generator.choice(usable, size=count)
    family, value = families.classes, rows.factors[:, factor]
    order = np.lexsort((value, family))
    # Within a family, rows with the same value are neighbours, so they can be left out.
    size = int(rows.sizes[factor])
    kinds = family.astype(np.int64) * size + value
    _, kind, num_alike = np.unique(kinds, return_inverse=True, return_counts=True)
    run_starts = np.cumsum(num_alike) - num_alike
    alike, start = num_alike[kind[first]], families.starts[family[first]]
    others = families.counts[family[first]] - alike
    place = start + (generator.random(count) * others).astype(np.int64)
    place += np.where(place >= run_starts[kind[first]], alike, 0)
    return first, order[place]


def _terms(association: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return O and E, `[d, K]` each; row j and column k have an error of 1 - S_jk instead of S."""
    d, num_factors = association.shape
    own = 1 - 2 * association
    overlap = 1 - (association.sum(1, keepdims=True) + own) / num_factors
    encoding = 1 - (association.sum(0, keepdims=True) + own) / max(d, 1)
    return overlap, encoding


def _pooled(term: np.ndarray, association: np.ndarray, pooling: str) -> float:
    """Pool O S or E S over the codes, and average over the factors."""
    if not len(association):
        return 0.0
    products = term * association
    if pooling == "max":
        return float(products.max(0).mean())
    total = association.sum(0)
    weighted = (products * association).sum(0)
    return float((weighted / np.where(total == 0, 1, total)).mean())


OMES = Metric(
    function=omes,
    label="OMES",
    explanation="Only one factor changes between two images. Does only one latent change, and "
    "does it change with this factor only?",
    needs="pairs",
    failure="A perfect code of a factor with two values scores 0: its values in a pair determine "
    "each other.",
)
