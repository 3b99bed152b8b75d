"""Biases of factorised variational inference, in models small enough to solve exactly.

Four experiments, after Appendix B of *Independent Subspace Analysis for Unsupervised Learning of
Disentangled Representations* (arXiv:1909.05063): `rotation`, `over_complete` and `effect_of_beta`
use factor analysis, `components` uses sparse sources. `vi_bias_figures` draws them.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from unweave.papers.isa_vae.theory import factor_analysis as fa
from unweave.papers.isa_vae.theory import ica
from unweave.papers.theory import Ascent, TheoryError

__all__ = [
    "BETAS",
    "BUDGET",
    "COUNT",
    "ML_NOISE",
    "ML_WEIGHTS",
    "SPARE_NOISE",
    "components",
    "effect_of_beta",
    "free_norms",
    "learned_spare",
    "over_complete",
    "rotated",
    "rotation",
    "spare_weights",
]

COUNT = 100
"""Number of data points over which the published nats are summed."""
ML_WEIGHTS = np.diag([0.412590, 0.131014])
ML_NOISE = np.full(2, 0.01)
"""Noise of the rotated factor analysis.

The paper publishes neither weights nor noise. Both are fitted to its two numbers, -17.82 and
-57.16 nats, so reproducing these numbers does not confirm the weights.
"""
SPARE_NOISE = np.full(2, 0.1)
ANGLES = np.linspace(0, np.pi, 145)
SHARES = np.linspace(0, 0.5, 51)
BETAS = (1.0, 2.0, 5.0, 10.0)
BUDGET = 1000
"""Steps of `components` at which β = 1 is compared with β = 5."""


def rotated(angle: float) -> np.ndarray:
    """Weights W R(θ) `[2, 2]`: a rotation of z, which does not change W Wᵀ.

    Notes:
        The paper prints R(θ) W, which rotates the data and changes the likelihood.
    """
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return ML_WEIGHTS @ R


def rotation(
    betas: Sequence[float] = (1.0,), angles: Sequence[float] | np.ndarray = ANGLES
) -> pd.DataFrame:
    """Experiment 1: log-likelihood and free energy as the best weights are rotated.

    Returns:
        A row per β and angle: `beta`, `angle`, and for all 100 data points, in nats,
        `log_likelihood`, `free_energy` and `gap`, the cost of the factorised posterior.

    Example:
        >>> rotation(angles=[0, np.pi / 4]).round(2)[["log_likelihood", "free_energy", "gap"]]
           log_likelihood  free_energy    gap
        0          -17.82       -17.82   0.00
        1          -17.82       -57.16  39.34
    """
    second = ML_WEIGHTS @ ML_WEIGHTS.T + np.diag(ML_NOISE)
    rows = [
        {"beta": beta, "angle": angle} | _nats(rotated(angle), ML_NOISE, second, beta)
        for beta in betas
        for angle in angles
    ]
    return pd.DataFrame(rows)


def spare_weights(a: float) -> np.ndarray:
    """Three components for two dimensions, `[2, 3]`; W Wᵀ = I for all a.

        W = [[a, √(1 - a²), 0], [0, 0, 1]]

    Notes:
        Equation 17 of the paper is illegible; this follows its description in the text.
    """
    if not 0 <= a <= 1:
        raise TheoryError(f"a must be between 0 and 1, got {a:g}", subject="a", value=a)
    return np.array([[a, np.sqrt(1 - a**2), 0.0], [0.0, 0.0, 1.0]])


def over_complete(
    betas: Sequence[float] = (1.0,), shares: Sequence[float] | np.ndarray = SHARES
) -> pd.DataFrame:
    """Experiment 2: log-likelihood and free energy as two components share one direction.

    Returns:
        A row per β and a: `beta`, `a`, and the nats of `rotation`.
    """
    rows = [
        {"beta": beta, "a": a} | _nats(spare_weights(a), SPARE_NOISE, _spare_second(), beta)
        for beta in betas
        for a in shares
    ]
    return pd.DataFrame(rows)


def learned_spare(beta: float = 1.0, steps: int = 30) -> Ascent:
    """Learn the weights of experiment 2 by coordinate ascent, starting from a = ½."""
    return fa.ascend(spare_weights(0.5), SPARE_NOISE, _spare_second(), beta, steps)


def effect_of_beta(betas: Sequence[float] = BETAS) -> pd.DataFrame:
    """Experiment 3: the effect of β in factor analysis.

    Returns:
        A row per β. `angle`: angle in [0, π/2) with the largest free energy; `best_a`: a with the
        largest free energy in experiment 2; `amplitude`: range of the free energy of 100 data
        points over angles, in nats; `beta_amplitude`: β times `amplitude`, in the units of the
        β-VAE objective; `sd_0`, `sd_1`: standard deviations of the posterior at θ = 0; `norm_0`,
        `norm_1`: lengths of freely fitted weights.

    Notes:
        The paper states that fits are identical for every β. This holds for directions. Free
        weights become shorter with β, ‖w_k‖² = max(c_k - β σ², 0), and vanish at β = c_k / σ².
    """
    rows = []
    for beta in betas:
        rotations = rotation([beta], np.arange(180) * np.pi / 360)
        spare = over_complete([beta])
        amplitude = np.ptp(rotations["free_energy"])
        sd = np.sqrt(fa.posterior(ML_WEIGHTS, ML_NOISE, beta).variances)
        norms = free_norms(beta)
        rows.append(
            {
                "beta": beta,
                "angle": rotations["angle"][rotations["free_energy"].idxmax()],
                "best_a": spare["a"][spare["free_energy"].idxmax()],
                "amplitude": amplitude,
                "beta_amplitude": beta * amplitude,
                "sd_0": sd[0],
                "sd_1": sd[1],
                "norm_0": norms[0],
                "norm_1": norms[1],
            }
        )
    return pd.DataFrame(rows)


def free_norms(beta: float) -> np.ndarray:
    """Lengths of both weights of experiment 1 when fitted freely, `[2]`."""
    second = ML_WEIGHTS @ ML_WEIGHTS.T + np.diag(ML_NOISE)
    return np.linalg.norm(fa.best_weights(second, ML_NOISE[0], beta), axis=0)


def components(
    beta: float = 1.0, steps: int = BUDGET, seed: int = 0, *, progress: bool = False
) -> Ascent:
    """Figure 1: learn three sparse components in two dimensions, starting from the true ones."""
    return ica.learn(ica.draw(seed), beta, steps, progress=progress)


def _nats(
    weights: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float
) -> dict[str, float]:
    return {
        "log_likelihood": COUNT * fa.log_likelihood(weights, noise, second),
        "free_energy": COUNT * fa.free_energy(weights, noise, second, beta).value,
        "gap": COUNT * fa.gap(weights, noise, beta),
    }


def _spare_second() -> np.ndarray:
    return np.eye(2) + np.diag(SPARE_NOISE)
