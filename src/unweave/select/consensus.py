"""Consensus: factors found by several models, and the latent of each model that encodes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import MIN_CORRELATION, Latents
from unweave.io.arguments import renamed_arguments
from unweave.models.images import NUM_SAMPLED
from unweave.select.agreement import correlations, match, mcc_pairs
from unweave.select.latents import latents_of
from unweave.select.ranking import partners, quantile_over_compared, rank, reasons_of
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["Consensus", "consensus"]

QUORUM = 0.5
ROUNDS = 20
UNASSIGNED = -1


@dataclass(frozen=True, eq=False)
class Consensus:
    """Factors that several models agree on.

    Args:
        factors: One row per shared factor, most frequent first: `factor`, `found_by` (models),
            `of` (models that have not diverged), `correlation` (mean over members of the
            correlation with the others).
        members: One row per latent of a shared factor: `factor`, `run`, `model`, `latent`, `sign`
            (aligns the directions of all members), `correlation` with the other members.
        ranking: Models, best first: `run`, `score` (mean correlation of its latents over shared
            factors, 0 for factors that it lacks), `reason`, `model`, `found`.
        codes: Each shared factor as the mean of its members' standardised ranks, with aligned
            signs, `[n, F]`.
    """

    factors: pd.DataFrame
    members: pd.DataFrame
    ranking: pd.DataFrame
    codes: np.ndarray

    def __str__(self) -> str:
        """Return a line such as `7 shared factors, all of them found by 38 of 50 models`."""
        num_factors = len(self.factors)
        if not num_factors:
            return f"the {counted(len(self.ranking), 'model')} do not agree on any factor"
        num_models = int(self.factors["of"].iloc[0])
        complete = int((self.ranking["found"] == num_factors).sum())
        factors = counted(num_factors, "shared factor")
        if not complete:
            return f"{factors}; none of the {counted(num_models, 'model')} found all of them"
        all_of_them = ", all of them" if num_factors > 1 else ""
        return f"{factors}{all_of_them} found by {complete} of {counted(num_models, 'model')}"


@renamed_arguments(least_correlation="min_correlation")
def consensus(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    min_correlation: float = MIN_CORRELATION,
    quorum: float = QUORUM,
    rows: int = NUM_SAMPLED,
    seed: int = 0,
) -> Consensus:
    """Match the latents of several models and group them into shared factors.

        π_m = argmax_π Σ_a  mean_{(k, b) ∈ factor π(a)} |corr(rank z_a^m, rank z_b^k)|

    Models join in the order of their agreement with all others (`mcc`). The informative latents
    of each model are assigned to the existing factors, one to one; a latent that correlates less
    than `min_correlation` with its factor starts a new one. Then every model is reassigned, with
    all others in place, until nothing changes. A factor found by a quorum of models is shared.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: Data set for trained models to encode.
        min_correlation: Smallest mean correlation of a latent with other members of its factor.
        quorum: Share of models that must have found a shared factor.
        rows: Number of images for trained models to encode.
        seed: Random seed for sampling images.

    Returns:
        A `Consensus`. Printed, it shows how many factors are shared and how many models found all
        of them.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(1000, 3))
        >>> noise = rng.normal(size=(1000, 1))
        >>> codes = np.stack([z, -z[:, ::-1], 2 * z, np.column_stack([z[:, 1:], noise])])
        >>> agreed = consensus(codes)
        >>> print(agreed)
        3 shared factors, all of them found by 3 of 4 models
        >>> agreed.factors["found_by"].tolist()
        [4, 4, 3]
    """
    latents = latents_of(models, data, rows, seed)
    signed = correlations(latents)
    compared = partners(latents)
    order = np.argsort(
        -np.nan_to_num(quantile_over_compared(mcc_pairs(latents), compared)), kind="stable"
    )
    factor_of = _groups(np.abs(signed), latents.informative, order, min_correlation)
    num_models = int(latents.usable.sum())
    factor_of, num_factors = _shared(factor_of, max(quorum * num_models, 2))
    members = _members(latents, factor_of, signed, num_factors, order)
    return Consensus(
        _factors(members, num_factors, num_models),
        members,
        _ranking(latents, members, num_factors, compared),
        _codes(latents, members, num_factors),
    )


def _groups(
    strength: np.ndarray, informative: np.ndarray, order: np.ndarray, least: float
) -> np.ndarray:
    """Return the factor of each latent, `[M, d]`, or -1; models join in the given order.

    `strength` holds absolute correlations `[M, d, M, d]`; a latent needs `least` with its factor.
    """
    factor_of = np.full(informative.shape, UNASSIGNED)
    for _ in range(ROUNDS):
        before = factor_of.copy()
        for m in order:
            factor_of[m] = UNASSIGNED
            factor_of[m] = _assigned(strength[m], factor_of, informative[m], least)
        if _same_groups(before, factor_of):
            break
    return factor_of


def _assigned(
    strength: np.ndarray, factor_of: np.ndarray, informative: np.ndarray, least: float
) -> np.ndarray:
    """Assign the latents of one model to existing or new factors, `[d]`."""
    members = factor_of != UNASSIGNED
    numbers, factor = np.unique(factor_of[members], return_inverse=True)
    assigned = np.full(len(informative), UNASSIGNED)
    if len(numbers):
        sums = [np.bincount(factor, each) for each in strength[:, members]]
        means = np.stack(sums) / np.bincount(factor)
        # A pair below the threshold must not displace a pair above it.
        latents, places = match(np.where(means >= least, means, 0.0))
        close = (means[latents, places] >= least) & informative[latents]
        assigned[latents[close]] = numbers[places[close]]
    alone = np.flatnonzero(informative & (assigned == UNASSIGNED))
    assigned[alone] = numbers.max(initial=UNASSIGNED) + 1 + np.arange(len(alone))
    return assigned


def _same_groups(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two numberings give the same groups; numbers of single latents may differ."""
    pairs = np.unique(np.stack([first.ravel(), second.ravel()]), axis=1)
    return all(len(np.unique(row)) == len(row) for row in pairs)


