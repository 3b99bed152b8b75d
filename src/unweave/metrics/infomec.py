"""InfoMEC: modularity, explicitness and compactness, based on mutual information."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unweave.errors import UnknownNameError
from unweave.io.arguments import numpy_rng
from unweave.metrics.base import Metric, standardised, table
from unweave.metrics.tools.discretise import bins, entropy, mutual_information

__all__ = ["INFOMEC", "infomec"]

BINS = 20
SCORES = (
    "infomec",
    "modularity",
    "explicitness",
    "compactness",
    "binned_modularity",
    "binned_compactness",
)


class Form(NamedTuple):
    """How one of the published programs computes InfoMEC.

    Args:
        neighbours: Number of neighbours in the estimate of information.
        spread: Function from codes `[n, d]` to the spread of each, `[d]`.
        share: A continuous code is active if its spread exceeds this share of the largest.
        least: A discrete code is active if its spread exceeds this value; None for the same rule
            as for continuous codes.
        one_hot: Whether the classifier reads discrete codes as one-hot.
        drops_empty: Whether InfoM leaves out codes without information on any factor.
    """

    neighbours: int
    spread: Callable[[np.ndarray], np.ndarray]
    share: float
    least: float | None = 0.0
    one_hot: bool = True
    drops_empty: bool = False

    def active(self, codes: np.ndarray, discrete: bool) -> np.ndarray:
        """Return which codes are active, `[d]`."""
        spread = self.spread(codes)
        relative = not discrete or self.least is None
        return spread > (spread.max() * self.share if relative else self.least)


def value_range(codes: np.ndarray) -> np.ndarray:
    """Return the range of each code."""
    return np.ptp(codes, axis=0)


def quartile_range(codes: np.ndarray) -> np.ndarray:
    """Return the range of the middle half of each code."""
    low, high = np.percentile(codes, [25, 75], axis=0)
    return high - low


FORMS = {
    "standalone": Form(10, value_range, 1 / 20),
    "qlae": Form(3, value_range, 1 / 8, least=None, one_hot=False, drops_empty=True),
    "tripod": Form(10, quartile_range, 1 / 10, least=0.1),
}


def infomec(
    codes: Any,
    factors: Any,
    seed: int = 0,
    *,
    discrete_codes: bool = False,
    form: str = "standalone",
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
        form: Which of the three published programs to follow: `"standalone"` (the default),
            `"qlae"`, or `"tripod"`.

    Returns:
        `infomec` and `modularity`, both InfoM; `explicitness`; `compactness`; `num_active`, the
        number of active codes (those whose range exceeds 1/20 of the largest range); and
        `binned_modularity` and `binned_compactness`, from counts in 20 bins per code.

    Notes:
        As published: the information of standardised continuous codes is scikit-learn's
        nearest-neighbour estimate with 10 neighbours. The classifier is an unpenalised, balanced
        multinomial logistic regression with at most 100 iterations, scored on its training rows.
        The three scores are not meant to be averaged, so the headline score is one of them.
        Where the published code divides 0 by 0, the score here is 0: for codes without information
        on any factor, for factors that no code encodes, and if no code is active. A single factor
        is modular, and a single active code compact, if there is any information.

        The form `"qlae"` uses 3 neighbours, codes whose range exceeds 1/8 of the largest (also if
        they are discrete), standardised instead of one-hot codes in the classifier, and leaves
        codes without information out of InfoM. The form `"tripod"` uses the interquartile range:
        more than 1/10 of the largest, or more than 0.1 for discrete codes.

        Nearest neighbours find information in differences that are far too small to matter, if
        codes have no noise: InfoM of a perfect code falls from 0.99 to 0.40 if every code contains
        0.1 % of another factor. Compare deterministic codes by `binned_modularity`.

    References:
        Hsu et al., Disentanglement via Latent Quantization, arXiv:2305.18378.

    Example:
        >>> factors = np.indices((4, 5, 10, 10)).reshape(4, -1).T[:, :3]
        >>> noise = np.random.default_rng(0).normal(scale=0.1, size=factors.shape)
        >>> {name: round(score, 2) for name, score in infomec(factors + noise, factors).items()}
        {'infomec': 1.0, 'modularity': 1.0, 'explicitness': 1.0, 'compactness': 1.0,
        'num_active': 3.0, 'binned_modularity': 0.98, 'binned_compactness': 0.98}
    """
    if form not in FORMS:
        raise UnknownNameError("form of InfoMEC", form, FORMS)
    rules, generator = FORMS[form], numpy_rng(seed)
    rows = table(codes, factors).draw(generator)
    z = rows.codes.astype(np.float64)
    active = rules.active(z, discrete_codes)
    if not active.any():
        return {**dict.fromkeys(SCORES, 0.0), "num_active": 0.0}
    counted = _counted_information(
        z[:, active] if discrete_codes else bins(z[:, active], BINS), rows.factors
    )
    if discrete_codes:
        known = counted
    else:
        tie_breaks = int(generator.integers(2**32))
        known = _neighbour_information(
            standardised(z)[:, active], rows.factors, rules.neighbours, tie_breaks
        )
    inputs = _one_hot(z) if discrete_codes and rules.one_hot else standardised(z)
    modularity, compactness = _modularity_and_compactness(known, rows.factors, rules)
    binned = _modularity_and_compactness(counted, rows.factors, rules)
    return {
        "infomec": modularity,
        "modularity": modularity,
        "explicitness": float(np.mean([_explicitness(inputs, v) for v in rows.factors.T])),
        "compactness": compactness,
        "num_active": float(active.sum()),
        "binned_modularity": binned[0],
        "binned_compactness": binned[1],
    }


def _modularity_and_compactness(
    known: np.ndarray, factors: np.ndarray, rules: Form
) -> tuple[float, float]:
    """Return InfoM and InfoC for information `[K, A]`."""
    shares = known / entropy(factors)[:, None]
    of_codes = shares.T
    if rules.drops_empty and of_codes.any():
        of_codes = of_codes[of_codes.any(1)]
    return concentration(of_codes), concentration(shares)


def concentration(shares: np.ndarray) -> float:
    """Return the share of each row's sum in its largest entry: 0 if even, 1 if in one entry."""
    columns = shares.shape[1]
    totals = shares.sum(1)
    even = np.full(len(shares), 1 / columns)
    largest = np.divide(shares.max(1), totals, out=even, where=totals > 0)
    if columns == 1:
        return float((totals > 0).mean())
    return float((largest.mean() - 1 / columns) / (1 - 1 / columns))


def _neighbour_information(
    codes: np.ndarray, factors: np.ndarray, neighbours: int, seed: int
) -> np.ndarray:
    from sklearn.feature_selection import mutual_info_classif

    options = {"discrete_features": False, "n_neighbors": neighbours, "random_state": seed % 2**32}
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
