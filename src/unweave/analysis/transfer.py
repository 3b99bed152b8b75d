"""The fourth result, second part: are good hyperparameters good elsewhere?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.columns import (
    DATA,
    METHOD,
    SEED,
    STRENGTH,
    StudyTableError,
    cells,
    higher_is_better,
    metrics_of,
    require,
)
from unweave.analysis.correlation import spearman

__all__ = ["OTHER", "SAME", "SAME_METRIC", "data_agreement", "transfer"]

SAME = "same metric, same data"
SAME_METRIC = "same metric, other data"
OTHER = "other metric, other data"
PUBLISHED = {SAME: 0.807, SAME_METRIC: 0.593, OTHER: 0.549}
"""Locatello et al., arXiv:1811.12359."""

CHANCE = 0.5
NOTE = (
    "Chance is 50 %: two configurations drawn at random beat each other equally often, and a tie "
    "counts one half. The standard error is that of the draws from these models, not of the "
    "models."
)

MEANS_NOTE = (
    "Spearman's rank correlation over configurations of their mean scores; only near 1 "
    "does a choice made on one data set carry over to the other."
)


def transfer(
    table: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """How often a configuration chosen in one place beats a random one in another.

    A configuration is a method with a strength. Each draw takes a metric, a data set and a seed at
    random and the configuration c that scores best there. On the target, c at another seed is
    compared with a random configuration c' at another seed:

        rate = P(s(c) > s(c')) + ½ P(s(c) = s(c'))

    Args:
        table: A study table with one model per data set, configuration and seed.
        metrics: Columns; by default every score of disentanglement that the table has.
        draws: How many.
        seed: Of the draws.

    Returns:
        One row per `kind` (same metric and data set; same metric, other data set; both others):
        `rate`, its `standard_error`, `chance`, `published`, `draws`, and `left_out`, the draws
        that met a model without score and do not count. The rate is NaN where the table has too
        few metrics or data sets for a kind.

    Notes:
        The two seeds on the target are drawn apart from each other, from all but the source's. Of
        configurations that score equally best, one is drawn.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    if draws < 1:
        raise StudyTableError(f"transfer needs at least one draw, but got {draws=}")
    chosen = metrics_of(table, metrics)
    scores, missing = _grid(table, chosen)
    found = []
    for number, kind in enumerate(PUBLISHED):
        generator = np.random.default_rng([seed, number])
        outcomes = _outcomes(scores, kind, draws, generator)
        found.append({"kind": kind, **_rate(outcomes), "left_out": draws - len(outcomes)})
    result = pd.DataFrame(found)
    result.insert(3, "chance", CHANCE)
    result.insert(4, "published", result["kind"].map(PUBLISHED))
    result.attrs["note"] = f"{NOTE} {missing:,} scores of {scores.size:,} are missing."
    return result


@dataclass(frozen=True)
class _Places:
    """Drawn metrics and data sets, `[draws]` each, as numbers."""

    metric: np.ndarray
    data: np.ndarray


