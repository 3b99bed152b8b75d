"""Beyond the paper: ensembles of 8 and 16 members, and partly coupled ones."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims
from unweave.papers.recipe import Recipe
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, PARTIAL, kinds
from unweave.papers.vae_ensemble.scores import METRICS
from unweave.papers.vae_ensemble.studies import BEYOND as STUDIES

__all__ = ["BEYOND"]

RISES = "with γ = 1 scores rise with the number of members"
SLOWER = "and rise the less, the more members there are"
FEWER = "members that are mapped to some others only score as well as those mapped to all"
published = partial(claims, RISES, SLOWER)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Scores by number of members, beyond five too, and with fewer maps.

    As well is at most a standard deviation over seeds below.
    """
    ensembles = table[(table["method"] == ENSEMBLE) & (table["gamma"] == 1)]
    ensembles = ensembles.assign(kind=kinds(ensembles))
    rows = [row for metric in METRICS for row in _comparisons(ensembles, metric)]
    return compared(published(), rows)


def _comparisons(ensembles: pd.DataFrame, metric: str) -> Iterator[dict[str, Any]]:
    whole = ensembles[ensembles["kind"] == ORIGINAL].groupby("members")[metric]
    means, spreads = whole.mean(), whole.std(ddof=0)
    gains = []
    for (few, before), (many, after) in pairwise(means.items()):
        of, beyond = f"n = {many:g} against {few:g}", many > 5
        yield comparison(RISES, of, metric, after, before, after > before, control=beyond)
        gains.append((of, (after - before) / (many - few), beyond))
    for (_, before, _), (of, after, beyond) in pairwise(gains):
        by = f"gain of {metric} per member"
        yield comparison(SLOWER, of, by, after, before, after < before, control=beyond)
    partly = ensembles[ensembles["kind"] == PARTIAL].groupby(["members", "neighbours"])[metric]
    for (members, others), score in partly.mean().items():
        least = means.get(members, np.nan) - spreads.get(members, np.nan)
        of = f"n = {members:g}, each mapped to {others:g}"
        by = f"{metric}, less a standard deviation"
        yield comparison(FEWER, of, by, score, least, score >= least, control=True)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Both scores by number of members, mapped to all others or to some."""
    from unweave.plots.colours import MARKERS, PALETTE
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    ensembles = table[(table["method"] == ENSEMBLE) & (table["gamma"] == 1)]
    figure, axes = panels(1, len(METRICS), (PAGE, 2.8))
    for axis, metric in zip(axes[0], METRICS, strict=True):
        panel = plain(axis)
        for place, (others, rows) in enumerate(ensembles.groupby("neighbours")):
            seen = rows.groupby("members")[metric]
            mean = seen.mean()
            style: dict[str, Any] = {"color": PALETTE[place], "fmt": f"{MARKERS[place]}-"}
            label = "mapped to all" if others < 0 else f"mapped to {others:g}"
            panel.errorbar(mean.index, mean, seen.std(ddof=0), label=label, ms=3, **style)
        panel.set_xlabel("members", fontsize=TEXT)
        panel.set_xticks(sorted(ensembles["members"].unique()))
        panel.set_ylabel(metric, fontsize=TEXT)
    axes[0, 0].legend(frameon=False, fontsize=SMALL)
    figure.save(path)


BEYOND = Recipe(
    name="vae-ensemble/beyond",
    title="Ensembles of 8 and 16 members, and members mapped to some others only",
    where="Section 5, and beyond",
    claim="With γ = 1 larger ensembles score higher, by less and less.",
    published=published,
    studies=STUDIES,
    obtain=obtain,
    verdict=sentences,
    plot=plot,
)
