"""The polarised regime: which latents are active, which are like the prior, which are neither."""

from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import VARIANCE, mean_noise
from unweave.errors import UnweaveError
from unweave.metrics.polarised_regime import log_noise_share
from unweave.plots.colours import GREY, PALETTE
from unweave.plots.drawn_codes import check_model, has_prior, look

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model
    from unweave.plots.plot import Plot

__all__ = ["polarised", "regimes"]

CLEAR = 1.0
"""How far log Δ of an active or passive latent is from 0: the one e times the other."""
COLOURS = {"active": PALETTE[0], "mixed": PALETTE[4], "passive": GREY}


def polarised(model: "Model", data: "Dataset", *, seed: int = 0) -> "Plot":
    """Draw the mean posterior variance of each latent beside the variance of its mean.

    An active latent has little noise (σ² ≪ 1) and a mean that varies like the prior; a passive
    one is the prior (σ² ≈ 1) and its mean stays at 0; a mixed one is in between, or one for some
    images and the other for others. Latents of largest KL divergence come first.

    Args:
        model: A trained model.
        data: What it was trained on.
        seed: Of the images that are encoded.

    Returns:
        A matplotlib figure, to be saved with `.save("polarised.svg")`.

    References:
        Rolínek et al., Variational Autoencoders Pursue PCA Directions (by Accident),
        arXiv:1812.06775; Bonheme and Grzes, Be More Active! Understanding the Differences between
        Mean and Sampled Representations of Variational Autoencoders, arXiv:2109.12679.
    """
    from unweave.plots.plot import COLUMN, SMALL, TEXT, panels, plain

    check_model(model)
    if not has_prior(model):
        raise UnweaveError("an autoencoder has no noise, so its latents are not polarised")
    seen = look(model, data, seed=seed)
    kinds = regimes(seen.means, seen.logvars)
    noise, spread = _variances(seen.means, seen.logvars)
    figure, axes = panels(1, 1, (COLUMN, 0.95 + 0.19 * len(kinds)))
    panel = plain(axes[0, 0])
    for y, latent in enumerate(seen.order):
        colour = COLOURS[kinds[latent]]
        ends = [noise[latent], spread[latent]]
        panel.plot(ends, [y, y], color=colour, linewidth=1, zorder=1)
        panel.scatter(ends[:1], [y], s=22, facecolor="white", edgecolor=colour, zorder=2)
        panel.scatter(ends[1:], [y], s=22, color=colour, zorder=3)
    names = [f"{seen.name(latent)}, {kinds[latent]}" for latent in seen.order]
    panel.set_yticks(range(len(names)), names, fontsize=SMALL)
    panel.invert_yaxis()
    panel.axvline(1, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    panel.set_xlim(left=-0.04)
    panel.set_xlabel("variance", fontsize=TEXT)
    _legend(figure)
    return figure


def regimes(means: np.ndarray, logvars: np.ndarray) -> list[str]:
    """Whether each latent is `"active"`, `"passive"` or `"mixed"`.

    By log Δ of `uw.metrics.polarised_regime`, the share of noise in a latent's KL divergence: at
    most -1 is active, where the mean varies (its variance exceeds 0.01), at least 1 is passive.

    Args:
        means: `[n, d]`.
        logvars: `[n, d]`.

    Example:
        >>> mu = np.tile([[1.0, 0.0, 0.7]], (100, 1)) * np.tile([[1.0], [-1.0]], (50, 1))
        >>> regimes(mu, np.log(np.tile([0.01, 0.99, 0.5], (100, 1))))
        ['active', 'passive', 'mixed']
    """
    share = log_noise_share(means, logvars)
    varies = VARIANCE.holds(_variances(means, logvars)[1])
    kinds = np.where(share >= CLEAR, "passive", "mixed")
    return [str(kind) for kind in np.where((share <= -CLEAR) & varies, "active", kinds)]


def _variances(means: np.ndarray, logvars: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[σ²] and Var(μ) of each latent, `[d]`."""
    return mean_noise(logvars), means.astype(np.float64).var(0)


def _legend(figure: "Plot") -> None:
    from matplotlib.lines import Line2D

    from unweave.plots.plot import legend_above

    dots: dict[str, Any] = {
        "marker": "o",
        "markersize": 4.5,
        "linestyle": "",
        "markeredgecolor": "0.3",
    }
    handles = [
        Line2D([], [], markerfacecolor="white", label="noise, mean of σ²", **dots),
        Line2D([], [], markerfacecolor="0.3", label="signal, variance of μ", **dots),
    ]
    legend_above(figure, handles, 2)
