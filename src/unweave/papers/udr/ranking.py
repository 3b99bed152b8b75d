"""Does a choice without labels find the models that labels would find?"""

from pathlib import Path

import pandas as pd

from unweave.papers.recipe import Recipe, RecipeError
from unweave.papers.udr.studies import STUDIES
from unweave.papers.verdicts import how_many

__all__ = ["RANKING"]

VARIANTS = {"udr_lasso": "lasso", "udr_spearman": "spearman"}
METRICS = ("beta_vae", "factor_vae", "mig", "modularity", "dci", "sap")
RISE, OTHER = "rise together", "do not"
NOTABLE = 0.3
"""A rank correlation of 120 models is known to about 0.09; from here on it is no accident."""


def published() -> pd.DataFrame:
    """Each variant of UDR with each metric: the paper's text says only that they correlate."""
    return pd.DataFrame(
        [
            {"udr": relevance, "metric": metric, "published": RISE}
            for relevance in VARIANTS.values()
            for metric in METRICS
        ]
    )


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The table with UDR of every model among those of its data set, by Lasso and by ranks."""
    from unweave.models.model import load
    from unweave.select import udr
    from unweave.select.latents import latents_of
    from unweave.study.datasets import Sources
    from unweave.study.store import Store

    store = Store(folder)
    sources = Sources(store)
    scored = table[table["state"] == "scored"]
    if scored.empty:
        raise RecipeError("no model of the study has scores, so there is nothing to rank")
    parts = []
    for _, rows in scored.groupby("data", sort=False):
        models = [load(store.runs / run) for run in rows["run"]]
        latents = latents_of(models, sources.open(models[0].config))
        scores = {
            column: udr(latents, relevance=relevance).set_index("run")["score"]
            for column, relevance in VARIANTS.items()
        }
        parts.append(rows.assign(**{column: rows["run"].map(s) for column, s in scores.items()}))
    return pd.concat(parts, ignore_index=True)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlations, and how the model that UDR chooses scores beside the others."""
    missing = [column for column in VARIANTS if column not in table]
    if missing:
        raise RecipeError(f"the table has no column {missing[0]!r}; `extend` adds it")
    rows = [
        _row(table.dropna(subset=[column, metric]), column, metric)
        for column in VARIANTS
        for metric in METRICS
    ]
    return published().merge(pd.DataFrame(rows))


def _row(table: pd.DataFrame, column: str, metric: str) -> dict[str, object]:
    scores = table[metric]
    rho = table[column].corr(scores, method="spearman") if len(table) > 2 else float("nan")
    chosen = scores[table[column].idxmax()] if len(table) else float("nan")
    return {
        "udr": VARIANTS[column],
        "metric": metric,
        "obtained": None if pd.isna(rho) else RISE if rho >= NOTABLE else OTHER,
        "correlation": rho,
        "chosen": chosen,
        "median": scores.median(),
        "best": scores.max(),
        "beats": (scores < chosen).sum() / max(1, len(scores) - 1),
        "models": len(table),
    }


def verdict(frame: pd.DataFrame) -> list[str]:
    """For how many metrics the ranking and the choice are of use."""
    frame = frame.dropna(subset="obtained")
    sentences = []
    for relevance, rows in frame.groupby("udr", sort=False):
        above = how_many(rows["chosen"] > rows["median"], "metric")
        sentences.append(
            f"UDR by {relevance}: ranks correlate (at least {NOTABLE}) for "
            f"{how_many(rows['obtained'] == RISE, 'metric')}, from "
            f"{rows['correlation'].min():.2f} to {rows['correlation'].max():.2f}; the chosen "
            f"model is above the median for {above} and beats {rows['beats'].mean():.0%} of the "
            "others in the mean."
        )
    return sentences


def plot(table: pd.DataFrame, path: Path) -> None:
    """UDR of every model against each metric, the chosen model marked."""
    from unweave.plots.plot import panels

    figure, places = panels(2, 3, (9, 5.5))
    for axes, metric in zip(places.flat, METRICS, strict=True):
        rows = table.dropna(subset=["udr_lasso", metric])
        drawn = axes.scatter(rows["udr_lasso"], rows[metric], c=rows["strength"], s=12)
        if len(rows):
            best = rows.loc[rows["udr_lasso"].idxmax()]
            axes.scatter(best["udr_lasso"], best[metric], s=90, facecolors="none", edgecolors="k")
            axes.axhline(rows[metric].median(), color="grey", linewidth=0.8, linestyle="--")
        axes.set(xlabel="UDR (Lasso)", ylabel=metric)
    figure.colorbar(drawn, ax=figure.axes, label="strength", shrink=0.6)
    figure.save(path)


RANKING = Recipe(
    name="udr/ranking",
    title="UDR against metrics that need labels, and what it chooses",
    where="in the text",
    claim="Models that other models resemble are the disentangled ones, so that a ranking without "
    "labels agrees with supervised metrics.",
    published=published,
    studies=STUDIES,
    extend=extend,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