def _shared(factor_of: np.ndarray, min_models: float) -> tuple[np.ndarray, int]:
    """Return the shared factors, numbered from 0 by frequency, others as -1; and their number."""
    numbers, counts = np.unique(factor_of[factor_of != UNASSIGNED], return_counts=True)
    most_first = np.argsort(-counts, kind="stable")
    shared = numbers[most_first][counts[most_first] >= min_models]
    result = np.full_like(factor_of, UNASSIGNED)
    for place, number in enumerate(shared):
        result[factor_of == number] = place
    return result, len(shared)


def _members(
    latents: Latents,
    factor_of: np.ndarray,
    signed: np.ndarray,
    num_factors: int,
    order: Sequence[int] | np.ndarray,
) -> pd.DataFrame:
    """Return every latent of a shared factor with its sign and correlation; see `Consensus`."""
    rows = []
    for f in range(num_factors):
        found = [(m, a) for m in order for a in np.flatnonzero(factor_of[m] == f)]
        models, places = np.array(found).T
        between = signed[models[:, None], places[:, None], models, places]
        # Signs are relative to the first member, from the model that agrees most with all others.
        signs = np.where(between[0] < 0, -1, 1)
        strength = (np.abs(between).sum(1) - 1) / (len(found) - 1)
        rows += [
            {
                "factor": f,
                "run": latents.runs[m],
                "model": int(m),
                "latent": int(a),
                "sign": int(sign),
                "correlation": float(value),
            }
            for (m, a), sign, value in zip(found, signs, strength, strict=True)
        ]
    columns = ["factor", "run", "model", "latent", "sign", "correlation"]
    return pd.DataFrame(rows, columns=columns)


def _factors(members: pd.DataFrame, num_factors: int, num_models: int) -> pd.DataFrame:
    by_factor = members.groupby("factor")["correlation"]
    return pd.DataFrame(
        {
            "factor": np.arange(num_factors),
            "found_by": by_factor.size().to_numpy(int),
            "of": num_models,
            "correlation": by_factor.mean().to_numpy(float),
        }
    )


def _ranking(
    latents: Latents, members: pd.DataFrame, num_factors: int, compared: np.ndarray
) -> pd.DataFrame:
    models = members["model"].to_numpy(int)
    found = np.bincount(models, minlength=len(latents))
    weights = members["correlation"].to_numpy(float)
    total = np.bincount(models, weights, minlength=len(latents))
    score = np.where(compared.any(0), total / max(num_factors, 1), np.nan)
    reasons = [
        f"found {n} of {counted(num_factors, 'shared factor')}; "
        f"{counted(int(own), 'informative latent')} not shared"
        for n, own in zip(found, latents.informative.sum(1) - found, strict=True)
    ]
    return rank(latents.runs, score, reasons_of(latents, compared, reasons), found=found)


def _codes(latents: Latents, members: pd.DataFrame, num_factors: int) -> np.ndarray:
    codes = np.zeros((latents.means.shape[1], num_factors))
    for row in members.itertuples():
        codes[:, row.factor] += row.sign * latents.ranked[row.model, :, row.latent]
    return codes / np.maximum(np.bincount(members["factor"], minlength=num_factors), 1)
