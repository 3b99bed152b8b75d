"""DtO: how far the best linear map between two models is from a signed permutation."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.errors import UnknownNameError
from unweave.select.agreement import by_agreement
from unweave.select.latents import ROWS, Latents, SelectionError, latents_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.evaluation.runs import Models

__all__ = [
    "NORMS",
    "SOLVERS",
    "distance_to_orthogonality",
    "dto",
    "dto_pairs",
    "nearest_signed_permutation",
]

NORMS = ("frobenius", "mean_l1")
SOLVERS = ("assignment", "milp")


def dto(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = ROWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by the median distance to orthogonality of linear maps; less is better.

        A_ij = argmin_A Σ_x ‖A z^i - z^j‖²,    score_j = median_i ‖A_ij - P(A_ij)‖_F / √d

    P(A) is the nearest signed permutation. A map of zeros has distance 1, whatever the number of
    latents.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: What trained models encode.
        compare: `"all"`, or `"same"` hyperparameters.
        rows: How many images trained models encode.
        seed: Of the draw of images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Notes:
        The paper maps codes as they are, passive latents included, and its two definitions
        (see `distance_to_orthogonality`) depend on d; a ranking must not. So codes are
        standardised, only informative latents are mapped, and the distance is divided by √d. The
        matrix of two models with different numbers of informative latents is filled up with
        zeros: each latent without partner adds 1 to the squared distance.

    References:
        Improving the Unsupervised Disentangled Representation Learning with VAE Ensemble, under
        review 2020.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2))
        >>> mixed = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> dto(np.stack([mixed, z, -3 * z[:, ::-1], z]))["score"].round(2).tolist()
        [0.0, 0.0, 0.0, 0.63]
    """
    latents = latents_of(models, data, rows, seed)
    return by_agreement(
        latents,
        dto_pairs(latents),
        compare,
        lambda score, others: (
            f"maps from {others} are {score:.2f} away from signed permutations in the median"
        ),
        higher_is_better=False,
    )


def dto_pairs(latents: Latents) -> np.ndarray:
    """The distance of the best linear map from each model i to each model j, `[M, M]`."""
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
    """Both published distances of a matrix to its nearest signed permutation.

        frobenius = ‖A - P(A)‖_F,    mean_l1 = Σ |A - P(A)| / d²

    Args:
        matrix: A `[d, d]`.

    Returns:
        `frobenius`, `mean_l1`.

    Notes:
        The paper's text defines the first, its equation 10 the second. The second falls with d by
        itself: random orthogonal matrices have 0.24 at d = 10 and 0.15 at d = 32.

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
    """The signed permutation P(A) nearest to a matrix in the sum of absolute differences.

    With the permutation π fixed, entries off π cost |A_ab| whatever else is chosen, and an entry
    on it costs ||A_ab| - 1| with the sign of A_ab, so that an assignment decides:

        π = argmin Σ_a ||A_aπ(a)| - 1| - |A_aπ(a)|

    Args:
        matrix: A `[d, d]`.
        solver: `"assignment"`, as above; `"milp"`: the integer program of the paper (equation 9),
            which gives the same distance and takes a thousand times as long.

    Example:
        >>> nearest_signed_permutation([[0.1, -0.7], [0.9, 0.3]])
        array([[ 0., -1.],
               [ 1.,  0.]])
    """
    from scipy.optimize import linear_sum_assignment

    A = np.asarray(matrix, np.float64)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise SelectionError(f"a signed permutation is square, but got {list(A.shape)}")
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
    """P = P⁺ - P⁻ that minimises Σ D, with ±(P - A) ≤ D and rows and columns of P⁺ + P⁻ of sum 1.

    Unknowns are P⁺, P⁻ (0 or 1) and D, one after the other, each row by row.
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
    """Filled up with rows or columns of zeros."""
    rows, columns = A.shape
    size = max(rows, columns)
    return np.pad(A, ((0, size - rows), (0, size - columns)))
