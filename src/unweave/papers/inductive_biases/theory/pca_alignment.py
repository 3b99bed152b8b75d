"""Why variational autoencoders find principal axes, and which method finds the factors.

Four experiments with linear models, after the supplement of *Demystifying Inductive Biases for
(Beta-)VAE Based Architectures* (Zietlow, Rolinek & Martius, ICML 2021): `rotations` of the
simplified objective, `linear_autoencoders`, `modified_data`, and `contrastive`. `local_alignment`
measures the same for a trained model; `pca_alignment_results` runs and draws all four.

Shapes: F factors w with variance 1, p observed dimensions, x = B w with a mixing matrix B
`[p, F]`, and d = F latents.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.io.arguments import numpy_rng
from unweave.papers.theory import TheoryError

__all__ = [
    "DELTAS",
    "SCALES",
    "Linear",
    "best_scale",
    "fit_linear",
    "linear_autoencoders",
    "matched",
    "minimise",
    "mixing",
    "modified_data",
    "predicted_rotation",
    "rotations",
]

OBSERVED = 8
"""Observed dimensions p."""
NOISE = 0.02
"""Variance of the decoder noise."""
SCALES = (1.0, 0.7, 0.5, 0.35)
"""Standard deviations of the factors, along orthogonal directions."""
NEAR_SCALES = (1.0, 0.95, 0.5, 0.35)
"""Standard deviations of the factors, two of them nearly equal."""
EQUAL_SCALES = (0.7,) * 4
DELTAS = (0.0, 0.2, 0.3, 0.5)
"""Sizes δ of the modification."""
MOST_STEPS = 5_000
"""Largest number of L-BFGS steps; a few hundred are usual."""


def best_scale(x: Sequence[float] | np.ndarray) -> float:
    """Compute the c that minimises Σ (c² x² - log c² y²) for any y (Lemma 1).

        c = √(n / Σ x²),    so that the mean of (c x)² is 1

    Notes:
        The supplement prints c = √Σ x², which is not a minimum.

    Example:
        >>> round(best_scale([1.0, 2.0]), 6)
        0.632456
    """
    x = np.asarray(x, np.float64)
    return float(np.sqrt(len(x) / (x**2).sum()))


def rotations(seeds: Sequence[int] = range(3), size: int = 5, fixed: bool = False) -> pd.DataFrame:
    """Theorem 1: the best rotation of reconstructions aligns latents with principal axes.

        min_{U, σ} Σ_k σ_k² (U S Uᵀ)_kk ≥ d det(S)^{1/d},    S = X̂ᵀ X̂,  U Uᵀ = I,  Π σ_k² = 1

    with equality where U S Uᵀ is diagonal. Minimised over A and l in U = exp(A - Aᵀ) and
    σ² = exp(l - mean l).

    Args:
        seeds: Seeds of S and of the initial values, one run each.
        size: Dimension d.
        fixed: Whether to fix distinct σ². The bound is then Σ_k σ_k² λ_k, with the largest σ² at
            the smallest eigenvalue, by the rearrangement inequality.

    Returns:
        A row per seed: `seed`; `alignment`, the smallest matched |U V_X|; `loss` and `bound`;
        `identity`, the difference between the sides of equation 7 for a random U.
    """
    rows = []
    for seed in seeds:
        generator = numpy_rng(seed)
        images = generator.normal(size=(50, size)) * np.linspace(2, 0.5, size)
        second = images.T @ images / len(images)
        A, logs = generator.normal(size=(size, size)), generator.normal(size=size)
        loss = partial(_rotated_loss, torch.from_numpy(second))
        if fixed:
            given = torch.from_numpy(logs)
            (A,) = minimise(lambda A, given=given, loss=loss: loss(A, given), [A])
        else:
            A, logs = minimise(loss, [A, logs])
        U, variances = _rotation(torch.from_numpy(A)), _variances(torch.from_numpy(logs))
        values, axes = np.linalg.eigh(second)
        best = np.sort(variances.numpy())[::-1] @ values
        rows.append(
            {
                "seed": seed,
                "alignment": matched(U.numpy() @ axes),
                "loss": float(loss(torch.from_numpy(A), torch.from_numpy(logs))),
                "bound": best if fixed else size * np.prod(values) ** (1 / size),
                "identity": _identity(images, generator),
            }
        )
    return pd.DataFrame(rows)


def mixing(
    scales: Sequence[float] = SCALES, delta: float = 0.0, seed: int = 0, observed: int = OBSERVED
) -> np.ndarray:
    """Mixing matrix B `[p, F]`: factors along orthogonal directions, a modification along another.

    x = Σ_i s_i b_i w_i + δ q (w₁ + w₂) / √2,    q orthogonal to all b_i
    """
    if observed <= len(scales):
        raise TheoryError(
            f"observed must be greater than the number of factors ({len(scales)}), got {observed}",
            subject="observed",
            value=observed,
        )
    normals = numpy_rng(seed).normal(size=(observed, len(scales) + 1))
    directions = np.linalg.qr(normals)[0]
    B = directions[:, :-1] * np.asarray(scales)
    B[:, :2] += delta / math.sqrt(2) * directions[:, -1:]
    return B


def predicted_rotation(delta: float, one: float = 1.0, other: float = 0.95) -> float:
    """Angle by which a modification rotates the principal axes of two factors, in radians.

        θ = ½ atan2(δ², a² - b²),    a and b the scales of `one` factor and the `other`

    Example:
        >>> [round(math.cos(predicted_rotation(delta)), 3) for delta in DELTAS]
        [1.0, 0.981, 0.931, 0.826]
    """
    return 0.5 * math.atan2(delta**2, one**2 - other**2)


@dataclass(frozen=True, eq=False)
class Linear:
    """A trained linear autoencoder.

    Args:
        mixing: Mixing matrix B `[p, F]`.
        decoder: Decoder C `[p, d]`.
        encoder: Encoder W `[d, p]`.
        loss: Loss in nats; without noise and prior, the reconstruction error only.
    """

    mixing: np.ndarray
    decoder: np.ndarray
    encoder: np.ndarray
    loss: float

    @property
    def row(self) -> dict[str, float]:
        """Match of the decoder with principal axes, match of latents with factors, and loss."""
        axes = np.linalg.svd(self.mixing, full_matrices=False)[0]
        cosines = (self.decoder / np.linalg.norm(self.decoder, axis=0)).T @ axes
        codes = self.encoder @ self.mixing
        correlations = codes / np.linalg.norm(codes, axis=1, keepdims=True)
        return {
            "principal": matched(cosines),
            "factors": matched(correlations),
            "loss": self.loss,
        }


def fit_linear(B: np.ndarray, seed: int, variational: bool = True) -> Linear:
    """Train a linear autoencoder, whose loss has a closed form.

        L = [‖B - C W B‖² + Σ_k σ_k² ‖c_k‖²] / 2o + ½ Σ_k (‖(W B)_k‖² + σ_k² - log σ_k² - 1)

    the negative ELBO of x = B w, z ~ N(W x, diag σ²), x̂ ~ N(C z, o I), up to a constant. Without
    noise and prior (not `variational`), the loss is ‖B - C W B‖² / 2o.
    """
    observed, latents = B.shape
    C, W = np.random.default_rng([1, seed]).normal(size=(2, observed, latents)) / observed**0.5
    loss = partial(_linear_loss, torch.from_numpy(B), variational)
    C, W, logvars = minimise(loss, [C, W.T, np.zeros(latents)])
    value = loss(*(torch.from_numpy(part) for part in (C, W, logvars)))
    return Linear(B, C, W, float(value))


def linear_autoencoders(seeds: Sequence[int] = range(5)) -> pd.DataFrame:
    """Show that a linear VAE finds principal axes, a linear autoencoder any basis of their space.

    Returns:
        A row per kind and seed. `kind`: `vae`, `equal` (a VAE on factors of equal variance, which
        have no principal axes) or `autoencoder`; `principal`: smallest |cosine| between matched
        principal axes and decoder columns; `factors`: smallest |correlation| between matched
        factors and latents; `loss`.
    """
    kinds = {"vae": SCALES, "equal": EQUAL_SCALES, "autoencoder": SCALES}
    rows = [
        {"kind": kind, "seed": seed} | fit_linear(mixing(scales), seed, kind != "autoencoder").row
        for kind, scales in kinds.items()
        for seed in seeds
    ]
    return pd.DataFrame(rows)


def modified_data(
    deltas: Sequence[float] = DELTAS, seeds: Sequence[int] = range(3)
) -> pd.DataFrame:
    """Show that a small modification rotates the principal axes, and the code of a VAE with them.

    Returns:
        A row per δ and seed: `delta`, `seed`, `predicted`, the cosine of `predicted_rotation`;
        `principal`, `factors` and `loss` as in `linear_autoencoders`.
    """
    rows = [
        {"delta": delta, "seed": seed, "predicted": math.cos(predicted_rotation(delta))}
        | fit_linear(mixing(NEAR_SCALES, delta), seed).row
        for delta in deltas
        for seed in seeds
    ]
    return pd.DataFrame(rows)


def matched(similarities: np.ndarray) -> float:
    """Smallest |similarity| in the best one-to-one match of rows and columns, `[d, d]`.

    Example:
        >>> matched(np.array([[0.1, -0.9], [0.8, 0.3]]))
        0.8
    """
    from scipy.optimize import linear_sum_assignment

    sizes = np.abs(similarities)
    return float(sizes[linear_sum_assignment(-sizes)].min())


def minimise(loss: Callable[..., Tensor], start: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Minimise a loss of several arrays by L-BFGS, from initial values."""
    from scipy.optimize import minimize

    shapes = [np.shape(value) for value in start]
    sizes = [math.prod(shape) for shape in shapes]

    def unpacked(flat: Any) -> list[Any]:
        parts = torch.as_tensor(flat).split(sizes)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.tensor(flat, requires_grad=True)
        value = loss(*unpacked(point))
        (gradient,) = torch.autograd.grad(value, point)
        return value.item(), gradient.numpy()

    flat = np.concatenate([np.ravel(value) for value in start])
    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value_and_gradient, flat, jac=True, method="L-BFGS-B", options=options)
    return [part.numpy() for part in unpacked(found.x)]


