"""Linear support vector machines of a single variable, solved exactly, many at once.

The classifiers are those of scikit-learn's `LinearSVC`, one class against the rest:

    min over w, b of  1/2 (w² + b²) + Σ_i C_i max(0, 1 - y_i (w x_i + b))²

with C_i = C n / (classes × rows of the class) for rows of the class and C_i = C for the rest. With
only two classes, rows of both are weighted by the size of their class. In one variable, the rows
inside the margin are those on one side of a threshold. Cumulative sums over sorted rows therefore
give value, gradient and Hessian of all classes at once, and Newton's method reaches the optimum of
this piecewise quadratic function in a few steps.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["LinearSVMs"]

C = 0.01
MAX_STEPS = 200
MAX_HALVINGS = 50
TOLERANCE = 1e-14


@dataclass(frozen=True, eq=False)
class LinearSVMs:
    """Classifiers that predict several factors from one code.

    Args:
        classes: Classes of each factor.
        slopes: w for each class of each factor; if there are two, only for the second.
        intercepts: b for the same classes.
    """

    classes: list[np.ndarray]
    slopes: list[np.ndarray]
    intercepts: list[np.ndarray]

    @classmethod
    def fit(cls, code: np.ndarray, factors: np.ndarray) -> "LinearSVMs":
        """Fit all machines for one code.

        Args:
            code: Code, float64 `[n]`.
            factors: Classes `[n, K]`, small integers.
        """
        classes = [np.flatnonzero(np.bincount(column)) for column in factors.T]
        order = np.argsort(code, kind="stable")
        problems = _Problems.make(code[order], factors[order], classes)
        slopes, intercepts = problems.solve()
        borders = np.cumsum([len(_positive(found)) for found in classes])[:-1]
        return cls(classes, np.split(slopes, borders), np.split(intercepts, borders))

    def predict(self, factor: int, code: np.ndarray) -> np.ndarray:
        """Predict the class of a factor from codes `[n]`, `[n]`."""
        classes = self.classes[factor]
        decisions = np.multiply.outer(code, self.slopes[factor]) + self.intercepts[factor]
        if len(classes) == 2:
            return classes[(decisions[:, 0] > 0).astype(int)]
        return classes[decisions.argmax(1)]


def _positive(classes: np.ndarray) -> np.ndarray:
    """Return the classes that have their own machine."""
    return classes[1:] if len(classes) == 2 else classes


@dataclass(frozen=True, eq=False)
class _Problems:
    """P problems, one per class and factor, on the same rows, sorted by x.

    Args:
        x: Sorted codes `[n]`.
        moments: Sums of 1, x, x² over the first i rows, `[3, n + 1]`.
        class_moments: The same sums over the rows of each class of each factor, one class after
            the other, `[3, K n + 1]`.
        keys: Position of a row in that sequence: (class, numbered over all factors) × (n + 1) +
            row, ascending, `[K n]`.
        numbers: Class of each problem, numbered over all factors, `[P]`.
        weights: C of the class and of the rest, `[2, P]`.
    """

    x: np.ndarray
    moments: np.ndarray
    class_moments: np.ndarray
    keys: np.ndarray
    numbers: np.ndarray
    weights: np.ndarray

    @classmethod
    def make(cls, x: np.ndarray, factors: np.ndarray, classes: list[np.ndarray]) -> "_Problems":
        sizes = factors.max(0) + 1
        offsets = np.cumsum(sizes) - sizes
        counted = (factors + offsets).T.ravel()
        grouped = np.argsort(counted, kind="stable")
        rows = grouped % len(x)
        powers = np.stack([np.ones_like(x), x, x**2])
        counts = np.bincount(counted)
        numbers, weights = [], []
        for found, offset in zip(classes, offsets, strict=True):
            positive = _positive(found) + offset
            balanced = C * len(x) / (len(found) * counts[positive])
            two = C * len(x) / (len(found) * counts[found[0] + offset])
            rest = np.full_like(balanced, two if len(found) == 2 else C)
            numbers.append(positive)
            weights.append(np.stack([balanced, rest]))
        return cls(
            x,
            _cumulative(powers),
            _cumulative(powers[:, rows]),
            counted[grouped] * (len(x) + 1) + rows,
            np.concatenate(numbers),
            np.concatenate(weights, 1),
        )

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the optimal w and b of every problem, `[P]` each."""
        point = np.zeros((2, len(self.numbers)))
        value, gradient, hessian = self._evaluate(point)
        for _ in range(MAX_STEPS):
            step = _solve_pairs(hessian, gradient)
            gain = (gradient * step).sum(0)
            if (gain <= TOLERANCE * value).all():
                break
            length = np.ones_like(value)
            for _ in range(MAX_HALVINGS):
                nearer = point - length * step
                result = self._evaluate(nearer)
                far = result[0] > value - 1e-4 * length * gain + TOLERANCE * value
                if not far.any():
                    break
                length = np.where(far, length / 2, length)
            point, (value, gradient, hessian) = nearer, result
        return point[0], point[1]

    def _evaluate(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute value `[P]`, gradient `[2, P]` and Hessian (ww, wb, bb) `[3, P]` at a point."""
        w, b = point
        inside = self.weights[0] * self._below_margin(w, b)[0]
        outside = self.weights[1] * self._below_margin(-w, -b)[1]
        n, sx, sxx = inside + outside
        sy, sxy, _ = inside - outside
        loss = n * (1 + b**2) + 2 * (w * b * sx - w * sxy - b * sy) + w**2 * sxx
        gradient = np.stack([w + 2 * (w * sxx + b * sx - sxy), b + 2 * (w * sx + b * n - sy)])
        return 0.5 * (w**2 + b**2) + loss, gradient, np.stack([1 + 2 * sxx, 2 * sx, 1 + 2 * n])

    def _below_margin(self, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return moments of rows with w x + b < 1, for each class and its rest, `[3, P]` each."""
        flat = w == 0
        place = np.searchsorted(self.x, (1 - b) / np.where(flat, 1, w))
        place = np.where(flat, len(self.x) * (b < 1), place)
        first = np.where(w < 0, place, 0)
        last = np.where(w < 0, len(self.x), place)
        starts, ends = (
            np.searchsorted(self.keys, self.numbers * (len(self.x) + 1) + row)
            for row in (first, last)
        )
        inside = self.class_moments[:, ends] - self.class_moments[:, starts]
        return inside, self.moments[:, last] - self.moments[:, first] - inside


def _cumulative(values: np.ndarray) -> np.ndarray:
    """Return the sums over the first 0, 1, … columns of `[3, n]`."""
    return np.concatenate([np.zeros((3, 1)), np.cumsum(values, 1)], 1)


def _solve_pairs(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Solve P systems of two equations, `[2, P]`."""
    ww, wb, bb = hessian
    solution = np.stack([bb * gradient[0] - wb * gradient[1], ww * gradient[1] - wb * gradient[0]])
    return solution / (ww * bb - wb**2)
