"""Rows of a study table with their stages: what each is called, its β, and what its models say."""

from pathlib import Path

import pandas as pd

from unweave.papers.measurements import IMAGES, Trained, computed_once
from unweave.papers.ms_vae.studies import C
from unweave.papers.recipe import RecipeError

__all__ = ["MS_VAE", "TASKS_FILE", "TC", "arranged", "measured", "predicted"]

MS_VAE, TC, LARGE_TC = "ms_vae", "beta_tc_vae", "beta_tc_vae_l"
TERMS_FILE, TASKS_FILE = "terms.parquet", "predictions.parquet"
COLUMNS = {"architecture": "conv", "latents": C, "first": None}
"""What a table lacks where all its models have the same."""


def arranged(table: pd.DataFrame) -> pd.DataFrame:
    """The models that are scored: `kind`, what each is, and `beta`, `c_mig` of its first stage."""
    rows = table[table["state"] == "scored"]
    if not (rows["method"] == MS_VAE).any():
        raise RecipeError("no model of two stages is scored yet; run the study to its end first")
    for name, usual in COLUMNS.items():
        rows = rows if name in rows else rows.assign(**{name: usual})
    large = rows["architecture"].astype(str).str.contains("big")
    kind = rows["method"].where(~large, "big_" + rows["method"])
    kind = kind.mask((kind == TC) & (rows["latents"] > C), LARGE_TC)
    own = table.set_index("run")
    mig = own["mig"] if "mig" in own else pd.Series(float("nan"), own.index)
    alone = rows["first"].isna()
    return rows.assign(
        kind=kind,
        beta=rows["strength"].fillna(1.0).where(alone, rows["first"].map(own["strength"])),
        c_mig=rows["run"].map(mig).where(alone, rows["first"].map(mig)),
    )


def measured(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Models of two stages with M1 to M4, and the errors of Y and X."""
    from unweave.papers.ms_vae.experiments.measures import look_at

    trained = Trained(folder)
    rows = arranged(table)
    rows = rows[rows["kind"] == MS_VAE]

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        seen = look_at(model, trained.data(model), IMAGES)
        return pd.DataFrame([{**seen.terms(), **seen.errors()}])

    found = computed_once(folder / TERMS_FILE, rows["run"].tolist(), of_run, "comparing codes")
    return rows.merge(found, on="run")


def predicted(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row for each factor and model of two stages: accuracies from C, from Z and from both."""
    from unweave.papers.ms_vae.experiments.measures import look_at

    trained = Trained(folder)
    rows = arranged(table)
    rows = rows[rows["kind"] == MS_VAE]

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        data = trained.data(model)
        seen = look_at(model, data, IMAGES)
        assert seen.rows is not None, "images that are not of a data set"
        factors = trained.factors(model, seen.rows)
        names = data.grid.names if data.grid is not None else range(factors.shape[1])
        found = seen.predictions(factors)
        return found.assign(factor=[list(names)[k] for k in found["factor"]])

    found = computed_once(folder / TASKS_FILE, rows["run"].tolist(), of_run, "predicting factors")
    return rows[["run", "data", "kind", "beta", "seed"]].merge(found, on="run")
