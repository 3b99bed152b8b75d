"""Comparison of methods by InfoMEC, DCI and MIG: without labels, with labels, and tuned.

Shapes: M models, n images, d latents.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.papers.measurements import IMAGES, Trained, computed_once, scored_models
from unweave.papers.recipe import published_table

if TYPE_CHECKING:
    from unweave.analysis.latents import Latents
    from unweave.methods import Method
    from unweave.models.config import Config

METRICS = ("infomec", "dci", "mig")
SCORES = {
    "InfoM": "infomec",
    "InfoE": "infomec.explicitness",
    "InfoC": "infomec.compactness",
    "InfoM, 20 bins": "infomec.binned_modularity",
    "DCI": "dci",
    "MIG": "mig",
}
"""Columns of the study table by score."""
DRAWN = ("InfoM", "InfoE", "InfoC", "DCI", "MIG")
TRAINED, ICA = "trained", "ica"
"""Codes that are scored: as trained, and rotated to independent components afterwards."""
KINDS = {"obtained": "tuned", "label_free": "label-free choice", "best": "best model"}
"""Columns of the comparison: the mean over seeds of the setting with the largest mean InfoM, as in
published tables; the score of the model with the highest UDR; and the largest value."""


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Add UDR, InfoMEC of quantised codes, and rows for autoencoders after ICA."""
    from unweave.models.images import sample_rows

    trained, parts = Trained(folder), []
    for _, rows in scored_models(table).groupby(["data", "method"], sort=False):
        models = [trained.model(run) for run in rows["run"]]
        configs = [model.config for model in models]
        latents = trained.latents(models, IMAGES)
        images = sample_rows(trained.store.data_of(configs[0]), IMAGES)
        factors = trained.factors(models[0], images)
        for version, codes in versions(rows, latents, configs):
            parts.append(_rescored(version, codes, factors, configs[0].method, folder))
    return pd.concat(parts, ignore_index=True)


def versions(
    rows: pd.DataFrame, latents: "Latents", configs: "Sequence[Config]"
) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    """Yield the models of a method with their codes, and autoencoders once more after ICA.

    Args:
        rows: Rows of a study table.
        latents: Codes of these models for random images.
        configs: Their settings.

    Yields:
        The rows with columns `codes`, `setting` (all settings but the seed, and the number of
        steps, which a deadline may change) and `udr`; and codes `[M, n, d]`.
    """
    from unweave.analysis.latents import Latents
    from unweave.methods import AE
    from unweave.models.images import NUM_SAMPLED
    from unweave.select import udr_scores

    settings = [replace(config, seed=0, steps=0).hash for config in configs]
    kinds = {TRAINED: latents}
    if type(configs[0].method) is AE:
        kinds[ICA] = Latents(np.stack([_independent(codes) for codes in latents.means]))
    for kind, every in kinds.items():
        few = Latents(every.means[:, :NUM_SAMPLED], kl=every.kl)
        found = udr_scores(few).models
        yield rows.assign(codes=kind, setting=settings, udr=found), every.means


def _independent(codes: np.ndarray) -> np.ndarray:
    """Rotate codes `[n, d]` to independent components; not finite if there are none."""
    from unweave.models.rotation import RotationError, fit_rotation

    try:
        rotated: np.ndarray = fit_rotation(codes).encode(codes)
    except RotationError:
        return np.full_like(codes, np.nan)
    return rotated


def _rescored(
    rows: pd.DataFrame, codes: np.ndarray, factors: np.ndarray, method: "Method", folder: Path
) -> pd.DataFrame:
    """Replace the scores of a study that depend on the version of the codes, with a cache file."""
    from unweave.methods import Quantised

    rotated = rows["codes"].iloc[0] == ICA
    metrics = METRICS if rotated else METRICS[:1] if isinstance(method, Quantised) else ()
    if not metrics:
        return rows
    by_run = dict(zip(rows["run"], codes, strict=True))

    def score(run: str) -> pd.DataFrame:
        return pd.DataFrame([scores(by_run[run], factors, method, metrics)])

    file = folder / f"infomec-{'ica' if rotated else 'quantised'}.parquet"
    found = computed_once(file, list(by_run), score, "scoring codes").set_index("run")
    replaced = [name for name in rows if str(name).partition(".")[0] in metrics]
    return rows.drop(columns=replaced).join(found, on="run")


