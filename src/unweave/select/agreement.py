"""What rankings by agreement share: a matrix of pairs becomes a ranking by medians."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.select.ranking import partners, rank, reasons_of, typical
from unweave.text import counted

__all__ = ["by_agreement"]


def by_agreement(
    latents: Latents,
    pairs: np.ndarray,
    compare: str,
    words: Callable[[float, str], str],
    higher_is_better: bool = True,
) -> pd.DataFrame:
    """Rank models by the median of their pairs.

        score_j = median_i pairs_ij

    Args:
        latents: The models.
        pairs: `[M, M]`.
        compare: See `partners`.
        words: A reason, from a score and with whom the model was compared.
        higher_is_better: Of the pairs.
    """
    compared = partners(latents, compare)
    score, num_compared = typical(pairs, compared), compared.sum(0)
    reasons = [
        words(value, counted(int(others), "other model"))
        for value, others in zip(score, num_compared, strict=True)
    ]
    return rank(
        latents.runs,
        score,
        reasons_of(latents, compared, reasons),
        higher_is_better,
        informative=latents.informative.sum(1),
        compared=num_compared,
    )
