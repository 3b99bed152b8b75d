"""A ranking of models, best first, with reasons; and whom a model is compared with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents, SelectionError
from unweave.errors import UnknownNameError

__all__ = ["COMPARISONS", "partners", "rank", "typical"]

COMPARISONS = ("all", "same")
DIVERGED = "it diverged: its codes are not finite"


def rank(
    runs: Sequence[str],
    score: np.ndarray,
    reasons: Sequence[str],
    higher_is_better: bool = True,
    **columns: Any,
) -> pd.DataFrame:
    """Models sorted by their score, best first; those without one come last.

    Args:
        runs: Their names.
        score: `[M]`.
        reasons: Why each has its score, in words.
        higher_is_better: Of the score.
        columns: Further numbers, `[M]` each.

    Returns:
        A row per model: `run`, `score`, `reason`, `model` (its place in what was given), and the
        further columns. Equal scores keep the order given.

    Example:
        >>> rank(["a", "b"], np.array([0.1, 0.9]), ["poor", "good"])["run"].tolist()
        ['b', 'a']
    """
    table = pd.DataFrame(
        {"run": runs, "score": score, "reason": reasons, "model": np.arange(len(runs)), **columns}
    )
    ordered = table.sort_values(
        "score", ascending=not higher_is_better, kind="stable", na_position="last"
    )
    return ordered.reset_index(drop=True)


def partners(latents: Latents, compare: str = "all") -> np.ndarray:
    """Whether model j is compared with model i, `[M, M]`, never with itself.

    Args:
        latents: The models.
        compare: `"all"`: with every other model; `"same"`: with those of the same
            hyperparameters and another seed.
    """
    if compare not in COMPARISONS:
        raise UnknownNameError("comparison", compare, COMPARISONS)
    allowed = latents.usable[:, None] & latents.usable & ~np.eye(len(latents), dtype=bool)
    if compare == "all":
        return allowed
    if not latents.settings:
        raise SelectionError(
            'compare="same" needs the settings of each model; give them to Latents, or compare all'
        )
    settings = np.unique(latents.settings, return_inverse=True)[1]
    return allowed & (settings[:, None] == settings)


def typical(pairs: np.ndarray, compared: np.ndarray) -> np.ndarray:
    """The median over i of `pairs[i, j]` where the two are compared, `[M, …]`, else NaN.

    Args:
        pairs: `[M, M, …]`.
        compared: Of `partners`, `[M, M]`.

    Example:
        >>> typical(np.array([[1.0, 0.2], [0.6, 1.0]]), ~np.eye(2, dtype=bool))
        array([0.6, 0.2])
    """
    medians = np.full(pairs.shape[1:], np.nan)
    for j in np.flatnonzero(compared.any(0)):
        medians[j] = np.median(pairs[compared[:, j], j], axis=0)
    return medians


def reasons_of(latents: Latents, compared: np.ndarray, words: Sequence[str]) -> list[str]:
    """Each model's words, or why there is nothing to say of it."""
    return [
        _reason(usable, count, word)
        for usable, count, word in zip(latents.usable, compared.sum(0), words, strict=True)
    ]


def _reason(usable: bool, count: int, word: str) -> str:
    if not usable:
        return DIVERGED
    return word if count else "there is no other model to compare it with"
