"""Histogram bins, and entropy and mutual information of classes, in nats.

Classes are small integers starting at 0, with one column per variable.
"""

import numpy as np

__all__ = ["bins", "contingency", "entropy", "gap", "mutual_information"]


def bins(codes: np.ndarray, count: int = 20) -> np.ndarray:
    """Split every code `[n, d]` into `count` bins of equal width between its extremes, `[n, d]`.

    As in the reference, edges have the precision of the codes: float32 codes have float32 edges.
    A constant code falls into one bin.

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
        # There are fewer floats between the extremes than bins, so each value gets its own bin.
        return np.unique(code, return_inverse=True)[1]
    return np.searchsorted(edges[:-1], code, side="right") - 1


def mutual_information(a_classes: np.ndarray, b_classes: np.ndarray) -> np.ndarray:
    """Compute the mutual information of each column of `[n, d]` and `[n, K]`, in nats, `[d, K]`.

        I(a; b) = Σ p(a, b) log [p(a, b) / (p(a) p(b))]

    It is exactly 0 if a column has only one class.
    """
    return np.array([[_information(contingency(a, b)) for b in b_classes.T] for a in a_classes.T])


def contingency(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Count how often each pair of classes of a `[n]` and b `[n]` occurs, `[classes a, b]`."""
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
    # Rounding errors must not count as information between independent variables.
    terms[np.abs(terms) < np.finfo(float).eps] = 0
    return max(float(terms.sum()), 0.0)


def gap(values: np.ndarray) -> np.ndarray:
    """Return the largest value minus the second largest of each column `[d, K]`, as `[K]`.

    Example:
        >>> gap(np.array([[0.5, 0.1], [0.2, 0.4], [0.3, 0.4]]))
        array([0.2, 0. ])
    """
    padded = np.concatenate([np.zeros((1, values.shape[1])), values])
    second, first = np.sort(padded, 0)[-2:]
    return first - second


def entropy(classes: np.ndarray) -> np.ndarray:
    """Compute the entropy H = -Σ p log p of every column of `[n, K]`, in nats, `[K]`.

    Example:
        >>> entropy(np.array([[0, 0], [1, 0], [1, 0], [1, 1]])).round(3)
        array([0.562, 0.562])
    """
    return np.array([_entropy_of_one(np.bincount(column)) for column in classes.T])


def _entropy_of_one(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return max(float(-(shares * np.log(shares)).sum()), 0.0)
