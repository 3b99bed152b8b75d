"""Linear maps between the codes of models, and their distances to signed permutations."""

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents, SelectionError
from unweave.errors import UnknownNameError

__all__ = [
    "NORMS",
    "SOLVERS",
    "distance_to_orthogonality",
    "dto_pairs",
    "least_squares_maps",
    "map_distances",
    "nearest_signed_permutation",
    "random_distances",
]

NORMS = ("frobenius", "mean_l1")
SOLVERS = ("assignment", "milp")
DRAWS = 200


def least_squares_maps(latents: Latents) -> np.ndarray:
    """Compute least-squares maps between the raw codes of all pairs of models, `[M, M, d, d]`.

        A_ij = argmin_A Σ_x ‖A z^i - z^j‖²,    A_ii = I

    Args:
        latents: Codes of the models. They are neither centred nor scaled, and maps have no
            intercept, like the maps that an ensemble learns.

    Notes:
        Coefficients are huge for latents that hardly vary; `map_distances` can ignore these.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(100, 2))
        >>> least_squares_maps(Latents(np.stack([z, -z[:, ::-1]])))[0, 1].round(6) + 0.0
        array([[ 0., -1.],
               [-1.,  0.]])
    """
    num_models, _, d = latents.means.shape
    maps = np.full((num_models, num_models, d, d), np.nan)
    for i in np.flatnonzero(latents.usable):
        for j in np.flatnonzero(latents.usable):
            maps[i, j] = np.linalg.lstsq(latents.means[i], latents.means[j], rcond=None)[0].T
        maps[i, i] = np.eye(d)
    return maps


def map_distances(maps: Any, used: Any = None) -> pd.DataFrame:
    """Measure how far maps between models are from signed permutations, with controls.

    Args:
        maps: Maps `[M, M, d, d]` from the codes of model i to those of model j.
        used: Whether each latent is used, `[M, d]`. If given, distances between used latents only
            are added, if both models use the same number of latents.

    Returns:
        One row per ordered pair of models: `from`, `to`; `frobenius` and `mean_l1` as defined in
        `distance_to_orthogonality`; `relative_…`, divided by the mean of random orthogonal maps of
        that size, so that 1 means no alignment; with `used`, the same as `used_…`, and `latents`,
        their number (-1 if the two models differ).

    Notes:
        Both published distances can be small without alignment: `mean_l1` falls with d, and is
        only 1/d for a map of zeros. With k of d latents in use, they cannot fall below
        (d - k) / d² and √(d - k). The controls account for this.

    References:
        Improving the Unsupervised Disentangled Representation Learning with VAE Ensemble, under
        review 2020.

    Example:
        >>> turn = np.array([[0.8, -0.6], [0.6, 0.8]])
        >>> maps = np.stack([[np.eye(2), turn], [turn.T, np.eye(2)]])
        >>> map_distances(maps)[["from", "to", "frobenius", "mean_l1"]].round(3).values.tolist()
        [[0.0, 1.0, 0.894, 0.4], [1.0, 0.0, 0.894, 0.4]]
    """
    maps = np.asarray(maps, np.float64)
    if maps.ndim != 4 or maps.shape[0] != maps.shape[1] or maps.shape[2] != maps.shape[3]:
        raise SelectionError.must("maps", "have shape [M, M, d, d]", list(maps.shape))
    if used is not None:
        used = np.asarray(used, bool)
        if used.shape != maps.shape[1:3]:
            raise SelectionError.must(
                "used",
                f"have shape {list(maps.shape[1:3])}, one entry per latent",
                list(used.shape),
            )
    rows = []
    for i, j in zip(*np.nonzero(~np.eye(len(maps), dtype=bool)), strict=True):
        row = {"from": int(i), "to": int(j), **_distances(maps[i, j])}
        if used is not None:
            row |= _used(maps[i, j], used[i], used[j])
        rows.append(row)
    return pd.DataFrame(rows)


@lru_cache
def random_distances(d: int) -> dict[str, float]:
    """Compute the mean of both distances over random orthogonal maps of d latents.

    Example:
        >>> {norm: round(distance, 2) for norm, distance in random_distances(10).items()}
        {'frobenius': 2.85, 'mean_l1': 0.24}
    """
    rng = np.random.default_rng(0)
    samples = [distance_to_orthogonality(_orthogonal(rng, d)) for _ in range(DRAWS)]
    return {norm: float(np.mean([each[norm] for each in samples])) for norm in NORMS}


def _orthogonal(rng: np.random.Generator, d: int) -> np.ndarray:
    """Sample uniformly from all orthogonal matrices."""
    Q, R = np.linalg.qr(rng.normal(size=(d, d)))
    return Q * np.sign(np.diag(R))


def _distances(A: np.ndarray) -> dict[str, float]:
    if not np.isfinite(A).all():
        return dict.fromkeys([*NORMS, *(f"relative_{norm}" for norm in NORMS)], np.nan)
    found, usual = distance_to_orthogonality(A), random_distances(len(A))
    # A single latent can only be mapped to itself, so alignment is undefined.
    relative = {f"relative_{n}": found[n] / usual[n] if usual[n] else np.nan for n in NORMS}
    return {**found, **relative}


