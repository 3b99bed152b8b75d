"""Codes of images sampled from a data set, which all plots of latents use.

Shapes: n images, d latents, K factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import Activity, shown_activity
from unweave.errors import UnweaveError
from unweave.metrics.base import MetricError, Table, table
from unweave.metrics.tools.discretise import bins, entropy, mutual_information
from unweave.models.images import NUM_SAMPLED, check_shape, sample_rows

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = [
    "DrawnCodes",
    "check_data",
    "check_model",
    "draw_codes",
    "followed_factors",
    "has_prior",
    "known_shares",
]

FOLLOWED = 0.2
"""Smallest share of a factor's entropy that a latent must explain to be labelled with it."""
LONGEST = 16
"""Maximum number of characters of a name; longer ones are shortened."""
ALSO = 0.5
"""Further factors are named too if their share is at least this fraction of the best factor's."""


@dataclass(frozen=True, eq=False)
class DrawnCodes:
    """Posteriors of sampled images, with their ground-truth factors if known."""

    means: np.ndarray  # posterior means `[n, d]`
    logvars: np.ndarray  # posterior log-variances `[n, d]`
    factors: np.ndarray | None = None  # classes `[n, K]`, or None if unknown
    names: Sequence[str] = ()  # names of the K factors
    # Whether the model has a prior; if not, the spread of means replaces the KL.
    prior: bool = True
    standard_noise: bool = True  # whether unused latents are N(0, 1); see `Method.standard_noise`
    latent_names: Sequence[str] = ()  # names of the latents (default: their numbers)

    def name(self, latent: int) -> str:
        """Name of a latent."""
        return self.latent_names[latent] if self.latent_names else f"latent {latent}"

    @cached_property
    def activity(self) -> Activity:
        """How informative each latent is, and which latents are active."""
        return shown_activity(
            self.means,
            self.logvars,
            deterministic=not self.prior,
            standard_noise=self.standard_noise,
        )

    @property
    def amounts(self) -> np.ndarray:
        """Information in each latent: its mean KL divergence in nats, or its spread, `[d]`."""
        return self.activity.amounts

    @property
    def measure(self) -> str:
        """Name of the quantity in `amounts`."""
        return "KL" if self.prior else "spread"

    @property
    def active(self) -> np.ndarray:
        """Whether each latent is active, `[d]`."""
        return self.activity.active

    @property
    def order(self) -> np.ndarray:
        """Latents sorted from most to least informative, `[d]`."""
        return self.activity.order

    @cached_property
    def follows(self) -> list[tuple[str, ...]]:
        """Factors that each latent follows; empty for inactive latents."""
        nothing: list[tuple[str, ...]] = [()] * self.means.shape[1]
        if self.factors is None:
            return nothing
        try:
            nats = self.amounts if self.prior else None
            found = followed_factors(self.means, self.factors, self.names, nats=nats)
        except MetricError:  # no factor varies
            return nothing
        return [names if on else () for names, on in zip(found, self.active, strict=True)]


def draw_codes(
    model: "Model",
    data: "Dataset",
    rows: int = NUM_SAMPLED,
    seed: int = 0,
    *,
    names: Mapping[int, str] | None = None,
) -> DrawnCodes:
    """Encode `rows` images sampled without replacement, or all images if there are fewer.

    Args:
        model: A trained model.
        data: Images.
        rows: Largest number of images.
        seed: Random seed of the sample.
        names: Names of latents, shown before their numbers.
    """
    from unweave.models.encoding import posteriors

    check_data(model, data)
    chosen = sample_rows(data, rows, seed)
    (means,), (logvars,) = posteriors(model, data, chosen, seed=seed)
    known = data.grid or data.labels
    factors = None if known is None else known.factors(chosen)
    latent_names = model.config.latent_names
    for latent, name in (names or {}).items():
        short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
        latent_names[latent] = f"{short} (z{latent})"
    return DrawnCodes(
        means,
        logvars,
        factors,
        () if known is None else known.names,
        has_prior(model),
        model.config.method.standard_noise,
        latent_names,
    )


def followed_factors(
    codes: Any, factors: Any, names: Sequence[str], least: float = FOLLOWED, nats: Any = None
) -> list[tuple[str, ...]]:
    """Find the factors that each latent follows, by the share of their entropy it explains.

    The shares are mutual information corrected for chance, divided by the factor's entropy. Mutual
    information also detects factors without an order, such as shapes and angles.

    Args:
        codes: Codes `[n, d]`.
        factors: Factors `[n, K]`; constant factors are ignored.
        names: Names of the K factors.
        least: Smallest share that counts.
        nats: Information that each latent carries about an image, `[d]`, such as its KL
            divergence. It bounds the information about a factor (default: no bound).

    Returns:
        For each latent, factor names by decreasing share: the best factor and all others with at
        least half its share.

    Example:
        >>> factors = np.stack(np.meshgrid(range(8), range(9), range(9)), -1).reshape(-1, 3)
        >>> codes = factors @ np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0]])
        >>> followed_factors(codes, factors, ["x", "y", "shape"])
        [('y',), ('x',), ()]
    """
    rows = table(codes, factors)
    known = known_shares(rows)
    if nats is not None:
        known = np.minimum(known, np.asarray(nats)[:, None] / entropy(rows.factors))
    labels = [names[k] for k in rows.columns]
    found = []
    for share in known:
        needed = max(least, ALSO * float(share.max()))
        best_first = np.argsort(-share, kind="stable")
        found.append(tuple(labels[k] for k in best_first if share[k] >= needed))
    return found


def known_shares(rows: Table) -> np.ndarray:
    """Return the share of each factor's entropy that each latent explains, `[d, K]`.

        share_jk = max(0, I(z_j; v_k) - chance_jk) / H(v_k)
        chance_jk = (f + 3 √(2 f)) / 2n,    f = (bins_j - 1) (values_k - 1)

    with codes discretised into 20 bins as for MIG. The chance level is the mean plus three
    standard deviations of the estimate for independent variables.

    Args:
        rows: Codes `[n, d]` and factors `[n, K]`.
    """
    cut = bins(rows.codes)
    used = np.array([len(np.unique(column)) for column in cut.T])
    freedom = np.outer(used - 1, rows.sizes - 1)
    chance = (freedom + 3 * np.sqrt(2 * freedom)) / (2 * len(rows))
    return np.maximum(mutual_information(cut, rows.factors) - chance, 0) / entropy(rows.factors)


def has_prior(model: "Model") -> bool:
    """Return whether the codes were trained towards a prior, which gives them a scale."""
    return not model.config.method.deterministic


def check_model(model: "Model") -> None:
    """Raise an error unless `model` is a single model that did not diverge."""
    from unweave.models.model import Model

    if not isinstance(model, Model):
        raise UnweaveError.must("model", "be a single model, as fleet[0]", type(model).__name__)
    if model.diverged_at[0] >= 0:
        raise UnweaveError(
            f"this model diverged at step {model.diverged_at[0]:,} and cannot be plotted; choose "
            "another",
            subject="model",
            value=int(model.diverged_at[0]),
        )


def check_data(model: "Model", data: "Dataset") -> None:
    """Raise an error if the model cannot encode images of this data set."""
    check_model(model)
    check_shape(model.shape, data.shape, data.name)
