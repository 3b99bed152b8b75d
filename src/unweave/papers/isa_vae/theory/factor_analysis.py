"""Factor analysis, where variational inference with any β has a closed form.

    z ~ N(0, I),    x | z ~ N(W z, D)

Shapes: d observed and K latent dimensions; weights `W [d, K]`, the diagonal `noise [d]` of D, and
the second moment of the data, `second [d, d]` = Σ_x + μ_x μ_xᵀ. All nats are per data point.

References:
    Independent Subspace Analysis for Unsupervised Learning of Disentangled Representations,
    Appendix B, arXiv:1909.05063.
"""

from dataclasses import dataclass

import numpy as np

from unweave.papers.theory import Ascent, check_beta

__all__ = [
    "FreeEnergy",
    "Posterior",
    "ascend",
    "best_weights",
    "free_energy",
    "gap",
    "gradient",
    "log_likelihood",
    "posterior",
]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is believed of z given x: the means are `recognition @ x`, the rest is always the same.

    Args:
        covariance: Of the true posterior, Λ⁻¹ `[K, K]`.
        variances: Of the best factorised one, 1 / Λ_kk `[K]`.
        recognition: R = Λ⁻¹ Wᵀ D⁻¹ / β, `[K, d]`; both have these means.
    """

    covariance: np.ndarray
    variances: np.ndarray
    recognition: np.ndarray


@dataclass(frozen=True)
class FreeEnergy:
    """The two terms of a free energy, in nats per data point.

    Args:
        reconstruction: E_q log p(x|z) / β.
        kl: KL(q(z|x) ‖ p(z)).
    """

    reconstruction: float
    kl: float

    @property
    def value(self) -> float:
        """Reconstruction less KL."""
        return self.reconstruction - self.kl


def log_likelihood(weights: np.ndarray, noise: np.ndarray, second: np.ndarray) -> float:
    """The mean log-likelihood of a data point; a rotation of z does not change it.

        log p(x) = -½ [log det(2π V) + tr(V⁻¹ C)],    V = W Wᵀ + D

    Args:
        weights: `[d, K]`.
        noise: `[d]`.
        second: C `[d, d]`.
    """
    implied = weights @ weights.T + np.diag(noise)
    volume = np.linalg.slogdet(2 * np.pi * implied)[1]
    return float(-0.5 * (volume + np.trace(np.linalg.solve(implied, second))))


def posterior(weights: np.ndarray, noise: np.ndarray, beta: float = 1.0) -> Posterior:
    """The posterior for a likelihood to the power 1/β, and its best factorised approximation.

        Λ = Wᵀ D⁻¹ W / β + I

    Args:
        weights: `[d, K]`.
        noise: `[d]`.
        beta: Above 1 it acts as more noise would: less than one observation for each z.
    """
    precision = _precision(weights, noise, beta)
    covariance = np.linalg.inv(precision)
    recognition = covariance @ (weights.T / noise) / beta
    return Posterior(covariance, 1 / np.diag(precision), recognition)


def free_energy(
    weights: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float = 1.0
) -> FreeEnergy:
    """The free energy of the best factorised posterior, in its form with 1/β observations.

        F = E_q log p(x|z) / β - KL(q ‖ p)
        E_q log p(x|z) = -½ [tr((I - W R)ᵀ D⁻¹ (I - W R) C) + log det(2π D) + tr(Wᵀ D⁻¹ W Σ_q)]
        KL = -½ [K + log det Σ_q - tr Σ_q - tr(Rᵀ R C)]

    Args:
        weights: `[d, K]`.
        noise: `[d]`.
        second: C `[d, d]`.
        beta: At 1 this is a lower bound of `log_likelihood`.

    Returns:
        Both terms; β times their difference is what a β-VAE maximises.

    Example:
        >>> weights, noise = np.eye(2), np.ones(2)
        >>> second = weights @ weights.T + np.diag(noise)
        >>> round(free_energy(weights, noise, second).value, 6)
        -3.531024
        >>> round(log_likelihood(weights, noise, second), 6)
        -3.531024
    """
    found = posterior(weights, noise, beta)
    means = found.recognition @ second @ found.recognition.T
    missed = np.eye(len(weights)) - weights @ found.recognition
    error = np.sum(missed @ second * missed, axis=1) / noise
    spread = np.sum(weights**2 * found.variances, axis=1) / noise
    likelihood = -0.5 * np.sum(error + np.log(2 * np.pi * noise) + spread)
    kl = -0.5 * np.sum(1 + np.log(found.variances) - found.variances - np.diag(means))
    return FreeEnergy(float(likelihood / beta), float(kl))


def gradient(
    weights: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float = 1.0
) -> np.ndarray:
    """The gradient of the free energy to the weights, `[d, K]`.

        ∂F/∂W = D⁻¹ [C Rᵀ - W (R C Rᵀ + Σ_q)] / β

    The posterior is the best one, so that its own dependence on W adds nothing.
    """
    found, means = _moments(weights, noise, second, beta)
    pull = second @ found.recognition.T - weights @ means
    return pull / noise[:, None] / beta


def gap(weights: np.ndarray, noise: np.ndarray, beta: float = 1.0) -> float:
    """What the factorised posterior costs: its KL divergence to the true one, per data point.

        KL(q ‖ p(z|x)) = ½ [Σ_k log Λ_kk - log det Λ]

    At β = 1 it is `log_likelihood` less `free_energy`. At any β it is 0 where the columns of
    D^-½ W are orthogonal, and all of the free energy that a rotation of z changes.
    """
    precision = _precision(weights, noise, beta)
    return float(0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1]))


def ascend(
    start: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float = 1.0, steps: int = 1000
) -> Ascent:
    """Learn the weights by coordinate ascent: the best posterior, then the best weights, in turn.

        W ← C Rᵀ (R C Rᵀ + Σ_q)⁻¹

    Args:
        start: `[d, K]`.
        noise: `[d]`, which stays.
        second: C `[d, d]`.
        beta: See `free_energy`.
        steps: How many times both.
    """
    weights = start
    way, values = [weights], [free_energy(weights, noise, second, beta).value]
    for _ in range(steps):
        found, means = _moments(weights, noise, second, beta)
        weights = np.linalg.solve(means, found.recognition @ second).T
        way.append(weights)
        values.append(free_energy(weights, noise, second, beta).value)
    return Ascent(np.stack(way), np.array(values))


def best_weights(
    second: np.ndarray, noise: float, beta: float = 1.0, latents: int | None = None
) -> np.ndarray:
    """The weights of largest free energy where the noise is σ² in every direction, `[d, K]`.

        ‖w_k‖² = max(c_k - β σ², 0)

    along the principal directions, with c_k the k-th eigenvalue of C: every β finds the same
    directions, but shorter weights, and beyond c_k / σ² none. (To the power 1/β, the likelihood
    N(x; W z, σ² I) is that of noise β σ², up to a factor without W.)

    Args:
        second: C `[d, d]`.
        noise: σ².
        beta: See `free_energy`.
        latents: K; by default as many as there are directions. Further ones have no weights.
    """
    values, directions = np.linalg.eigh(second)
    order = np.argsort(values)[::-1][:latents]
    lengths = np.sqrt(np.maximum(values[order] - beta * noise, 0))
    weights = np.zeros((len(second), latents or len(second)))
    weights[:, : len(order)] = directions[:, order] * lengths
    return weights


def _precision(weights: np.ndarray, noise: np.ndarray, beta: float) -> np.ndarray:
    check_beta(beta)
    return (weights.T / noise) @ weights / beta + np.eye(weights.shape[1])


def _moments(
    weights: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float
) -> tuple[Posterior, np.ndarray]:
    """The best factorised posterior, and the second moment of z under it, `[K, K]`."""
    found = posterior(weights, noise, beta)
    means = found.recognition @ second @ found.recognition.T
    return found, means + np.diag(found.variances)
