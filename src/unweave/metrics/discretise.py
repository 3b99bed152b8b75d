"""Discrete codes: histogram bins, and entropies and mutual information of classes, in nats.

Classes are small integers from 0 up, one column per variable.
"""

import numpy as np

__all__ = ["bins", "contingency", "entropy", "mutual_information"]


def bins(codes: np.ndarray, count: int = 20) -> np.ndarray:
    """Cut every code into `count` bins of equal width between its smallest and largest value.

    Edges are computed in the precision of the codes: as in the reference, float32 codes have
    float32 edges.

    Args:
        codes: `[n, d]`.
        count: How many bins.

    Returns:
        int64 `[n, d]`, from 0 to `count - 1`; a constant code is in one bin.

    Example:
        >>> bins(np.array([[0.0], [0.24], [0.26], [1.0]]), count=4).ravel()
        array([0, 0, 1, 3])
    """
    return np.stack([_bins_of_one(column, count) for column in codes.T], 1)


def _bins_of_one(code: np.ndarray, count: int) -> np.ndarray:
    code = np.ascontiguousarray(code)
    try:
        edges = np.histogram_bin_edges(code, count)
    except ValueError:
        # Fewer numbers than bins between the smallest and the largest: each has its own.
        return np.unique(code, return_inverse=True)[1]
    return np.searchsorted(edges[:-1], code, side="right") - 1


def mutual_information(a_classes: np.ndarray, b_classes: np.ndarray) -> np.ndarray:
    """Mutual information of every column of one table with every column of another.

        I(a; b) = Σ p(a, b) log [p(a, b) / (p(a) p(b))]

    Args:
        a_classes: `[n, d]`.
        b_classes: `[n, K]`.

    Returns:
        `[d, K]` in nats; exactly 0 where a column has one class only.
    """
    return np.array([[_information(contingency(a, b)) for b in b_classes.T] for a in a_classes.T])


def contingency(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How often each class of a `[n]` meets each class of b `[n]`, `[classes of a, of b]`."""
    width = int(b.max()) + 1
    height = int(a.max()) + 1
    return np.bincount(a * width + b, minlength=height * width).reshape(height, width)


def _information(counts: np.ndarray) -> float:
    rows, columns = counts.sum(1), counts.sum(0)
    if np.count_nonzero(rows) == 1 or np.count_nonzero(columns) == 1:
        return 0.0
    i, j = np.nonzero(counts)
    met, total = counts[i, j], counts.sum()
    log_ratio = np.log(met) - np.log(rows[i]) - np.log(columns[j]) + np.log(total)
    terms = met / total * log_ratio
    # Rounding must not give independent variables an information that others are compared with.
    terms[np.abs(terms) < np.finfo(float).eps] = 0
    return max(float(terms.sum()), 0.0)


def entropy(classes: np.ndarray) -> np.ndarray:
    """Entropy H = -Σ p log p of every column of `[n, K]`, in nats, `[K]`.

    Example:
        >>> entropy(np.array([[0, 0], [1, 0], [1, 0], [1, 1]])).round(3)
        array([0.562, 0.562])
    """
    return np.array([_entropy_of_one(np.bincount(column)) for column in classes.T])


def _entropy_of_one(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return max(float(-(shares * np.log(shares)).sum()), 0.0)
