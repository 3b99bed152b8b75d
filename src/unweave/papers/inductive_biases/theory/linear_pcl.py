"""Permutation-contrastive learning of a linear mixture, which finds factors, not principal axes.

The counterpart of `theory.pca_alignment`: the same mixture, but of time series.

Shapes: n time points, F factors, p observed dimensions.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.io.arguments import check_count, numpy_rng
from unweave.papers.inductive_biases.theory.pca_alignment import (
    NEAR_SCALES,
    matched,
    minimise,
    mixing,
)

__all__ = ["MOMENTS", "MOST_MOMENTS", "contrastive", "fit_linear_pcl", "sources", "whitened"]

MOMENTS, MOST_MOMENTS = 40_000, 100_000_000
AUTOCORRELATION = 0.7
"""ρ, the autocorrelation of a source from one time point to the next."""
BURN_IN = 100
"""Discarded time points at the start."""


def sources(count: int = MOMENTS, factors: int = 4, seed: int = 0) -> np.ndarray:
    """Independent first-order autoregressive sources, `[n, F]`, of mean 0 and variance 1.

    s_t = ρ s_t₋₁ + e_t,    e Laplace,  ρ = 0.7
    """
    check_count("moments", count, 2, MOST_MOMENTS)
    series = numpy_rng(seed).laplace(size=(BURN_IN + count, factors))
    for t in range(1, len(series)):
        series[t] += AUTOCORRELATION * series[t - 1]
    settled = series[BURN_IN:]
    return (settled - settled.mean(0)) / settled.std(0)


def whitened(x: np.ndarray, factors: int) -> np.ndarray:
    """Whiten x `[n, p]` to its principal components `[n, F]`, of variance 1."""
    centred = x - x.mean(0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(x))
    largest = np.argsort(values)[::-1][:factors]
    return centred @ axes[:, largest] / np.sqrt(values[largest])


def fit_linear_pcl(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Learn codes h = V x `[n - 1, F]` of whitened x `[n, F]` by classifying true and false pairs.

    The logit and its initial values are those of `unweave.methods.PCL`. In false pairs, a random
    time point replaces the previous one. V is initialised to a random rotation.
    """
    generator = np.random.default_rng([2, seed])
    size = x.shape[1]
    rotation = np.linalg.qr(generator.normal(size=(size, size)))[0]
    now, before = torch.from_numpy(x[1:]), torch.from_numpy(x[:-1])
    false = before[torch.from_numpy(generator.permutation(len(before)))]
    ones, zeros, one = np.ones(size), np.zeros(size), np.ones(1)

    def loss(V: Tensor, *logit: Tensor) -> Tensor:
        true, untrue = (_logit(now @ V.mT, other @ V.mT, *logit) for other in (before, false))
        return 0.5 * (F.softplus(-true).mean() + F.softplus(untrue).mean())

    V, *_ = minimise(loss, [rotation, ones, -ones, zeros, one, 0 * one])
    return x[1:] @ V.T


def contrastive(
    deltas: Sequence[float] = (0.0, 0.5), seeds: Sequence[int] = range(3), count: int = MOMENTS
) -> pd.DataFrame:
    """Compare linear PCL and PCA on modified data: PCL finds the factors, PCA rotates.

    Returns:
        A row per δ and seed: `delta`, `seed`, and the smallest |correlation| of a factor with its
        matched latent: `pcl` for linear PCL, `pca` for the principal components.
    """
    rows = []
    for delta in deltas:
        for seed in seeds:
            w = sources(count, len(NEAR_SCALES), seed)
            x = whitened(w @ mixing(NEAR_SCALES, delta).T, w.shape[1])
            codes = fit_linear_pcl(x, seed)
            found = {"pcl": _agreement(codes, w[1:]), "pca": _agreement(x, w)}
            rows.append({"delta": delta, "seed": seed, **found})
    return pd.DataFrame(rows)


def _logit(
    h: Tensor, earlier: Tensor, w1: Tensor, w2: Tensor, b: Tensor, root: Tensor, c: Tensor
) -> Tensor:
    """-Σ |w₁ h + w₂ h' + b| + a Σ h² + c, with a = root²."""
    return root**2 * h.square().sum(-1) - (w1 * h + w2 * earlier + b).abs().sum(-1) + c


def _agreement(codes: np.ndarray, factors: np.ndarray) -> float:
    size = factors.shape[1]
    return matched(np.corrcoef(codes.T, factors.T)[:size, size:])
