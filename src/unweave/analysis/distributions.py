"""Key result 3, part 1: scores by method and strength, and how much they overlap."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from unweave.analysis.study_table import (
    DATA,
    METHOD,
    STRENGTH,
    cells,
    higher_is_better,
    metrics_of,
    numbers,
    parts,
    with_note,
)

__all__ = ["method_wins", "score_distributions", "seed_against_strength", "win_rate"]

SCORES_NOTE = (
    "Strengths are comparable only within a method. Compare differences between cells with the "
    "spread over seeds."
)
WINS_NOTE = "0.5 is chance level: models of both methods are then equally good."
SEED_NOTE = "0 means that strength alone decides, 0.5 that only the seed matters."


def score_distributions(table: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Summarise scores over seeds by data set, method and strength.

    Args:
        table: A study table.
        metrics: Columns (default: all disentanglement scores in the table).

    Returns:
        One row per data set, method, strength and `metric`: `mean`, `std` (population), `min`,
        `low` (quartile), `median`, `high` (quartile), `max`, `models`, and `left_out`, the number
        of models without this score.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.

    Example:
        >>> table = pd.DataFrame({"strength": [1, 1, 2], "mig": [1, 3, 5]})
        >>> table = table.assign(data="a", method="vae")
        >>> score_distributions(table)[["strength", "mean", "std", "models"]].values.tolist()
        [[1.0, 2.0, 1.0, 2.0], [2.0, 5.0, 0.0, 1.0]]
    """
    found = summarise(table, metrics_of(table, metrics), (DATA, METHOD, STRENGTH))
    return with_note(found, SCORES_NOTE)


def summarise(table: pd.DataFrame, columns: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Compute mean, spread and quartiles of columns in each cell, as in `score_distributions`."""
    index, combinations = cells(table, by)
    values = numbers(table, columns)
    found = []
    for name, column in zip(columns, values.T, strict=True):
        grouped = pd.Series(column).groupby(index)
        models = grouped.count()
        statistics = {
            "metric": name,
            "mean": grouped.mean(),
            "std": grouped.std(ddof=0),
            "min": grouped.min(),
            "low": grouped.quantile(0.25),
            "median": grouped.median(),
            "high": grouped.quantile(0.75),
            "max": grouped.max(),
            "models": models,
            "left_out": grouped.size() - models,
        }
        found.append(combinations.assign(**statistics))
    return pd.concat(found, ignore_index=True)


def method_wins(table: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """Compute how often a random model of one method scores better than one of another.

        P(s > s') + ½ P(s = s'),    s from the method, s' from the other

    Args:
        table: A study table.
        metrics: Columns (default: all disentanglement scores in the table).

    Returns:
        One row per data set, `metric`, `method` and `other`: `win_rate`, `models` of the method,
        `other_models`, and `left_out`, the number of models of both without this score. A win
        rate near 1 means that the method dominates.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    chosen = metrics_of(table, metrics)
    found = []
    for part, rows in parts(table, (DATA,)):
        index, methods = cells(rows, (METHOD,))
        names, sizes = methods[METHOD].tolist(), np.bincount(index)
        for metric, column in zip(chosen, higher_is_better(rows, chosen).T, strict=True):
            scores = [_present(column[index == number]) for number in range(len(names))]
            found += [
                {
                    **part,
                    "metric": metric,
                    METHOD: names[a],
                    "other": names[b],
                    "win_rate": win_rate(scores[a], scores[b]),
                    "models": len(scores[a]),
                    "other_models": len(scores[b]),
                    "left_out": sizes[a] + sizes[b] - len(scores[a]) - len(scores[b]),
                }
                for a, b in product(range(len(names)), repeat=2)
                if a != b
            ]
    columns = [DATA, "metric", METHOD, "other", "win_rate", "models", "other_models", "left_out"]
    return with_note(pd.DataFrame(found, columns=columns), WINS_NOTE)


def seed_against_strength(
    table: pd.DataFrame, metrics: Sequence[str] | None = None
) -> pd.DataFrame:
    """Compute how often a random seed at the worst strength beats one at the best.

        P(s_worst > s_best) + ½ P(s_worst = s_best)

    Args:
        table: A study table.
        metrics: Columns (default: all disentanglement scores in the table).

    Returns:
        One row per data set, method and `metric`: `best` and `worst`, the strengths with the best
        and the worst mean score; `win_rate` of the worst; `best_seed_at_worst` and
        `worst_seed_at_best`, their scores; `models` at the two; and `left_out`, the number of
        models of the method without this score. Methods with one strength have no row.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    chosen = metrics_of(table, metrics)
    found = []
    for part, rows in parts(table, (DATA, METHOD)):
        index, strengths = cells(rows, (STRENGTH,))
        raw, better = numbers(rows, chosen), higher_is_better(rows, chosen)
        for k, metric in enumerate(chosen):
            scored = np.flatnonzero(~np.isnan(better[:, k]))
            means = pd.Series(better[scored, k]).groupby(index[scored]).mean()
            if len(means) < 2:
                continue
            best, worst = int(means.idxmax()), int(means.idxmin())
            good, bad = scored[index[scored] == best], scored[index[scored] == worst]
            found.append(
                {
                    **part,
                    "metric": metric,
                    "best": strengths[STRENGTH][best],
                    "worst": strengths[STRENGTH][worst],
                    "win_rate": win_rate(better[bad, k], better[good, k]),
                    "best_seed_at_worst": raw[bad[better[bad, k].argmax()], k],
                    "worst_seed_at_best": raw[good[better[good, k].argmin()], k],
                    "models": len(good) + len(bad),
                    "left_out": len(rows) - len(scored),
                }
            )
    columns = [DATA, METHOD, "metric", "best", "worst", "win_rate", "best_seed_at_worst"]
    columns += ["worst_seed_at_best", "models", "left_out"]
    return with_note(pd.DataFrame(found, columns=columns), SEED_NOTE)


def win_rate(scores: np.ndarray, others: np.ndarray) -> float:
    """Compute P(s > s') + ½ P(s = s') for random members of two samples; NaN if one is empty.

    Example:
        >>> win_rate(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
        0.75
    """
    if not len(scores) or not len(others):
        return float("nan")
    ranked = np.sort(others)
    below = np.searchsorted(ranked, scores, "left") + np.searchsorted(ranked, scores, "right")
    return float(below.mean() / (2 * len(others)))


def _present(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]
