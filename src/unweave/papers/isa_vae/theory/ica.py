"""Independent components of sparse sources, learned by variational inference with any β.

    z_k ~ Student-t(ν),    x | z ~ N(W z, σ² I),    q(z) = Π_k N(z_k; μ_k, τ_k²) for each x

There is no network: every data point has means and scales of its own.

Shapes: N data points, d observed dimensions, K components; x `[N, d]`, W `[d, K]`, μ and log τ
`[N, K]`. All nats are per data point.

References:
    Independent Subspace Analysis for Unsupervised Learning of Disentangled Representations,
    Appendix B.7 and B.8, arXiv:1909.05063.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from unweave.io.arguments import check_count, numpy_rng
from unweave.papers.theory import Ascent, TheoryError, check_beta
from unweave.progress import track

__all__ = ["FREEDOM", "Beliefs", "Sparse", "draw", "free_energy", "gradients", "learn"]

FREEDOM = 3.5
"""ν of the sources: sparse, without kurtosis."""
NODES, SHARES = np.polynomial.hermite_e.hermegauss(24)
SHARES = SHARES / SHARES.sum()
"""Where and with which weights Gauss and Hermite integrate over a normal distribution."""
SETTLED = 1e-9
"""Nats per data point: less than this, and the posteriors have settled."""
MOVES, LONGEST = 4, 0.3
"""Of the posteriors in each step, and how far log τ goes at most in one move."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Data with the truth behind them.

    Args:
        observed: x `[N, d]`.
        sources: z `[N, K]`.
        weights: W `[d, K]`.
        noise: σ².
    """

    observed: np.ndarray
    sources: np.ndarray
    weights: np.ndarray
    noise: float


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The factorised posteriors of all data points.

    Args:
        means: μ `[N, K]`.
        log_scales: log τ `[N, K]`.
    """

    means: np.ndarray
    log_scales: np.ndarray


def draw(
    seed: int,
    count: int = 300,
    noise: float = 0.01,
    degrees: Sequence[float] = (0, 60, 120),
    norm: float = 3.0,
) -> Sparse:
    """Draw data of two dimensions from components in given directions.

    Args:
        seed: Of sources and noise.
        count: N.
        noise: σ².
        degrees: The directions, one for each component.
        norm: The length of all weights.

    Notes:
        The paper publishes neither directions, nor lengths, noise or N; these are ours.
    """
    if count < 1 or not noise > 0:
        raise TheoryError(f"data are at least one point with noise, but got {count=}, {noise=:g}")
    rng = numpy_rng(seed)
    angles = np.deg2rad(degrees)
    weights = norm * np.stack([np.cos(angles), np.sin(angles)])
    sources = rng.standard_t(FREEDOM, (count, len(angles)))
    observed = sources @ weights.T + np.sqrt(noise) * rng.standard_normal((count, 2))
    return Sparse(observed, sources, weights, noise)


def free_energy(
    observed: np.ndarray, weights: np.ndarray, noise: float, beliefs: Beliefs, beta: float = 1.0
) -> np.ndarray:
    """The free energy of each data point, `[N]`, in its form with 1/β observations.

        F = [-½ d log(2π σ²) - (‖x - W μ‖² + Σ_k τ_k² ‖w_k‖²) / 2σ²] / β
            + Σ_k {E_q log t_ν(z_k) + log τ_k + ½ log(2π e)}

    All is exact but the expectation, an integral over one normal variable by 24 nodes of Gauss and
    Hermite.

    Args:
        observed: x `[N, d]`.
        weights: W `[d, K]`.
        noise: σ².
        beliefs: The posteriors.
        beta: At 1 this is a lower bound of log p(x).
    """
    check_beta(beta)
    scales = np.exp(beliefs.log_scales)
    error = ((observed - beliefs.means @ weights.T) ** 2).sum(1)
    error = error + scales**2 @ (weights**2).sum(0)
    likelihood = -0.5 * (observed.shape[1] * np.log(2 * np.pi * noise) + error / noise)
    entropy = beliefs.log_scales + 0.5 * np.log(2 * np.pi * np.e)
    return likelihood / beta + (_expected_prior(beliefs.means, scales) + entropy).sum(1)


