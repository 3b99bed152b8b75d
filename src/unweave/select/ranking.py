"""Rankings of models with reasons, and the choice of models to compare with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents, SelectionError
from unweave.errors import UnknownNameError

__all__ = ["COMPARISONS", "partners", "quantile_over_compared", "rank"]

COMPARISONS = ("all", "same")
DIVERGED = "diverged: its codes are not finite"


def rank(
    runs: Sequence[str],
    score: np.ndarray,
    reasons: Sequence[str],
    higher_is_better: bool = True,
    **columns: Any,
) -> pd.DataFrame:
    """Sort models by their score `[M]`, best first; models without a score come last.

    Returns:
        One row per model: `run`, `score`, `reason`, `model` (its index in the input), and the
        other columns. Equal scores keep the order of the input.

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
    """Return whether models i and j are compared, `[M, M]`; no model is compared with itself.

    Args:
        latents: Codes of the models.
        compare: `"all"` (default): all other models; `"same"`: models with the same
            hyperparameters and another seed.
    """
    if compare not in COMPARISONS:
        raise UnknownNameError("comparison", compare, COMPARISONS)
    allowed = latents.usable[:, None] & latents.usable & ~np.eye(len(latents), dtype=bool)
    if compare == "all":
        return allowed
    if not latents.settings:
        raise SelectionError(
            'compare="same" needs the settings of each model; pass them to Latents, or use '
            'compare="all"',
            subject="settings",
        )
    settings = np.unique(latents.settings, return_inverse=True)[1]
    return allowed & (settings[:, None] == settings)


def quantile_over_compared(
    pairs: np.ndarray, compared: np.ndarray, share: float = 0.5
) -> np.ndarray:
    """Compute a quantile over i of `pairs[i, j]` for compared models, `[M, …]`, else NaN.

    Args:
        pairs: Values of pairs of models, `[M, M, …]`.
        compared: Whether each pair counts, `[M, M]`.
        share: Share of the values below the quantile (default 0.5, the median).

    Example:
        >>> quantile_over_compared(np.array([[1.0, 0.2], [0.6, 1.0]]), ~np.eye(2, dtype=bool))
        array([0.6, 0.2])
    """
    found = np.full(pairs.shape[1:], np.nan)
    for j in np.flatnonzero(compared.any(0)):
        found[j] = np.quantile(pairs[compared[:, j], j], share, axis=0)
    return found


def reasons_of(latents: Latents, compared: np.ndarray, texts: Sequence[str]) -> list[str]:
    """Return the text for each model, or the reason why it could not be compared."""
    reasons = [
        text if count else "there is no other model to compare with"
        for text, count in zip(texts, compared.sum(0), strict=True)
    ]
    return [
        reason if usable else DIVERGED
        for reason, usable in zip(reasons, latents.usable, strict=True)
    ]
