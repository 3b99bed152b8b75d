"""Independent component analysis of sparse sources by variational inference with any β.

    z_k ~ Student-t(ν),    x | z ~ N(W z, σ² I),    q(z) = Π_k N(z_k; μ_k, τ_k²) for each x

There is no encoder network: every data point has its own means and scales.

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

__all__ = ["FREEDOM", "Posteriors", "Sparse", "draw", "free_energy", "gradients", "learn"]

FREEDOM = 3.5
"""Degrees of freedom ν of the sources, which are sparse and have infinite kurtosis."""
NODES, SHARES = np.polynomial.hermite_e.hermegauss(24)
SHARES = SHARES / SHARES.sum()
"""Nodes and weights of Gauss–Hermite quadrature for a normal distribution."""
CONVERGED = 1e-9
"""Gain in nats per data point below which the posteriors have converged."""
MOVES, LONGEST = 4, 0.3
"""Posterior updates per step, and the largest change of log τ in one update."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Data with their true sources and weights.

    Args:
        observed: Data x `[N, d]`.
        sources: Sources z `[N, K]`.
        weights: Weights W `[d, K]`.
        noise: Noise variance σ².
    """

    observed: np.ndarray
    sources: np.ndarray
    weights: np.ndarray
    noise: float


@dataclass(frozen=True, eq=False)
class Posteriors:
    """Factorised posteriors of all data points.

    Args:
        means: Means μ `[N, K]`.
        log_scales: Log standard deviations log τ `[N, K]`.
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
    """Sample two-dimensional data from components in given directions.

    Args:
        seed: Seed of sources and noise.
        count: Number of data points N.
        noise: Noise variance σ².
        degrees: Direction of each component, in degrees.
        norm: Length of all weights.

    Notes:
        The paper does not publish directions, lengths, noise or N; these values are ours.
    """
    if count < 1 or not noise > 0:
        raise TheoryError(
            f"count must be at least 1 and noise positive, got {count=}, {noise=:g}",
            subject="count" if count < 1 else "noise",
            value=count if count < 1 else noise,
        )
    rng = numpy_rng(seed)
    angles = np.deg2rad(degrees)
    weights = norm * np.stack([np.cos(angles), np.sin(angles)])
    sources = rng.standard_t(FREEDOM, (count, len(angles)))
    observed = sources @ weights.T + np.sqrt(noise) * rng.standard_normal((count, 2))
    return Sparse(observed, sources, weights, noise)


def free_energy(
    observed: np.ndarray,
    weights: np.ndarray,
    noise: float,
    posteriors: Posteriors,
    beta: float = 1.0,
) -> np.ndarray:
    """Compute the free energy of each data point, `[N]`, in its form with 1/β observations.

        F = [-½ d log(2π σ²) - (‖x - W μ‖² + Σ_k τ_k² ‖w_k‖²) / 2σ²] / β
            + Σ_k {E_q log t_ν(z_k) + log τ_k + ½ log(2π e)}

    Only the expectation is approximate: an integral over one normal variable, by Gauss–Hermite
    quadrature with 24 nodes.
    """
    check_beta(beta)
    scales = np.exp(posteriors.log_scales)
    error = ((observed - posteriors.means @ weights.T) ** 2).sum(1)
    error = error + scales**2 @ (weights**2).sum(0)
    likelihood = -0.5 * (observed.shape[1] * np.log(2 * np.pi * noise) + error / noise)
    entropy = posteriors.log_scales + 0.5 * np.log(2 * np.pi * np.e)
    return likelihood / beta + (_expected_prior(posteriors.means, scales) + entropy).sum(1)


def gradients(
    observed: np.ndarray,
    weights: np.ndarray,
    noise: float,
    posteriors: Posteriors,
    beta: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the gradients of each free energy with respect to μ and log τ, both `[N, K]`."""
    scales = np.exp(posteriors.log_scales)
    towards = (observed - posteriors.means @ weights.T) @ weights / (noise * beta)
    shrinking = scales**2 * (weights**2).sum(0) / (noise * beta)
    prior_mean, prior_scale = _prior_slopes(posteriors.means, scales)
    return towards + prior_mean, 1 - shrinking + prior_scale * scales


def learn(data: Sparse, beta: float = 1.0, steps: int = 1000, *, progress: bool = False) -> Ascent:
    """Learn the weights, starting from the true ones, such that the free energy never decreases.

    Means start at the true sources, and the posteriors converge at the true weights before the
    first step. Each step computes the best W for the posteriors,

        W ← (Σ_n x μᵀ) (Σ_n μ μᵀ + diag Σ_n τ²)⁻¹

    followed by four gradient updates of all posteriors. Updates of μ are preconditioned by a bound
    of the curvature, Wᵀ W / (β σ²) + (ν + 1)/ν I; updates of log τ are at most 0.3. A data point
    whose free energy would decrease keeps its posterior, and its step size for log τ is halved.
    """
    check_count("steps", steps, 1, 1_000_000)
    learner = _Learner(data, beta)
    learner.settle()
    path, values = [learner.weights], [learner.values.mean()]
    counted = range(steps)
    for _ in track(counted, f"learning at β = {beta:g}") if progress else counted:
        learner.step()
        path.append(learner.weights)
        values.append(learner.values.mean())
    return Ascent(np.stack(path), np.array(values))


class _Learner:
    """Weights and posteriors during training."""

    def __init__(self, data: Sparse, beta: float) -> None:
        self.observed, self.noise, self.beta = data.observed, data.noise, beta
        self.weights = data.weights
        self.posteriors = Posteriors(data.sources, np.full_like(data.sources, -2.0))
        self.reach = np.full((len(data.observed), 1), LONGEST)
        self.values = self._free_energy(self.posteriors)

    def settle(self) -> None:
        """Update the posteriors until the free energy converges."""
        before = -np.inf
        while self.values.mean() - before > CONVERGED:
            before = self.values.mean()
            self._move()

    def step(self) -> None:
        means, scales = self.posteriors.means, np.exp(self.posteriors.log_scales)
        second = means.T @ means + np.diag((scales**2).sum(0))
        self.weights = np.linalg.solve(second, means.T @ self.observed).T
        self.values = self._free_energy(self.posteriors)
        self._move()

    def _move(self) -> None:
        moved = self.posteriors
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
        self.posteriors = Posteriors(
            np.where(rows, moved.means, self.posteriors.means),
            np.where(rows, moved.log_scales, self.posteriors.log_scales),
        )
        self.values = np.where(better, values, self.values)
        self.reach = np.where(rows, np.minimum(1.2 * self.reach, LONGEST), self.reach / 2)

    def _free_energy(self, posteriors: Posteriors) -> np.ndarray:
        return free_energy(self.observed, self.weights, self.noise, posteriors, self.beta)


def _expected_prior(means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """E log t_ν(z) for z ~ N(μ, τ²), elementwise."""
    constant = gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - 0.5 * np.log(FREEDOM * np.pi)
    z = means.ravel() + scales.ravel() * NODES[:, None]
    logs = SHARES @ np.log(1 + z**2 / FREEDOM)
    return constant - (FREEDOM + 1) / 2 * logs.reshape(means.shape)


def _prior_slopes(means: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Derivatives of E log t_ν(z) with respect to μ and τ, `[2, N, K]`."""
    z = means.ravel() + scales.ravel() * NODES[:, None]
    slopes = np.stack([SHARES, SHARES * NODES]) @ (z / (FREEDOM + z**2))
    return -(FREEDOM + 1) * slopes.reshape(2, *means.shape)
