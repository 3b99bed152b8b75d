"""Key result 4, part 2: whether good hyperparameters transfer to other data and metrics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.correlation import spearman
from unweave.analysis.study_table import (
    DATA,
    METHOD,
    SEED,
    STRENGTH,
    StudyTableError,
    cells,
    higher_is_better,
    metrics_of,
    require,
    with_note,
)

__all__ = ["OTHER", "SAME", "SAME_METRIC", "data_agreement", "transfer"]

SAME = "same metric, same data"
SAME_METRIC = "same metric, other data"
OTHER = "other metric, other data"
PUBLISHED = {SAME: 0.807, SAME_METRIC: 0.593, OTHER: 0.549}
"""Rates published by Locatello et al., arXiv:1811.12359."""

CHANCE = 0.5
NOTE = (
    "Chance level is 50 %: two random configurations beat each other equally often, and a tie "
    "counts one half. The standard error describes the random draws, not the choice of models."
)

MEANS_NOTE = (
    "Spearman's rank correlation of mean scores over configurations. A choice made on one data "
    "set transfers to the other only if it is near 1."
)


def transfer(
    table: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Compute how often a configuration chosen in one setting beats a random one in another.

    A configuration is a method with a strength. Each draw samples a metric, a data set and a seed,
    and chooses the configuration c with the best score there. On the target, c with another seed
    is compared with a random configuration c' with another seed:

        rate = P(s(c) > s(c')) + ½ P(s(c) = s(c'))

    Args:
        table: A study table with one model per data set, configuration and seed.
        metrics: Columns (default: all disentanglement scores in the table).
        draws: Number of draws (default 10,000).
        seed: Random seed of the draws.

    Returns:
        One row per `kind` (same metric and data set; same metric, other data set; both others):
        `rate`, its `standard_error`, `chance`, `published`, `draws`, and `left_out`, the number of
        draws that are ignored because a model has no score. The rate is NaN if the table has too
        few metrics or data sets.

    Notes:
        The two seeds on the target are sampled independently, excluding the seed of the source.
        Ties between best configurations are broken at random.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    if draws < 1:
        raise StudyTableError.must("draws", "be at least 1", draws)
    chosen = metrics_of(table, metrics)
    scores, missing = _grid(table, chosen)
    found = []
    for number, kind in enumerate(PUBLISHED):
        generator = np.random.default_rng([seed, number])
        outcomes = _outcomes(scores, kind, draws, generator)
        valid = len(outcomes)
        found.append(
            {
                "kind": kind,
                "rate": float(outcomes.mean()) if valid else float("nan"),
                "standard_error": float(outcomes.std() / np.sqrt(valid))
                if valid
                else float("nan"),
                "chance": CHANCE,
                "published": PUBLISHED[kind],
                "draws": valid,
                "left_out": draws - valid,
            }
        )
    note = f"{NOTE} {missing:,} scores of {scores.size:,} are missing."
    return with_note(pd.DataFrame(found), note)


def _outcomes(
    scores: np.ndarray, kind: str, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Return 1 (win), ½ (tie) or 0 for every draw with all scores `[data, C, seeds, metrics]`."""
    num_data, num_configurations, num_seeds, num_metrics = scores.shape
    if (kind != SAME and num_data < 2) or (kind == OTHER and num_metrics < 2):
        return np.empty(0)
    metric = generator.integers(num_metrics, size=draws)
    data = generator.integers(num_data, size=draws)
    seeds = generator.integers(num_seeds, size=draws)
    best = _best(scores[data, :, seeds, metric], generator)
    if kind == OTHER:
        metric = _another(metric, num_metrics, generator)
    if kind != SAME:
        data = _another(data, num_data, generator)
    random = generator.integers(num_configurations, size=draws)
    selected, baseline = (
        scores[data, configuration, _another(seeds, num_seeds, generator), metric]
        for configuration in (best, random)
    )
    # Without scores at the source, there is nothing to select.
    valid = (best >= 0) & ~np.isnan(selected) & ~np.isnan(baseline)
    return ((selected > baseline) + 0.5 * (selected == baseline))[valid]


def _best(values: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the best configuration of every row `[draws, C]`, ties at random; -1 for none."""
    top = np.fmax.reduce(values, axis=1)
    tie_breaks = np.where(values == top[:, None], generator.random(values.shape), -1.0)
    return np.where(np.isnan(top), -1, tie_breaks.argmax(1))


def _another(taken: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Sample uniformly from `count` numbers except the taken one."""
    return (taken + generator.integers(1, count, size=len(taken))) % count


def _grid(table: pd.DataFrame, metrics: Sequence[str]) -> tuple[np.ndarray, int]:
    """Return scores `[data, configurations, seeds, metrics]`, NaN if missing, and their count."""
    require(table, (DATA, METHOD, STRENGTH, SEED))
    index, counts = [], []
    for keys in ((DATA,), (METHOD, STRENGTH), (SEED,)):
        numbers, combinations = cells(table, keys)
        index.append(numbers)
        counts.append(len(combinations))
    if counts[2] < 2:
        raise StudyTableError(
            "transfer needs models with at least two seeds, got one", subject=SEED, value=1
        )
    _check_duplicates(table, np.ravel_multi_index(index, counts))
    grid = np.full((*counts, len(metrics)), np.nan)
    grid[tuple(index)] = higher_is_better(table, metrics)
    return grid, int(np.isnan(grid).sum())


def _check_duplicates(table: pd.DataFrame, place: np.ndarray) -> None:
    duplicates = np.flatnonzero(pd.Series(place).duplicated())
    if len(duplicates):
        row: dict[str, Any] = table.iloc[duplicates[0]][[DATA, METHOD, STRENGTH, SEED]].to_dict()
        named = ", ".join(f"{key} {value}" for key, value in row.items())
        raise StudyTableError(
            f"several models have {named}; keep one of them, for example by filtering on the "
            "number of steps",
            subject="table",
            value=row,
        )


def data_agreement(table: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Measure how similarly data sets rank configurations, for each metric.

        ρ = corr(rank(mean score on data), rank(mean score on other))    over configurations

    Args:
        table: A study table.
        metrics: Columns (default: all disentanglement scores in the table).

    Returns:
        One row per `metric` and ordered pair of data sets `data`, `other`: `spearman` of means
        over seeds, `configurations` in both, and `left_out`, the number in only one.

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
    return with_note(pd.concat(frames, ignore_index=True), MEANS_NOTE)
