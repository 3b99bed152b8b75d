"""What metrics say of a perfect code, and of the same code entangled."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from unweave.evaluation.choice import choose
from unweave.evaluation.evaluate import column
from unweave.papers.common_assumptions.theory import impossibility
from unweave.papers.common_assumptions.theory.impossibility import Entanglement, Marginal
from unweave.papers.theory import TheoryError

__all__ = ["CLASSES", "collapse", "perfect_code"]

CLASSES = 5
"""Equally probable classes of a factor, of which metrics ask."""


def perfect_code(
    priors: Sequence[Marginal], count: int = 20_000, seed: int = 0, classes: int = CLASSES
) -> tuple[np.ndarray, np.ndarray]:
    """A code as disentangled as can be: codes and factors, `[n, d]` each.

    Codes are draws of the priors; each factor is its code cut into equally probable classes.
    """
    codes = impossibility.draw(priors, count, seed)
    shares = [prior.cdf(column) for prior, column in zip(priors, codes.T, strict=True)]
    return codes, np.minimum(np.stack(shares, 1) * classes, classes - 1).astype(np.int64)


def collapse(
    entanglement: Entanglement,
    metrics: str | Iterable[str] = "classic",
    count: int = 20_000,
    seed: int = 0,
    classes: int = CLASSES,
) -> pd.DataFrame:
    """What metrics say of a perfect code z, and of f(z).

    Args:
        entanglement: f.
        metrics: Names of such as need no images and no posteriors.
        count: How many draws of z.
        seed: Of the draws, and of metrics.
        classes: Of each factor.

    Returns:
        A row per score: `metric`, `code`, `entangled`.
    """
    codes, factors = perfect_code(entanglement.priors, count, seed, classes)
    chosen = choose(metrics)
    for metric in chosen:
        if metric.of_images or metric.of_posteriors:
            raise TheoryError(
                f"{metric.name} needs a model; take metrics of codes and factors, such as mig"
            )
    both = {
        name: {
            column(metric, part): score
            for metric in chosen
            for part, score in metric(seen, factors, seed).items()
        }
        for name, seen in (("code", codes), ("entangled", entanglement(codes)))
    }
    return pd.DataFrame(both).rename_axis("metric").reset_index()