def scores(
    codes: np.ndarray, factors: np.ndarray, method: "Method", metrics: Sequence[str] = METRICS
) -> dict[str, float]:
    """Return the scores of codes by column of a study table; InfoMEC counts quantised values.

    Args:
        codes: Codes `[n, d]` of random images.
        factors: Factors of these images, `[n, K]`.
        method: Method that the codes belong to.
        metrics: Names of the metrics.
    """
    from unweave.evaluation.evaluate import column
    from unweave.methods import Quantised
    from unweave.metrics import find_metric

    if not np.isfinite(codes).all():
        return dict.fromkeys(metrics, np.nan)
    found: dict[str, float] = {}
    for name in metrics:
        counted = name == METRICS[0] and isinstance(method, Quantised)
        metric = find_metric(name)
        parts = metric(codes, factors, **({"discrete_codes": True} if counted else {}))
        found |= {column(metric, part): score for part, score in parts.items()}
    return found


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the scores of each method for all choices of models, next to published ones."""
    published = published_table(__package__, "infomec")
    rows = [
        {"data": data, "method": method, **one}
        for (data, method), models in _named(table).groupby(["data", "method"], sort=False)
        for one in _chosen(models)
    ]
    found = pd.DataFrame(rows).merge(published, how="left", on=["method", "metric"])
    missing = published[~published["method"].isin(found["method"])]
    first = ["data", "method", "metric", "published", "rerun"]
    frame = pd.concat([found, missing], ignore_index=True)
    return frame[[*first, *(name for name in frame if name not in first)]]


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """Return finished models with finite scores; autoencoders after ICA are a separate method."""
    rows = table[table["state"] == "scored"].dropna(subset=SCORES["InfoM"])
    return rows.assign(method=rows["method"].mask(rows["codes"] == ICA, "ae + ica"))


def _chosen(models: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield a row for every score of the models of one method."""
    means = models.groupby("setting")[SCORES["InfoM"]].mean()
    tuned = models[models["setting"] == means.idxmax()]
    ranked = models.dropna(subset="udr")
    chosen = ranked.loc[ranked["udr"].idxmax()] if len(ranked) else None
    for metric, column in SCORES.items():
        yield {
            "metric": metric,
            "obtained": tuned[column].mean(),
            "obtained_spread": tuned[column].std(ddof=0),
            "label_free": float("nan") if chosen is None else chosen[column],
            "best": models[column].max(),
            "seeds": len(tuned),
            "models": len(models),
            "steps": int(models["steps"].min()),
        }


def plot(table: pd.DataFrame, path: Path) -> None:
    """Draw each score by method, published and obtained, with a column per data set."""
    from unweave.papers.plots import Panel, draw

    frame = obtain(table)
    label = f"published ({', '.join(frame['published_on'].dropna().unique())})"
    kinds = {"published": label, **KINDS}
    tidy = frame.melt(["data", "method", "metric"], list(kinds), "kind").dropna()
    order = {method: place for place, method in enumerate(frame["method"].unique())}
    tidy = tidy.assign(kind=tidy["kind"].map(kinds)).sort_values(
        "method", key=lambda names: names.map(order), kind="stable"
    )
    grid = [
        [
            Panel(
                rows=tidy[(tidy["data"] == data) & (tidy["metric"] == metric)],
                x="method",
                columns={"value": ""},
                by="kind",
                kinds=list(kinds.values()),
                title=str(data),
                ylabel=metric,
            )
            for data in frame["data"].dropna().unique()
        ]
        for metric in DRAWN
    ]
    draw(grid, "bars").save(path)
