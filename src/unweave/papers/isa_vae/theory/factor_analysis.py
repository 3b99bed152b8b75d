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
    """Posterior of z given x: only its mean, `recognition @ x`, depends on x.

    Args:
        covariance: Covariance of the true posterior, Λ⁻¹ `[K, K]`.
        variances: Variances of the best factorised posterior, 1 / Λ_kk `[K]`.
        recognition: R = Λ⁻¹ Wᵀ D⁻¹ / β, `[K, d]`, which gives the mean of both.
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
        """Reconstruction minus KL."""
        return self.reconstruction - self.kl


def log_likelihood(weights: np.ndarray, noise: np.ndarray, second: np.ndarray) -> float:
    """Compute the mean log-likelihood per data point, which is invariant to rotations of z.

    log p(x) = -½ [log det(2π V) + tr(V⁻¹ C)],    V = W Wᵀ + D
    """
    implied = weights @ weights.T + np.diag(noise)
    volume = np.linalg.slogdet(2 * np.pi * implied)[1]
    return float(-0.5 * (volume + np.trace(np.linalg.solve(implied, second))))


def posterior(weights: np.ndarray, noise: np.ndarray, beta: float = 1.0) -> Posterior:
    """Compute the posterior for a likelihood to the power 1/β, and its best factorised form.

    Λ = Wᵀ D⁻¹ W / β + I
    """
    precision = _precision(weights, noise, beta)
    covariance = np.linalg.inv(precision)
    recognition = covariance @ (weights.T / noise) / beta
    return Posterior(covariance, 1 / np.diag(precision), recognition)


def free_energy(
    weights: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float = 1.0
) -> FreeEnergy:
    """Compute the free energy of the best factorised posterior, in its form with 1/β observations.

        F = E_q log p(x|z) / β - KL(q ‖ p)
        E_q log p(x|z) = -½ [tr((I - W R)ᵀ D⁻¹ (I - W R) C) + log det(2π D) + tr(Wᵀ D⁻¹ W Σ_q)]
        KL = -½ [K + log det Σ_q - tr Σ_q - tr(Rᵀ R C)]

    Returns:
        Both terms; β times their difference is the objective of a β-VAE.

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
    """Compute the gradient of the free energy with respect to the weights, `[d, K]`.

        ∂F/∂W = D⁻¹ [C Rᵀ - W (R C Rᵀ + Σ_q)] / β

    The posterior is optimal, so its dependence on W does not contribute.
    """
    found, means = _moments(weights, noise, second, beta)
    pull = second @ found.recognition.T - weights @ means
    return pull / noise[:, None] / beta


def gap(weights: np.ndarray, noise: np.ndarray, beta: float = 1.0) -> float:
    """Compute the KL divergence of the factorised from the true posterior, per data point.

        KL(q ‖ p(z|x)) = ½ [Σ_k log Λ_kk - log det Λ]

    At β = 1 it is `log_likelihood` minus `free_energy`. At any β it is 0 where the columns of
    D^-½ W are orthogonal, and it is the only part of the free energy that depends on rotations.
    """
    precision = _precision(weights, noise, beta)
    return float(0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1]))


def ascend(
    start: np.ndarray, noise: np.ndarray, second: np.ndarray, beta: float = 1.0, steps: int = 1000
) -> Ascent:
    """Learn the weights by coordinate ascent, alternating the best posterior and the best weights.

    W ← C Rᵀ (R C Rᵀ + Σ_q)⁻¹
    """
    weights = start
    path, values = [weights], [free_energy(weights, noise, second, beta).value]
    for _ in range(steps):
        found, means = _moments(weights, noise, second, beta)
        weights = np.linalg.solve(means, found.recognition @ second).T
        path.append(weights)
        values.append(free_energy(weights, noise, second, beta).value)
    return Ascent(np.stack(path), np.array(values))


def best_weights(
    second: np.ndarray, noise: float, beta: float = 1.0, latents: int | None = None
) -> np.ndarray:
    """Weights with the largest free energy for isotropic noise σ², `[d, K]`.

        ‖w_k‖² = max(c_k - β σ², 0)

    along the principal directions, with c_k the k-th eigenvalue of C. Every β gives the same
    directions; a larger β gives shorter weights, which vanish beyond c_k / σ². (To the power 1/β,
    the likelihood N(x; W z, σ² I) is that of noise β σ², up to a factor without W.)

    Args:
        second: Second moment C `[d, d]`.
        noise: Noise variance σ².
        beta: Regularisation strength, as in `free_energy`.
        latents: Number of latents K (default: d); those beyond d have zero weights.
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
    """Best factorised posterior, and the second moment of z under it, `[K, K]`."""
    found = posterior(weights, noise, beta)
    means = found.recognition @ second @ found.recognition.T
    return found, means + np.diag(found.variances)
