"""Consensus: the factors that several models found, and which latent of a model is which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import LEAST_CORRELATION, Latents
from unweave.models.drawn_images import NUM_DRAWN
from unweave.select.latents import latents_of
from unweave.select.mcc import correlations, match, mcc_pairs
from unweave.select.ranking import partners, rank, reasons_of, typical
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["Consensus", "consensus"]

QUORUM = 0.5
ROUNDS = 20
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Consensus:
    """What several models agree on.

    Args:
        factors: A row per shared factor, found by most first: `factor`, `found_by` (models),
            `of` (models), `correlation` (the mean over members, each with the other members).
        members: A row per latent of a shared factor: `factor`, `run`, `model`, `latent`, `sign`
            (such that all members point the same way), `correlation` with the other members.
        ranking: The models, best first: `run`, `score` (the mean over shared factors of its
            latent's correlation, 0 where it has none), `reason`, `model`, `found`.
        codes: Each shared factor as the mean of its members' standardised ranks, turned the same
            way, `[n, F]`.
    """

    factors: pd.DataFrame
    members: pd.DataFrame
    ranking: pd.DataFrame
    codes: np.ndarray

    def __str__(self) -> str:
        """One line: `7 shared factors, all of them found by 38 of 50 models`."""
        num_factors, num_models = len(self.factors), len(self.ranking)
        if not num_factors:
            return f"no factor is shared by enough of {counted(num_models, 'model')}"
        complete = int((self.ranking["found"] == num_factors).sum())
        factors = counted(num_factors, "shared factor")
        all_of_them = ", all of them" if num_factors > 1 else ""
        return f"{factors}{all_of_them} found by {complete} of {counted(num_models, 'model')}"


def consensus(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    least_correlation: float = LEAST_CORRELATION,
    quorum: float = QUORUM,
    rows: int = NUM_DRAWN,
    seed: int = 0,
) -> Consensus:
    """Match the latents of several models, and group them into factors that these share.

        π_m = argmax_π Σ_a  mean_{(k, b) ∈ factor π(a)} |corr(rank z_a^m, rank z_b^k)|

    Models join in the order of their agreement with all others (`mcc`). Each one's informative
    latents are assigned to the factors found so far, one to one; a latent that correlates less
    than `least_correlation` with its factor opens a new one. Then every model is assigned once
    more, with all others in place, until nothing changes. A factor that a quorum found is shared.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: What trained models encode.
        least_correlation: Of a latent with the other members of its factor, in the mean.
        quorum: The share of models that must have found a shared factor.
        rows: How many images trained models encode.
        seed: Of the draw of images.

    Returns:
        A `Consensus`; printed, it says how many factors are shared and how many models found
        all of them.

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
    order = np.argsort(-np.nan_to_num(typical(mcc_pairs(latents), compared)), kind="stable")
    factor_of = _groups(np.abs(signed), latents.informative, order, least_correlation)
    shared = _shared(factor_of, max(quorum * len(latents), 2))
    factor_of = _renumbered(factor_of, shared)
    members = _members(latents, factor_of, signed, len(shared), order)
    return Consensus(
        _factors(members, len(shared), len(latents)),
        members,
        _ranking(latents, members, len(shared), compared),
        _codes(latents, members, len(shared)),
    )


def _groups(
    strength: np.ndarray, informative: np.ndarray, order: np.ndarray, least: float
) -> np.ndarray:
    """The number of each latent's factor, `[M, d]`, or -1.

    Args:
        strength: |correlations| `[M, d, M, d]`.
        informative: `[M, d]`.
        order: In which models join, `[M]`.
        least: Of a latent with its factor.
    """
    factor_of = np.full(informative.shape, NOBODY)
    for _ in range(ROUNDS):
        before = factor_of.copy()
        for m in order:
            factor_of[m] = NOBODY
            factor_of[m] = _assigned(strength[m], factor_of, informative[m], least)
        if _same_groups(before, factor_of):
            break
    return factor_of


def _assigned(
    strength: np.ndarray, factor_of: np.ndarray, informative: np.ndarray, least: float
) -> np.ndarray:
    """The factors of one model's latents, `[d]`: of those there are, or new ones."""
    members = factor_of != NOBODY
    numbers, factor = np.unique(factor_of[members], return_inverse=True)
    assigned = np.full(len(informative), NOBODY)
    if len(numbers):
        sums = [np.bincount(factor, each) for each in strength[:, members]]
        means = np.stack(sums) / np.bincount(factor)
        # Pairs below the threshold must not take the place of one above it.
        latents, places = match(np.where(means >= least, means, 0.0))
        close = (means[latents, places] >= least) & informative[latents]
        assigned[latents[close]] = numbers[places[close]]
    alone = np.flatnonzero(informative & (assigned == NOBODY))
    assigned[alone] = numbers.max(initial=NOBODY) + 1 + np.arange(len(alone))
    return assigned


def _same_groups(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two numberings group alike: numbers of factors with one latent change freely."""
    pairs = np.unique(np.stack([first.ravel(), second.ravel()]), axis=1)
    return all(len(np.unique(row)) == len(row) for row in pairs)


def _shared(factor_of: np.ndarray, least_models: float) -> np.ndarray:
    """The numbers of factors that enough models found, most first."""
    numbers, counts = np.unique(factor_of[factor_of != NOBODY], return_counts=True)
    most_first = np.argsort(-counts, kind="stable")
    return numbers[most_first][counts[most_first] >= least_models]


def _renumbered(factor_of: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Shared factors counted from 0 in the order given, all else -1."""
    result = np.full_like(factor_of, NOBODY)
    for place, number in enumerate(shared):
        result[factor_of == number] = place
    return result


def _members(
    latents: Latents,
    factor_of: np.ndarray,
    signed: np.ndarray,
    num_factors: int,
    order: Sequence[int] | np.ndarray,
) -> pd.DataFrame:
    """Every latent of a shared factor, with its sign and correlation; see `Consensus`."""
    rows = []
    for f in range(num_factors):
        found = [(m, a) for m in order for a in np.flatnonzero(factor_of[m] == f)]
        models, places = np.array(found).T
        between = signed[models[:, None], places[:, None], models, places]
        # The first member, of the model that agrees most with all others, shows the way.
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
    words = [
        f"found {n} of {counted(num_factors, 'shared factor')}; "
        f"{counted(int(own), 'informative latent')} of its own"
        for n, own in zip(found, latents.informative.sum(1) - found, strict=True)
    ]
    return rank(latents.runs, score, reasons_of(latents, compared, words), found=found)


def _codes(latents: Latents, members: pd.DataFrame, num_factors: int) -> np.ndarray:
    codes = np.zeros((latents.means.shape[1], num_factors))
    for row in members.itertuples():
        codes[:, row.factor] += row.sign * latents.ranked[row.model, :, row.latent]
    return codes / np.maximum(np.bincount(members["factor"], minlength=num_factors), 1)
