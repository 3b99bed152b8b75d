"""Gradient-boosted trees for classification: a compiled version of scikit-learn's algorithm.

The algorithm is `GradientBoostingClassifier` with default settings: one-vs-rest trees of depth 3
on the gradient of the multinomial log-loss, best splits, one Newton step per leaf, 100 rounds,
learning rate 0.1. Rows are sorted by each code only once. scikit-learn sorts them in every node
of every tree, which takes most of its time.

Trees are stored as heaps: node m has the children 2m + 1 and 2m + 2, and the seven inner nodes
come first. A node that is not split sends every row to the left.
"""

from dataclasses import dataclass

import numba
import numpy as np

__all__ = ["BoostedTrees"]

DEPTH = 3
INNER = 2**DEPTH - 1
LEAVES = 2**DEPTH
ROUNDS = 100
LEARNING_RATE = 0.1
# As in scikit-learn: values closer than CLOSE count as equal, nodes purer than PURE are not split.
CLOSE = np.float32(1e-7)
PURE = np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """Fitted classifier of one factor.

    Args:
        classes: Classes in the training data, `[C]`.
        start: Initial raw predictions, `[T]`; T is C, or 1 for two classes.
        features: Code used by each inner node, `[rounds, T, 7]`.
        thresholds: Largest code that goes left, `[rounds, T, 7]`.
        values: Contribution of each leaf, including the learning rate, `[rounds, T, 8]`.
        feature_importances_: Share of each code in the reduction of the squared error, `[d]`;
            sums to 1, or to 0 if no tree could be grown.
    """

    classes: np.ndarray
    start: np.ndarray
    features: np.ndarray
    thresholds: np.ndarray
    values: np.ndarray
    feature_importances_: np.ndarray

    @classmethod
    def fit(
        cls, codes: np.ndarray, classes: np.ndarray, seed: int = 0, rounds: int = ROUNDS
    ) -> "BoostedTrees":
        """Fit trees that predict a class from codes.

        Args:
            codes: Codes `[n, d]`.
            classes: Classes `[n]`, arbitrary integers.
            seed: Random seed for ties between codes that split equally well.
            rounds: Number of boosting rounds.
        """
        found, y = np.unique(classes, return_inverse=True)
        columns = np.ascontiguousarray(codes.T, dtype=np.float32)
        # Row numbers are read constantly; narrow integers stay in the CPU cache.
        narrow = np.uint16 if len(y) <= 2**16 else np.int32
        order = np.argsort(columns, axis=1, kind="stable").astype(narrow)
        start = _start(np.bincount(y) / len(y))
        shape = (rounds, len(start))
        features = np.zeros((*shape, INNER), np.int32)
        thresholds = np.full((*shape, INNER), np.inf)
        values = np.zeros((*shape, LEAVES))
        importances = np.zeros(len(columns))
        raw = np.repeat(start[:, None], len(y), 1)
        if len(found) > 1:
            _boost(columns, order, y, seed % 2**63, raw, features, thresholds, values, importances)
        total = importances.sum()
        return cls(
            classes=found,
            start=start,
            features=features,
            thresholds=thresholds,
            values=values,
            feature_importances_=importances / total if total > 0 else importances,
        )

    def predict(self, codes: np.ndarray) -> np.ndarray:
        """Return the most likely class of every row of `[n, d]`, `[n]`."""
        columns = np.ascontiguousarray(codes.T, dtype=np.float32)
        raw = np.repeat(self.start[:, None], columns.shape[1], 1)
        _add_trees(columns, self.features, self.thresholds, self.values, raw)
        return self.classes[_decide(raw)]


def _start(shares: np.ndarray) -> np.ndarray:
    """Return the raw predictions that give every class its share."""
    if len(shares) == 1:
        return np.array([-1.0])
    if len(shares) == 2:
        return np.log(shares[1:] / shares[:1])
    return np.log(shares) - np.log(shares).mean()


def _decide(raw: np.ndarray) -> np.ndarray:
    """Return the class number with the largest raw prediction `[T, n]`, `[n]`."""
    if len(raw) == 1:
        return (raw[0] >= 0).astype(np.int64)
    return raw.argmax(0)


@numba.njit(cache=True, nogil=True)
def _boost(columns, order, y, seed, raw, features, thresholds, values, importances):
    """Grow all trees, updating raw predictions `[T, n]` and importances `[d]` in place."""
    num_trees, n = raw.shape
    residual = np.empty((num_trees, n))
    reciprocal = np.zeros(n + 1)
    reciprocal[1:] = 1 / np.arange(1, n + 1)
    shrink = 1.0 if num_trees == 1 else (num_trees - 1) / num_trees
    leaf = np.empty(n, np.uint8)
    rows = np.empty((2, *order.shape), order.dtype)
    state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
    turn = np.arange(len(columns))
    for t in range(features.shape[0]):
        _residuals(raw, y, residual)
        for c in range(num_trees):
            state = _shuffle(turn, state)
            tree = features[t, c], thresholds[t, c]
            _grow(columns, order, rows, residual[c], turn, reciprocal, leaf, tree, importances)
            target = 1 if num_trees == 1 else c
            _fill_leaves(residual[c], y, target, shrink, leaf, values[t, c])
            for i in range(n):
                raw[c, i] += values[t, c, leaf[i]]


