"""InfoMEC: modularity, explicitness and compactness, based on mutual information."""

import warnings
from typing import Any

import numpy as np

from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, standardised, table
from unweave.metrics.tools.discretise import entropy, mutual_information

__all__ = ["INFOMEC", "infomec"]

NEIGHBOURS = 10
ACTIVE_SHARE = 1 / 20


def infomec(
    codes: Any, factors: Any, seed: int = 0, *, discrete_codes: bool = False
) -> dict[str, float]:
    """Modularity, explicitness and compactness based on mutual information.

        N_kj = I(v_k; z_j) / H(v_k), over the active codes j
        InfoM = (mean_j max_k N_kj / Σ_k N_kj - 1/K) / (1 - 1/K)
        InfoC = (mean_k max_j N_kj / Σ_j N_kj - 1/A) / (1 - 1/A),    A active codes
        InfoE = mean_k [1 - CE(v_k | z) / CE(v_k)],    CE the log-loss of a linear classifier

    Args:
        codes: Codes `[n, d]`, mean or sampled.
        factors: Factors `[n, K]`.
        seed: Random seed for sampling 10,000 rows if there are more, and for breaking ties.
        discrete_codes: Whether each code has only a few values, like quantised latents. If so,
            information is computed from counts, every varying code is active, and the linear
            classifier uses one-hot codes.

    Returns:
        `infomec` and `modularity`, both InfoM; `explicitness`; `compactness`; and `num_active`,
        the number of codes whose range exceeds 1/20 of the largest range.

    Notes:
        As published: the information of standardised continuous codes is scikit-learn's
        nearest-neighbour estimate with 10 neighbours. The classifier is an unpenalised, balanced
        multinomial logistic regression with at most 100 iterations, scored on its training rows.
        The three scores are not meant to be averaged, so the headline score is one of them.
        Where the published code divides 0 by 0, the score here is 0: for codes without information
        on any factor, for factors that no code encodes, and if no code is active. A single factor
        is modular, and a single active code compact, if there is any information.

    References:
        Hsu et al., Disentanglement via Latent Quantization, arXiv:2305.18378.

    Example:
        >>> factors = np.indices((4, 5, 10)).reshape(3, -1).T
        >>> noise = np.random.default_rng(0).normal(scale=0.1, size=factors.shape)
        >>> {name: round(score, 2) for name, score in infomec(factors + noise, factors).items()}
        {'infomec': 1.0, 'modularity': 1.0, 'explicitness': 1.0, 'compactness': 1.0,
        'num_active': 3.0}
    """
    generator = numpy_rng(seed)
    rows = table(codes, factors).draw(generator)
    z = rows.codes.astype(np.float64)
    ranges = np.ptp(z, axis=0)
    active = ranges > (0 if discrete_codes else ranges.max() * ACTIVE_SHARE)
    if not active.any():
        nothing = dict.fromkeys(("infomec", "modularity", "explicitness", "compactness"), 0.0)
        return {**nothing, "num_active": 0.0}
    if discrete_codes:
        inputs, known = _one_hot(z), _counted_information(z[:, active], rows.factors)
    else:
        inputs = standardised(z)
        tie_breaks = int(generator.integers(2**32))
        known = _neighbour_information(inputs[:, active], rows.factors, tie_breaks)
    shares = known / entropy(rows.factors)[:, None]
    modularity, compactness = concentration(shares.T), concentration(shares)
    return {
        "infomec": modularity,
        "modularity": modularity,
        "explicitness": float(np.mean([_explicitness(inputs, v) for v in rows.factors.T])),
        "compactness": compactness,
        "num_active": float(active.sum()),
    }


def concentration(shares: np.ndarray) -> float:
    """Return the share of each row's sum in its largest entry: 0 if even, 1 if in one entry."""
    columns = shares.shape[1]
    totals = shares.sum(1)
    even = np.full(len(shares), 1 / columns)
    largest = np.divide(shares.max(1), totals, out=even, where=totals > 0)
    if columns == 1:
        return float((totals > 0).mean())
    return float((largest.mean() - 1 / columns) / (1 - 1 / columns))


def _neighbour_information(codes: np.ndarray, factors: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.feature_selection import mutual_info_classif

    options = {"discrete_features": False, "n_neighbors": NEIGHBOURS, "random_state": seed % 2**32}
    return np.stack([mutual_info_classif(codes, v, **options) for v in factors.T])


def _counted_information(codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    classes = [np.unique(column, return_inverse=True)[1] for column in codes.T]
    return mutual_information(factors, np.stack(classes, 1))


def _explicitness(inputs: np.ndarray, classes: np.ndarray) -> float:
    """Compute 1 - (log-loss of a linear classifier) / (log-loss without inputs), same rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    classes = np.unique(classes, return_inverse=True)[1]
    model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100, tol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, classes)
    # With balanced weights, the best prediction without inputs is uniform.
    blind = np.log(classes.max() + 1)
    return float(1 - log_loss(classes, model.predict_proba(inputs)) / blind)


def _one_hot(codes: np.ndarray) -> np.ndarray:
    return np.hstack([(column[:, None] == np.unique(column)).astype(float) for column in codes.T])


INFOMEC = Metric(
    function=infomec,
    label="InfoMEC",
    explanation="Does a latent encode one factor, is a factor in one latent, and can it be "
    "decoded linearly?",
    failure="It ignores the amount of information: a code with a trace of one factor is modular.",
)