def _used(A: np.ndarray, used_from: np.ndarray, used_to: np.ndarray) -> dict[str, float]:
    """Compute the distances for the part of a map between used latents."""
    equal = used_from.sum() == used_to.sum() > 0
    part = A[np.ix_(used_to, used_from)] if equal else np.full((1, 1), np.nan)
    found = {f"used_{name}": value for name, value in _distances(part).items()}
    return {**found, "latents": int(used_from.sum()) if equal else -1}


def dto_pairs(latents: Latents) -> np.ndarray:
    """Compute the distance of the best linear map from each model i to each model j, `[M, M]`."""
    chosen = latents.informative
    num_models, n, d = latents.standardised.shape
    together = latents.standardised.transpose(1, 0, 2).reshape(n, num_models * d)
    pairs = np.ones((num_models, num_models))
    for i in np.flatnonzero(chosen.any(1)):
        codes = latents.standardised[i][:, chosen[i]]
        across = (codes.T @ together).reshape(-1, num_models, d)
        inverse = np.linalg.pinv(codes.T @ codes, hermitian=True)
        for j in np.flatnonzero(chosen.any(1)):
            A = _square((inverse @ across[:, j, chosen[j]]).T)
            pairs[i, j] = distance_to_orthogonality(A)["frobenius"] / np.sqrt(len(A))
    return pairs


def distance_to_orthogonality(matrix: Any) -> dict[str, float]:
    """Compute both published distances of a matrix to its nearest signed permutation.

        frobenius = ‖A - P(A)‖_F,    mean_l1 = Σ |A - P(A)| / d²

    Args:
        matrix: Matrix A `[d, d]`.

    Returns:
        `frobenius`, `mean_l1`.

    Notes:
        The text of the paper defines the first, its equation 10 the second. The second falls with
        d: random orthogonal matrices have 0.24 at d = 10 and 0.15 at d = 32.

    Example:
        >>> distance_to_orthogonality([[0.0, -1.0], [1.0, 0.5]])
        {'frobenius': 0.5, 'mean_l1': 0.125}
    """
    A = np.asarray(matrix, np.float64)
    difference = A - nearest_signed_permutation(A)
    return {
        "frobenius": float(np.sqrt((difference**2).sum())),
        "mean_l1": float(np.abs(difference).mean()),
    }


def nearest_signed_permutation(matrix: Any, solver: str = "assignment") -> np.ndarray:
    """Find the signed permutation P(A) nearest to a matrix in the sum of absolute differences.

    For a fixed permutation π, entries off π cost |A_ab|, and an entry on π costs ||A_ab| - 1| if
    it gets the sign of A_ab. The best π is therefore an assignment:

        π = argmin Σ_a ||A_aπ(a)| - 1| - |A_aπ(a)|

    Args:
        matrix: Matrix A `[d, d]`.
        solver: `"assignment"` (default), as above; `"milp"`: the integer program of the paper
            (equation 9), which gives the same distance and takes a thousand times as long.

    Example:
        >>> nearest_signed_permutation([[0.1, -0.7], [0.9, 0.3]])
        array([[ 0., -1.],
               [ 1.,  0.]])
    """
    from scipy.optimize import linear_sum_assignment

    A = np.asarray(matrix, np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise SelectionError.must("matrix", "be square", list(A.shape))
    if solver not in SOLVERS:
        raise UnknownNameError("solver", solver, SOLVERS)
    if solver == "milp":
        return _by_integer_program(A)
    size = np.abs(A)
    places = linear_sum_assignment(np.abs(size - 1) - size)
    nearest = np.zeros_like(A)
    nearest[places] = np.where(A[places] < 0, -1.0, 1.0)
    return nearest


def _by_integer_program(A: np.ndarray) -> np.ndarray:
    """Minimise Σ D over P = P⁺ - P⁻, with ±(P - A) ≤ D and rows and columns of P⁺ + P⁻ of sum 1.

    The unknowns are P⁺, P⁻ (0 or 1) and D, one after the other, each row by row.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import bmat, eye, kron

    d, one = len(A), eye(A.size)
    each_row, each_column = kron(eye(d), np.ones((1, d))), kron(np.ones((1, d)), eye(d))
    within = bmat([[one, -one, -one], [-one, one, -one]], format="csr")
    once = bmat([[part, part, 0 * part] for part in (each_row, each_column)], format="csr")
    found = milp(
        np.repeat([0.0, 0.0, 1.0], A.size),
        integrality=np.repeat([1, 1, 0], A.size),
        bounds=Bounds(0, np.repeat([1.0, 1.0, np.inf], A.size)),
        constraints=[
            LinearConstraint(within, ub=np.concatenate([A.ravel(), -A.ravel()])),
            LinearConstraint(once, 1, 1),
        ],
    )
    positive, negative, _ = found.x.round().reshape(3, d, d)
    return positive - negative


def _square(A: np.ndarray) -> np.ndarray:
    """Pad with rows or columns of zeros to a square matrix."""
    rows, columns = A.shape
    size = max(rows, columns)
    return np.pad(A, ((0, size - rows), (0, size - columns)))
