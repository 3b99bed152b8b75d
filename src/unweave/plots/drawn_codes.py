"""What a model says of images drawn from its data: the codes behind every picture of latents.

Shapes: n images, d latents, K factors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import Activity, shown_activity
from unweave.errors import UnweaveError
from unweave.metrics.base import MetricError, Table, table
from unweave.metrics.discretise import bins, entropy, mutual_information
from unweave.models.drawn_images import NUM_DRAWN, drawn_rows
from unweave.models.shapes import check_shape

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = [
    "Seen",
    "check_data",
    "check_model",
    "followed_factors",
    "has_prior",
    "known_shares",
    "look",
]

FOLLOWED = 0.2
"""The share of a factor's entropy that a latent knows which follows it."""
ALSO = 0.5
"""The share of the best factor's share from which another one is named too."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Posteriors of images, and what made these.

    Args:
        means: `[n, d]`.
        logvars: `[n, d]`.
        factors: Classes `[n, K]`, or None where they are not known.
        names: Of the K factors.
        prior: Whether the model has one; without it, the spread of means stands for the KL.
        standard_noise: Whether its unused latents are N(0, 1); see `Method.standard_noise`.
        called: The names of latents; by default their numbers.
    """

    means: np.ndarray
    logvars: np.ndarray
    factors: np.ndarray | None = None
    names: Sequence[str] = ()
    prior: bool = True
    standard_noise: bool = True
    called: Sequence[str] = ()

    def name(self, latent: int) -> str:
        """What a latent is called."""
        return self.called[latent] if self.called else f"latent {latent}"

    @cached_property
    def activity(self) -> Activity:
        """How much each latent says, and which are active."""
        return shown_activity(
            self.means,
            self.logvars,
            deterministic=not self.prior,
            standard_noise=self.standard_noise,
        )

    @property
    def amounts(self) -> np.ndarray:
        """How much each latent says: its mean KL divergence in nats, or its spread, `[d]`."""
        return self.activity.amounts

    @property
    def measure(self) -> str:
        """What the amounts are, in a word."""
        return "KL" if self.prior else "spread"

    @property
    def active(self) -> np.ndarray:
        """Whether each latent is active, `[d]`."""
        return self.activity.active

    @property
    def order(self) -> np.ndarray:
        """Latents from the one that says most to the one that says least, `[d]`."""
        return self.activity.order

    @cached_property
    def follows(self) -> list[tuple[str, ...]]:
        """The factors that each latent follows; none for latents that are not active."""
        nothing: list[tuple[str, ...]] = [()] * self.means.shape[1]
        if self.factors is None:
            return nothing
        try:
            nats = self.amounts if self.prior else None
            found = followed_factors(self.means, self.factors, self.names, nats=nats)
        except MetricError:  # no factor varies
            return nothing
        return [names if on else () for names, on in zip(found, self.active, strict=True)]


def look(model: "Model", data: "Dataset", rows: int = NUM_DRAWN, seed: int = 0) -> Seen:
    """Encode images drawn from a data set, once each.

    Args:
        model: A trained model.
        data: What it was trained on, or data like that.
        rows: How many images; all where there are fewer.
        seed: Of the draw, and of images that are random given their factors.
    """
    from unweave.models.encoding import posteriors

    check_data(model, data)
    chosen = drawn_rows(data, rows, seed)
    (means,), (logvars,) = posteriors(model, data, chosen, seed=seed)
    known = data.grid or data.labels
    factors = None if known is None else known.factors(chosen)
    names = () if known is None else known.names
    return Seen(
        means,
        logvars,
        factors,
        names,
        has_prior(model),
        model.config.method.standard_noise,
        model.config.latent_names,
    )


def followed_factors(
    codes: Any, factors: Any, names: Sequence[str], least: float = FOLLOWED, nats: Any = None
) -> list[tuple[str, ...]]:
    """Which factors each code follows, by the share of their entropy that it knows.

    Shares are those of `known_shares`.

    Args:
        codes: `[n, d]`.
        factors: `[n, K]`; those with one value are followed by none.
        names: Of the K factors.
        least: The share that is needed.
        nats: Of each code, how much it tells of an image, `[d]`, such as its KL divergence, which
            bounds what it can tell of a factor; by default codes are taken to be exact.

    Returns:
        For each code, names of factors from the largest share down: the best one, and others
        with at least half its share. Mutual information sees also what has no order, such as
        shapes and angles.

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
    """The share of each factor's entropy that each code knows, `[d, K]`, less what is chance.

        share_jk = max(0, I(z_j; v_k) - chance_jk) / H(v_k)
        chance_jk = (f + 3 √(2 f)) / 2n,    f = (bins_j - 1) (values_k - 1)

    with codes cut into 20 bins as for MIG. Chance is the mean and three standard deviations of
    what independent variables would show.

    Args:
        rows: Codes `[n, d]` and factors `[n, K]`.
    """
    cut = bins(rows.codes)
    used = np.array([len(np.unique(column)) for column in cut.T])
    freedom = np.outer(used - 1, rows.sizes - 1)
    chance = (freedom + 3 * np.sqrt(2 * freedom)) / (2 * len(rows))
    return np.maximum(mutual_information(cut, rows.factors) - chance, 0) / entropy(rows.factors)


def has_prior(model: "Model") -> bool:
    """Whether codes were drawn towards a prior, so that its scale means something."""
    return not model.config.method.deterministic


def check_model(model: "Model") -> None:
    """Refuse what is not one model that can be drawn."""
    from unweave.models.model import Fleet, Model

    if not isinstance(model, Model):
        hint = f"a fleet of {len(model)}; take fleet[0]" if isinstance(model, Fleet) else model
        raise UnweaveError(f"one model is drawn at a time, but got {hint!s:.80}")
    if model.diverged_at[0] >= 0:
        raise UnweaveError(
            f"this model diverged at step {model.diverged_at[0]:,}, so there is nothing to see; "
            "draw another"
        )


def check_data(model: "Model", data: "Dataset") -> None:
    """Refuse data that the model cannot encode."""
    check_model(model)
    check_shape(model.shape, data.shape, data.name)
