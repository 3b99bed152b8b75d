"""Comparison of the label-free ranking by UDR with supervised metrics."""

from pathlib import Path

import pandas as pd

from unweave.papers.measurements import Trained, scored_models
from unweave.papers.recipe import published_table

VARIANTS = {"udr_lasso": "lasso", "udr_spearman": "spearman"}
METRICS = ("beta_vae", "factor_vae", "mig", "modularity", "dci", "sap")
RISE, OTHER = "rise together", "do not"
NOTABLE = 0.3
"""Rank correlation that counts as notable; over 120 models its standard error is about 0.09."""


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add the UDR of each model within its data set, by Lasso and by rank correlation."""
    from unweave.models.images import NUM_SAMPLED
    from unweave.select import udr

    trained, scored = Trained(folder), scored_models(table)
    parts = []
    for _, rows in scored.groupby("data", sort=False):
        latents = trained.latents((trained.model(run) for run in rows["run"]), NUM_SAMPLED)
        scores = {
            column: udr(latents, relevance=relevance).set_index("run")["score"]
            for column, relevance in VARIANTS.items()
        }
        parts.append(rows.assign(**{column: rows["run"].map(s) for column, s in scores.items()}))
    return pd.concat(parts, ignore_index=True)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Compute rank correlations with metrics, and the scores of the model that UDR chooses."""
    rows = [
        _row(table.dropna(subset=[column, metric]), column, metric)
        for column in VARIANTS
        for metric in METRICS
    ]
    return published_table(__package__, "ranking").merge(pd.DataFrame(rows))


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


def plot(table: pd.DataFrame, path: Path) -> None:
    """Plot UDR of every model against each metric, with the chosen model marked."""
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
