"""Codes of several models for the same images, and the information in each latent.

Shapes: M models, n rows (images), d latents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unweave.analysis.activity import KL, kl_of_latents
from unweave.errors import UnweaveError
from unweave.io.arrays import on_host

__all__ = ["MIN_CORRELATION", "Latents", "SelectionError"]

MIN_CORRELATION = 0.7
"""Smallest correlation at which two latents count as the same."""


class SelectionError(UnweaveError):
    """Raised if codes or models cannot be compared."""


@dataclass(frozen=True, eq=False)
class Latents:
    """Mean codes of M models for the same n images, and the information in each latent.

        KL_j = E_x ½ (μ_j² + σ_j² - log σ_j² - 1),    latent j is informative if KL_j > 0.01

    Args:
        means: Posterior means μ, `[M, n, d]`; NumPy, torch or lists. Models with non-finite codes
            are kept but excluded from comparisons.
        logvars: Posterior log-variances log σ², `[M, n, d]`, used to compute `kl`.
        kl: Mean KL divergence of each latent, `[M, d]`. Without `kl` and `logvars`, every latent
            that varies is informative.
        runs: Name of each model (default: `"0"`, `"1"`, …).
        settings: Settings of each model except its seed, as text; equal texts mean equal
            hyperparameters.
        informative_kl: KL divergence that informative latents exceed (default 0.01).

    References:
        Duan et al., Unsupervised Model Selection for Variational Disentangled Representation
        Learning, arXiv:1905.12614.

    Example:
        >>> codes = np.random.default_rng(0).normal(size=(2, 100, 3))
        >>> Latents(codes, kl=[[2.0, 0.001, 1.0], [3.0, 1.0, 1.0]]).informative.tolist()
        [[True, False, True], [True, True, True]]
    """

    means: Any
    logvars: Any = None
    kl: Any = None
    runs: Sequence[str] = ()
    settings: Sequence[str] = ()
    informative_kl: float = KL.threshold

    def __post_init__(self) -> None:
        means = _array(self.means)
        if means.ndim != 3 or 0 in means.shape:
            shape = list(means.shape)
            raise SelectionError.must("means", "have shape [models, rows, latents]", shape)
        kl, logvars = self.kl, self.logvars
        if kl is None and logvars is not None:
            kl = kl_of_latents(means, _like(_array(logvars), means.shape, "logvars"))
        if kl is not None:
            kl = _like(_array(kl), (len(means), means.shape[2]), "kl")
        names = tuple(self.runs) or tuple(map(str, range(len(means))))
        for what, given in (("runs", names), ("settings", self.settings)):
            if given and len(given) != len(means):
                raise SelectionError.must(
                    what, f"have one entry per model ({len(means)})", len(given)
                )
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "kl", kl)
        object.__setattr__(self, "runs", names)
        object.__setattr__(self, "settings", tuple(self.settings))

    def __len__(self) -> int:
        return len(self.means)

    @cached_property
    def usable(self) -> np.ndarray:
        """Whether all codes of a model are finite, `[M]`."""
        return np.isfinite(self.means).all((1, 2))

    @cached_property
    def informative(self) -> np.ndarray:
        """Whether a latent varies and its KL divergence exceeds the threshold, `[M, d]`."""
        with np.errstate(invalid="ignore"):  # models that diverged
            varies = np.ptp(self.means, axis=1) > 0
        carries = True if self.kl is None else np.nan_to_num(self.kl) > self.informative_kl
        return self.usable[:, None] & varies & carries

    @cached_property
    def centred(self) -> np.ndarray:
        """Codes with mean 0, `[M, n, d]`; uninformative latents are 0."""
        informative = np.where(self.informative[:, None], self.means, 0.0)
        return informative - informative.mean(1, keepdims=True)

    @cached_property
    def standardised(self) -> np.ndarray:
        """Codes with mean 0 and variance 1, `[M, n, d]`; uninformative latents are 0."""
        return _scaled(self.centred)

    @cached_property
    def ranked(self) -> np.ndarray:
        """Standardised ranks of codes, for Spearman's correlation, `[M, n, d]`."""
        from scipy.stats import rankdata

        return _scaled(rankdata(self.centred, axis=1) - (self.means.shape[1] + 1) / 2)


def _array(values: Any) -> np.ndarray:
    return on_host(values).astype(np.float64, copy=False)


def _like(values: np.ndarray, shape: tuple[int, ...], what: str) -> np.ndarray:
    if values.shape != shape:
        raise SelectionError.must(what, f"have shape {list(shape)}", list(values.shape))
    return values


def _scaled(centred: np.ndarray) -> np.ndarray:
    """Scale to variance 1 over the rows; constant columns stay 0."""
    spread = centred.std(1, keepdims=True)
    return centred / np.where(spread > 0, spread, 1.0)