def gradients(
    observed: np.ndarray, weights: np.ndarray, noise: float, beliefs: Beliefs, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of each data point's free energy to its μ and its log τ, both `[N, K]`."""
    scales = np.exp(beliefs.log_scales)
    towards = (observed - beliefs.means @ weights.T) @ weights / (noise * beta)
    shrinking = scales**2 * (weights**2).sum(0) / (noise * beta)
    prior_mean, prior_scale = _prior_slopes(beliefs.means, scales)
    return towards + prior_mean, 1 - shrinking + prior_scale * scales


def learn(data: Sparse, beta: float = 1.0, steps: int = 1000, *, progress: bool = False) -> Ascent:
    """Learn the weights from the true ones on, such that the free energy never falls.

    Means begin at the true sources, and the posteriors settle at the true weights before the first
    step. A step is the best W for the posteriors,

        W ← (Σ_n x μᵀ) (Σ_n μ μᵀ + diag Σ_n τ²)⁻¹

    and then four moves of all posteriors up their gradients. Moves of μ are scaled by a bound of
    the curvature, Wᵀ W / (β σ²) + (ν + 1)/ν I; moves of log τ are at most 0.3. A data point whose
    free energy fell keeps its old posterior, and its log τ moves half as far next time.

    Args:
        data: See `draw`.
        beta: See `free_energy`.
        steps: How many.
        progress: Whether to show a bar on the terminal.
    """
    check_count("steps", steps, 1, 1_000_000)
    learner = _Learner(data, beta)
    learner.settle()
    way, values = [learner.weights], [learner.values.mean()]
    counted = range(steps)
    for _ in track(counted, f"learning at β = {beta:g}") if progress else counted:
        learner.step()
        way.append(learner.weights)
        values.append(learner.values.mean())
    return Ascent(np.stack(way), np.array(values))


class _Learner:
    """Weights and posteriors while they are learned."""

    def __init__(self, data: Sparse, beta: float) -> None:
        self.observed, self.noise, self.beta = data.observed, data.noise, beta
        self.weights = data.weights
        self.beliefs = Beliefs(data.sources, np.full_like(data.sources, -2.0))
        self.reach = np.full((len(data.observed), 1), LONGEST)
        self.values = self._free_energy(self.beliefs)

    def settle(self) -> None:
        """Move the posteriors until the free energy rises no more."""
        before = -np.inf
        while self.values.mean() - before > SETTLED:
            before = self.values.mean()
            self._move()

    def step(self) -> None:
        means, scales = self.beliefs.means, np.exp(self.beliefs.log_scales)
        second = means.T @ means + np.diag((scales**2).sum(0))
        self.weights = np.linalg.solve(second, means.T @ self.observed).T
        self.values = self._free_energy(self.beliefs)
        self._move()

    def _move(self) -> None:
        moved = self.beliefs
        curvature = self.weights.T @ self.weights / (self.noise * self.beta)
        curvature = curvature + (FREEDOM + 1) / FREEDOM * np.eye(len(curvature))
        scaling = np.linalg.inv(curvature)
        for _ in range(MOVES):
            mean, log_scale = gradients(self.observed, self.weights, self.noise, moved, self.beta)
            moved = replace(
                moved,
                means=moved.means + mean @ scaling,
                log_scales=moved.log_scales + self.reach * np.clip(log_scale, -1, 1),
            )
        values = self._free_energy(moved)
        better = values >= self.values
        rows = better[:, None]
        self.beliefs = Beliefs(
            np.where(rows, moved.means, self.beliefs.means),
            np.where(rows, moved.log_scales, self.beliefs.log_scales),
        )
        self.values = np.where(better, values, self.values)
        self.reach = np.where(rows, np.minimum(1.2 * self.reach, LONGEST), self.reach / 2)

    def _free_energy(self, beliefs: Beliefs) -> np.ndarray:
        return free_energy(self.observed, self.weights, self.noise, beliefs, self.beta)


def _expected_prior(means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """E log t_ν(z) for z ~ N(μ, τ²), elementwise."""
    constant = gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - 0.5 * np.log(FREEDOM * np.pi)
    z = means.ravel() + scales.ravel() * NODES[:, None]
    logs = SHARES @ np.log(1 + z**2 / FREEDOM)
    return constant - (FREEDOM + 1) / 2 * logs.reshape(means.shape)


def _prior_slopes(means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The derivatives of E log t_ν(z) to μ and to τ, `[2, N, K]`."""
    z = means.ravel() + scales.ravel() * NODES[:, None]
    slopes = np.stack([SHARES, SHARES * NODES]) @ (z / (FREEDOM + z**2))
    return -(FREEDOM + 1) * slopes.reshape(2, *means.shape)