def _linear_loss(B: Tensor, variational: bool, C: Tensor, W: Tensor, logvars: Tensor) -> Tensor:
    codes = W @ B
    missed = (B - C @ codes).square().sum()
    if not variational:
        return missed / (2 * NOISE) + 0 * logvars.sum()
    variances = logvars.exp()
    blurred = (variances * C.square().sum(0)).sum()
    kl = 0.5 * (codes.square().sum(1) + variances - logvars - 1).sum()
    return (missed + blurred) / (2 * NOISE) + kl


def _rotated_loss(second: Tensor, A: Tensor, logs: Tensor) -> Tensor:
    """Σ_k σ_k² (U S Uᵀ)_kk."""
    rotated = _rotation(A) @ second @ _rotation(A).mT
    return (_variances(logs) * rotated.diagonal()).sum()


def _rotation(A: Tensor) -> Tensor:
    return torch.linalg.matrix_exp(A - A.mT)


def _variances(logs: Tensor) -> Tensor:
    return (logs - logs.mean(-1, keepdim=True)).exp()


def _identity(images: np.ndarray, generator: np.random.Generator) -> float:
    """Error of equation 7 with Z standardised: |tr(E Σ² E) - tr(E U X̂ᵀ X̂ Uᵀ E)|, random U."""
    size = images.shape[1]
    U = np.linalg.qr(generator.normal(size=(size, size)))[0]
    E = np.diag(generator.uniform(0.5, 2, size))
    codes = images @ U.T
    scales = np.diag(np.linalg.norm(codes, axis=0))
    return abs(float(np.trace(E @ scales**2 @ E) - np.trace(E @ U @ images.T @ images @ U.T @ E)))
