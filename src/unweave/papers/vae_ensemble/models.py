"""Which model of a study is what: ensembles as published, and those that lack something."""

import hashlib
from collections.abc import Iterable

import pandas as pd

from unweave.papers.recipe import RecipeError

__all__ = ["ENSEMBLE", "kinds", "name_of", "scored"]

ENSEMBLE = "vae_ensemble"
ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT = "original", "w.o. CR", "w.o. LT"
APART, STOPPED, PARTIAL = "trained apart", "stop_grad_target", "neighbours"


def name_of(runs: Iterable[str]) -> str:
    """One name for several runs together."""
    return hashlib.sha256(" ".join(sorted(runs)).encode()).hexdigest()[:16]


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """The models that are trained and scored, with their `kind`."""
    rows = table[table["state"] == "scored"]
    if not (rows["method"] == ENSEMBLE).any():
        raise RecipeError(
            "no ensemble of this study is scored yet; run the study to its end first"
        )
    return rows.assign(kind=kinds(rows))


def kinds(table: pd.DataFrame) -> pd.Series:
    """Of each ensemble whether it is as published, or what it lacks; none of other models.

    Example:
        >>> settings = {"method": "vae_ensemble", "cross_reconstruction": [True, False, False]}
        >>> kinds(pd.DataFrame({**settings, "alignment": [True, True, False]})).tolist()
        ['original', 'w.o. CR', 'trained apart']
    """
    said = table.reindex(columns=["cross_reconstruction", "alignment", "stop_grad_target"])
    alone, free = said["cross_reconstruction"].eq(False), said["alignment"].eq(False)
    partial = table.reindex(columns=["neighbours"])["neighbours"].ge(0)
    kind = pd.Series(ORIGINAL, table.index).mask(partial, PARTIAL)
    kind = kind.mask(said["stop_grad_target"].eq(True), STOPPED)
    kind = kind.mask(alone, WITHOUT_CROSS).mask(free, WITHOUT_ALIGNMENT).mask(alone & free, APART)
    return kind.where(table["method"] == ENSEMBLE)