@numba.njit(cache=True, nogil=True)
def _residuals(raw, y, residual):
    """Compute one-hot classes minus predicted probabilities, `[T, n]`."""
    num_trees, n = raw.shape
    if num_trees == 1:
        for i in range(n):
            residual[0, i] = y[i] - 1 / (1 + np.exp(-raw[0, i]))
        return
    largest = raw[0].copy()
    for c in range(1, num_trees):
        for i in range(n):
            largest[i] = max(largest[i], raw[c, i])
    total = np.zeros(n)
    for c in range(num_trees):
        for i in range(n):
            residual[c, i] = np.exp(raw[c, i] - largest[i])
            total[i] += residual[c, i]
    for c in range(num_trees):
        for i in range(n):
            residual[c, i] = (1.0 if y[i] == c else 0.0) - residual[c, i] / total[i]


@numba.njit(cache=True, nogil=True)
def _shuffle(turn, state):
    """Shuffle in place with xorshift64* and return its next state."""
    for last in range(len(turn) - 1, 0, -1):
        state ^= state >> np.uint64(12)
        state ^= state << np.uint64(25)
        state ^= state >> np.uint64(27)
        word = (state * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)
        other = np.int64(word % np.uint64(last + 1))
        turn[last], turn[other] = turn[other], turn[last]
    return state


@numba.njit(cache=True, nogil=True)
def _grow(columns, order, rows, residual, turn, reciprocal, leaf, tree, importances):
    """Grow one tree (features and thresholds) on the residuals; `leaf` receives each row's leaf.

    Rows stay sorted by every code within every node: each level but the last sorts the rows of
    the level above into one of two buffers `rows` `[d, n]`.
    """
    n = len(residual)
    features, thresholds = tree
    leaf[:] = 0
    borders = np.array([0, n])
    sorted_rows = order
    for level in range(DEPTH):
        width = 1 << level
        feature = np.full(width, -1)
        threshold = np.full(width, np.inf)
        next_borders = np.empty(2 * width + 1, np.int64)
        next_borders[2 * width] = n
        for m in range(width):
            low, high = borders[m], borders[m + 1]
            next_borders[2 * m], next_borders[2 * m + 1] = low, high
            count = high - low
            total, squares = 0.0, 0.0
            for i in sorted_rows[0, low:high]:
                total += residual[i]
                squares += residual[i] ** 2
            if count < 2 or squares / count - (total / count) ** 2 <= PURE:
                continue
            best, at = -np.inf, -1
            for f in turn:
                value, place = _scan(
                    sorted_rows[f, low:high], columns[f], residual, total, reciprocal, best
                )
                if place > 0:
                    best, at, feature[m] = value, low + place, f
            if at > 0:
                f = feature[m]
                threshold[m] = _between(
                    columns[f, sorted_rows[f, at - 1]], columns[f, sorted_rows[f, at]]
                )
                features[width - 1 + m], thresholds[width - 1 + m] = f, threshold[m]
                importances[f] += (best - total**2 / count) / n
                next_borders[2 * m + 1] = at
        for i in range(n):
            m = leaf[i]
            right = threshold[m] < np.inf and columns[feature[m], i] > threshold[m]
            leaf[i] = 2 * m + (1 if right else 0)
        if level + 1 < DEPTH:
            for f in range(len(columns)):
                _divide(sorted_rows[f], rows[level % 2, f], leaf, borders, next_borders)
            sorted_rows = rows[level % 2]
        borders = next_borders


@numba.njit(cache=True, nogil=True)
def _scan(rows, code, residual, total, reciprocal, best):
    """Return value and position of the best split of sorted rows; 0 if not better than `best`."""
    n = len(rows)
    at = 0
    left = 0.0
    for p in range(1, n):
        left += residual[rows[p - 1]]
        right = total - left
        value = left * left * reciprocal[p] + right * right * reciprocal[n - p]
        if value > best and code[rows[p]] > code[rows[p - 1]] + CLOSE:
            best = value
            at = p
    return best, at


@numba.njit(cache=True, nogil=True)
def _divide(rows, next_rows, leaf, borders, next_borders):
    """Sort the rows of every node into its children, preserving their order."""
    for m in range(len(borders) - 1):
        left, right = next_borders[2 * m], next_borders[2 * m + 1]
        for p in range(borders[m], borders[m + 1]):
            i = rows[p]
            goes_right = np.int64(leaf[i] & 1)
            next_rows[left + goes_right * (right - left)] = i
            right += goes_right
            left += 1 - goes_right


@numba.njit(cache=True, nogil=True)
def _between(low, high):
    """Return the midpoint of two float32 numbers, always below the upper one."""
    middle = np.float64(low) / 2 + np.float64(high) / 2
    return middle if middle < high else np.float64(low)


@numba.njit(cache=True, nogil=True)
def _fill_leaves(residual, y, target, shrink, leaf, values):
    """Take one Newton step per leaf: Σ residual / Σ p (1 - p)."""
    slope = np.zeros(LEAVES)
    curvature = np.zeros(LEAVES)
    for i in range(len(residual)):
        p = (1.0 if y[i] == target else 0.0) - residual[i]
        slope[leaf[i]] += residual[i]
        curvature[leaf[i]] += p * (1 - p)
    for m in range(LEAVES):
        if abs(curvature[m]) >= 1e-150:
            values[m] = LEARNING_RATE * shrink * slope[m] / curvature[m]


@numba.njit(cache=True, nogil=True)
def _add_trees(columns, features, thresholds, values, raw):
    for t in range(features.shape[0]):
        for c in range(features.shape[1]):
            for i in range(columns.shape[1]):
                m = 0
                for _ in range(DEPTH):
                    right = columns[features[t, c, m], i] > thresholds[t, c, m]
                    m = 2 * m + (2 if right else 1)
                raw[c, i] += values[t, c, m - INNER]
