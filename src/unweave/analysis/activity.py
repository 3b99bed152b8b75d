"""Named criteria for active latents; every caller states which one it uses.

    CLEAR            mean KL divergence from N(0, 1) above 0.3 nats: changes something visible
    KL               the same above 0.01 nats, and a mean that varies
    VARIANCE         variance of the posterior mean above 0.01
    NOISE            mean posterior variance below 0.5
    WEAK_NOISE       mean posterior variance below 0.8
    RELATIVE_SPREAD  standard deviation of the code above a tenth of the largest, for codes
                     whose scale is not set by a prior

Everything that shows latents to users (report, explorer, plots, tables, `Unweaver`) uses
`shown_activity`: `KL`, or `RELATIVE_SPREAD` for codes without a prior. The report, the explorer
and the verdict on a fit count only clear latents: `Activity.clear`, which is `CLEAR` instead of
`KL`. Published definitions keep their own criteria.

Shapes: n images, d latents, any axes before them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from unweave.metrics.active_units import BURDA_VARIANCE
from unweave.metrics.polarised_regime import log_noise_share

__all__ = [
    "CLEAR",
    "KL",
    "NOISE",
    "RELATIVE_SPREAD",
    "VARIANCE",
    "WEAK_NOISE",
    "Activity",
    "Criterion",
    "kl_in_use",
    "kl_of_latents",
    "mean_noise",
    "noise_and_signal",
    "shown_activity",
]


@dataclass(frozen=True)
class Criterion:
    """Rule that decides whether a latent is active."""

    threshold: float  # value that active latents exceed or stay below
    below: bool = False  # whether active latents are below the threshold (default False)

    def holds(self, values: Any) -> np.ndarray:
        """Whether latents with these values are active."""
        return np.asarray(values < self.threshold if self.below else values > self.threshold)


CLEAR = Criterion(0.3)
"""Latents below this change the image very little, and count as inactive in the report, in the
explorer and in the verdict on a fit."""
KL = Criterion(0.01)
"""Criterion of Duan et al., arXiv:1905.12614 (UDR), and its published code."""
VARIANCE = Criterion(BURDA_VARIANCE)
"""Criterion of Burda et al., arXiv:1509.00519 (active units)."""
NOISE = Criterion(0.5, below=True)
"""Low noise: log Δ is below -0.3 for a latent with μ² + σ² = 1."""
WEAK_NOISE = Criterion(0.8, below=True)
"""Criterion of Zietlow et al., arXiv:2102.06822, who use it to exclude over-pruned models."""
RELATIVE_SPREAD = Criterion(0.1)


@dataclass(frozen=True, eq=False)
class Activity:
    """Amount of information in each latent of one model, and which latents are active.

    Args:
        criterion: Criterion for active latents.
        amounts: Mean KL divergence in nats, or standard deviation of the code, `[d]`.
    """

    criterion: Criterion
    amounts: np.ndarray

    @property
    def threshold(self) -> float:
        """Amount that active latents exceed."""
        largest = float(self.amounts.max()) if self.criterion is RELATIVE_SPREAD else 1.0
        return self.criterion.threshold * largest

    @property
    def active(self) -> np.ndarray:
        """Whether each latent is active, `[d]`."""
        return np.asarray(self.amounts > self.threshold)

    @property
    def clear_threshold(self) -> float:
        """Amount that clear latents exceed."""
        return CLEAR.threshold if self.criterion is KL else self.threshold

    @property
    def clear(self) -> np.ndarray:
        """Whether each latent changes something visible, `[d]`."""
        return np.asarray(self.amounts > self.clear_threshold)

    @property
    def order(self) -> np.ndarray:
        """Latents sorted by amount, largest first, `[d]`."""
        return np.argsort(-self.amounts, kind="stable")


def shown_activity(
    means: Any, logvars: Any, *, deterministic: bool = False, standard_noise: bool = True
) -> Activity:
    """Return the activity of one model's latents as shown to users.

    Args:
        means: Posterior means, `[n, d]`.
        logvars: Posterior log-variances, `[n, d]`.
        deterministic: Whether codes have no noise and no prior; see `Method.deterministic`.
        standard_noise: Whether unused latents are N(0, 1); see `Method.standard_noise`.

    Example:
        >>> mu = np.array([[1.0, 0.0, 0.1], [-1.0, 0.0, -0.1]])
        >>> shown_activity(mu, np.zeros((2, 3))).active.tolist()
        [True, False, False]
        >>> shown_activity(mu / 2, np.zeros((2, 3))).clear.tolist()  # 0.125 nats
        [False, False, False]
        >>> shown_activity(mu * 100, np.zeros((2, 3)), deterministic=True).active.tolist()
        [True, False, False]
    """
    means, logvars = np.asarray(means, np.float64), np.asarray(logvars, np.float64)
    amounts = means.std(0) if deterministic else kl_in_use(means, logvars, standard_noise)
    finite = np.nan_to_num(amounts, posinf=0.0)  # models that diverged
    return Activity(RELATIVE_SPREAD if deterministic else KL, finite)


def kl_of_latents(means: np.ndarray, logvars: np.ndarray) -> np.ndarray:
    """Compute the mean KL divergence from N(0, 1) of each latent, `[…, d]`.

    Example:
        >>> kl_of_latents(np.array([[[0.0, 2.0]]]), np.zeros((1, 1, 2)))
        array([[0., 2.]])
    """
    with np.errstate(over="ignore", invalid="ignore"):  # models that diverged
        return 0.5 * (means**2 + np.exp(logvars) - logvars - 1).mean(-2)


def kl_in_use(means: np.ndarray, logvars: np.ndarray, standard_noise: Any = True) -> np.ndarray:
    """Compute the same, but at most 0.01 nats for latents without information.

    These are latents with a constant mean. In ensembles, ISA-VAEs and students of Jacobian
    supervision, they are also latents whose mean has a variance of at most 0.01, because their KL
    divergence is large although they are unused: the alignment of an ensemble lowers their noise,
    an ISA-VAE has a prior that is not normal, and students have no noise at all.

    Args:
        means: Posterior means `[…, n, d]`.
        logvars: Posterior log-variances `[…, n, d]`.
        standard_noise: Whether unused latents of each model are N(0, 1), `[…]`.

    Example:
        >>> means = np.full((2, 2, 1), [[0.05], [-0.05]])
        >>> kl_in_use(means, np.log(np.full((2, 2, 1), 0.05)), [True, False]).round(2)
        array([[1.02],
               [0.01]])
    """
    kl = kl_of_latents(means, logvars)
    with np.errstate(over="ignore", invalid="ignore"):  # models that diverged
        constant = np.ptp(means, axis=-2) == 0
        nearly_constant = means.var(-2, dtype=np.float64) <= VARIANCE.threshold
    unused = constant | (nearly_constant & ~np.asarray(standard_noise, bool)[..., None])
    return np.where(unused, np.minimum(kl, KL.threshold), kl)


def mean_noise(logvars: Any) -> np.ndarray:
    """Compute the mean posterior variance E[σ²] of each latent, `[…, d]`.

    Example:
        >>> NOISE.holds(mean_noise(np.log([[0.1, 0.9], [0.3, 1.0]])))
        array([ True, False])
    """
    return np.exp(np.asarray(logvars, np.float64)).mean(-2)


def noise_and_signal(means: Any, logvars: Any) -> dict[str, np.ndarray]:
    """Compute noise, signal and log Δ of each latent, and whether it is active, `[d]` each.

    Args:
        means: Posterior means, `[n, d]`.
        logvars: Posterior log-variances, `[n, d]`.

    Returns:
        `noise`, `signal` (the variance of the mean), `log_delta`, `active_by_noise` (criterion
        `NOISE`) and `active` (criteria `NOISE` and `VARIANCE`).

    Example:
        >>> mu = np.array([[1.0, 0.0, 0.1], [-1.0, 0.0, -0.1]])
        >>> found = noise_and_signal(mu, np.log([[0.01, 0.048, 0.99]] * 2))
        >>> found["active_by_noise"].tolist(), found["active"].tolist()
        ([True, True, False], [True, False, False])
        >>> found["log_delta"].round(2).tolist()
        [-6.13, -3.77, 4.59]
    """
    means, logvars = np.asarray(means, np.float64), np.asarray(logvars, np.float64)
    noise, signal = mean_noise(logvars), means.var(0)
    low_noise = NOISE.holds(noise)
    return {
        "noise": noise,
        "signal": signal,
        "log_delta": log_noise_share(means, logvars),
        "active_by_noise": low_noise,
        "active": low_noise & VARIANCE.holds(signal),
    }