def _outcomes(
    scores: np.ndarray, kind: str, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """1, ½ or 0 for every draw that met scored models only; scores `[data, C, seeds, metrics]`."""
    num_data, num_configurations, num_seeds, num_metrics = scores.shape
    if (kind != SAME and num_data < 2) or (kind == OTHER and num_metrics < 2):
        return np.empty(0)
    source = _Places(
        generator.integers(num_metrics, size=draws), generator.integers(num_data, size=draws)
    )
    seeds = generator.integers(num_seeds, size=draws)
    best = _best(scores[source.data, :, seeds, source.metric], generator)
    target = _Places(
        _another(source.metric, num_metrics, generator) if kind == OTHER else source.metric,
        source.data if kind == SAME else _another(source.data, num_data, generator),
    )
    random = generator.integers(num_configurations, size=draws)
    selected, baseline = (
        scores[target.data, configuration, _another(seeds, num_seeds, generator), target.metric]
        for configuration in (best, random)
    )
    # Where nothing was scored at the source there was nothing to select.
    met = (best >= 0) & ~np.isnan(selected) & ~np.isnan(baseline)
    return ((selected > baseline) + 0.5 * (selected == baseline))[met]


def _best(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The best configuration of every row `[draws, C]`, a random one of several; -1 for none."""
    top = np.fmax.reduce(values, axis=1)
    lots = np.where(values == top[:, None], generator.random(values.shape), -1.0)
    return np.where(np.isnan(top), -1, lots.argmax(1))


def _another(taken: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Any but the taken one of `count` numbers, uniformly."""
    return (taken + generator.integers(1, count, size=len(taken))) % count


def _rate(outcomes: np.ndarray) -> dict[str, float]:
    draws = len(outcomes)
    return {
        "rate": float(outcomes.mean()) if draws else float("nan"),
        "standard_error": float(outcomes.std() / np.sqrt(draws)) if draws else float("nan"),
        "draws": draws,
    }


def _grid(table: pd.DataFrame, metrics: Sequence[str]) -> tuple[np.ndarray, int]:
    """Scores `[data, configurations, seeds, metrics]`, NaN where missing, and how many are."""
    require(table, (DATA, METHOD, STRENGTH, SEED))
    index, counts = [], []
    for keys in ((DATA,), (METHOD, STRENGTH), (SEED,)):
        numbers, combinations = cells(table, keys)
        index.append(numbers)
        counts.append(len(combinations))
    if counts[2] < 2:
        raise StudyTableError("transfer needs models of at least two seeds, but got one seed")
    _refuse_twins(table, np.ravel_multi_index(index, counts))
    grid = np.full((*counts, len(metrics)), np.nan)
    grid[tuple(index)] = higher_is_better(table, metrics)
    return grid, int(np.isnan(grid).sum())


def _refuse_twins(table: pd.DataFrame, place: np.ndarray) -> None:
    twins = np.flatnonzero(pd.Series(place).duplicated())
    if len(twins):
        row: dict[str, Any] = table.iloc[twins[0]][[DATA, METHOD, STRENGTH, SEED]].to_dict()
        named = ", ".join(f"{key} {value}" for key, value in row.items())
        raise StudyTableError(
            f"several models share {named}; keep one of each, for example those of one number of "
            "steps"
        )


def data_agreement(table: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """How far data sets rank configurations alike, metric by metric.

        ρ = corr(rank(mean score on data), rank(mean score on other))    over configurations

    Args:
        table: A study table.
        metrics: Columns; by default every score of disentanglement that the table has.

    Returns:
        One row per `metric` and ordered pair of data sets `data`, `other`: `spearman` of the means
        over seeds, `configurations` that both have, and `left_out`, those that only one has.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359: only
        dSprites and Color-dSprites agree.
    """
    chosen = metrics_of(table, metrics)
    places, names = cells(table, (DATA,))
    configurations, kinds = cells(table, (METHOD, STRENGTH))
    data = names[DATA].tolist()
    frames = []
    for metric, column in zip(chosen, higher_is_better(table, chosen).T, strict=True):
        means = np.full((len(kinds), len(data)), np.nan)
        grouped = pd.Series(column).groupby([configurations, places]).mean()
        means[tuple(np.array(grouped.index.tolist()).T)] = grouped
        rho, count = spearman(means, means)
        frames.append(
            pd.DataFrame(
                {
                    "metric": metric,
                    DATA: np.repeat(data, len(data)),
                    "other": np.tile(data, len(data)),
                    "spearman": rho.ravel(),
                    "configurations": count.ravel(),
                    "left_out": len(kinds) - count.ravel(),
                }
            )
        )
    result = pd.concat(frames, ignore_index=True)
    result.attrs["note"] = MEANS_NOTE
    return result
