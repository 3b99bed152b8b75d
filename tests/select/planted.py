"""Codes with known relations."""

import numpy as np


def rotation(size, seed):
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


def whitened(n, d, seed=0):
    """Codes `[n, d]` of mean 0, variance 1 and no correlation, to rounding."""
    z = np.random.default_rng(seed).normal(size=(n, d))
    return np.linalg.qr(z - z.mean(0))[0] * np.sqrt(n)
