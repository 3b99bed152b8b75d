"""Beyond the paper: ensembles of 8 and 16 members, and partly coupled ones."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.claims import comparison
from unweave.papers.plots import Panel, draw_lines
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, kinds
from unweave.papers.vae_ensemble.scores import METRICS

__all__ = ["plot", "prepare", "slower"]

LARGEST = 5
"""Members of the paper's ensembles."""


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """Ensembles with γ = 1, and their kind."""
    ensembles = table[(table["method"] == ENSEMBLE) & (table["gamma"] == 1)]
    return ensembles.assign(kind=kinds(ensembles))


def slower(ensembles: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """What each further member adds, against what those before it add."""
    for metric in METRICS:
        whole = ensembles[ensembles["kind"] == ORIGINAL].groupby("members")[metric].mean()
        gains = [
            (many, few, (after - before) / (many - few))
            for (few, before), (many, after) in pairwise(whole.items())
        ]
        for (*_, before), (many, few, after) in pairwise(gains):
            of, by = f"n = {many:g} against {few:g}", f"gain of {metric} per member"
            text, control = texts["slower"], many > LARGEST
            yield comparison(text, of, by, after, before, after < before, control=control)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Both scores by number of members, mapped to all others or to some."""
    ensembles = prepare(table).sort_values("neighbours", kind="stable")
    mapped = ensembles["neighbours"].map("mapped to {:g}".format)
    named = ensembles.assign(mapped=mapped.mask(ensembles["neighbours"] < 0, "mapped to all"))
    grid = [
        Panel(rows=named, x="members", columns={metric: metric}, by="mapped", ylabel=metric)
        for metric in METRICS
    ]
    draw_lines([grid], path, spread="bars")
