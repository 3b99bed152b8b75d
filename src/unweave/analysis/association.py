"""Association between codes and known factors.

Shapes: n images, d latents, K factors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["association", "associations"]


def association(codes: Any, classes: Any, categorical: bool = False) -> np.ndarray:
    """Compute how closely each latent follows a factor, from 0 to 1, `[d]`.

        |corr(rank z_j, rank v)|             if the classes are ordered, or if there are two
        √ε²,  ε² = 1 - (n - 1) / (n - c) · Σ_i (r_i - mean r of i's class)² / Σ_i (r_i - mean r)²
                                             otherwise, with the ranks r of z_j

    The first is Spearman's correlation. The second is the correlation ratio of the ranks for c
    unordered classes, corrected for chance.

    Args:
        codes: Codes `[n, d]`.
        classes: Class numbers `[n]`, in order unless `categorical`.
        categorical: Whether the classes are unordered.

    Example:
        >>> v = np.repeat(np.arange(3), 20)
        >>> z = np.stack([v**3, np.array([5, 0, 9])[v], np.tile(v[::3], 3)], 1) * 1.0
        >>> association(z, v).round(2).tolist()
        [1.0, 0.5, 0.0]
        >>> association(z, v, categorical=True).round(2).tolist()
        [1.0, 1.0, 0.0]
    """
    from scipy.stats import rankdata

    number = np.unique(np.asarray(classes), return_inverse=True)[1]
    n, c = len(number), int(number.max()) + 1
    ranks = rankdata(np.asarray(codes, np.float64), axis=0) - (n + 1) / 2
    total = np.square(ranks).sum(0)
    found = np.zeros(ranks.shape[1])
    varies = total > 0
    if c < 2 or (categorical and c > 2 and c >= n):
        return found
    if categorical and c > 2:
        sums = np.stack([np.bincount(number, column, c) for column in ranks.T], 1)
        between = (np.square(sums) / np.bincount(number)[:, None]).sum(0)
        rest = (total - between)[varies] / total[varies]
        found[varies] = np.sqrt(np.clip(1 - (n - 1) / (n - c) * rest, 0, 1))
        return found
    order = rankdata(number) - (n + 1) / 2
    scale = np.sqrt(total[varies] * np.square(order).sum())
    found[varies] = np.clip(np.abs(order @ ranks[:, varies]) / scale, 0, 1)
    return found


def associations(codes: Any, classes: Any, categorical: Sequence[bool]) -> np.ndarray:
    """Compute the association of every factor with every latent, `[K, d]`.

    Args:
        codes: Codes `[n, d]`.
        classes: Class numbers `[n, K]`.
        categorical: Whether the classes of each factor are unordered.
    """
    columns = zip(np.asarray(classes).T, categorical, strict=True)
    found = [association(codes, column, unordered) for column, unordered in columns]
    return np.stack(found) if found else np.zeros((0, np.asarray(codes).shape[1]))
