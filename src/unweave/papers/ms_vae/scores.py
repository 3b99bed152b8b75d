"""Table 1, Figures 4 to 12, 34 and 35: scores of two-stage models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.claims import comparison
from unweave.papers.measurements import IMAGES, Trained, scored_models
from unweave.papers.plots import draw_by_data
from unweave.papers.recipe import published_table

if TYPE_CHECKING:
    from unweave.models.model import Model
    from unweave.papers.ms_vae.conditioning import Staged

C, Z = 10, 5
"""Latents of both stages; the paper uses 10 for Z on SmallNORB."""
MS_VAE, TC, LARGE_TC = "ms_vae", "beta_tc_vae", "beta_tc_vae_l"
TERMS_FILE, TASKS_FILE = "terms.parquet", "predictions.parquet"
COLUMNS = {"architecture": "conv", "latents": C, "first": None}
"""Default values of columns that a table omits if all models have the same value."""
BEST_HALF = 0.5
"""Smallest mean rank of a size that counts as good."""


def arranged(table: pd.DataFrame) -> pd.DataFrame:
    """Scored models with their `kind`, and with `beta` and `c_mig` of the first stage."""
    rows = scored_models(table, MS_VAE)
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


def each_of_two_stages(
    table: pd.DataFrame,
    folder: Path,
    file: str,
    job: str,
    measure: "Callable[[Trained, Staged], pd.DataFrame | dict[str, float]]",
    images: int = IMAGES,
) -> pd.DataFrame:
    """Rows of the two-stage models with measurements of each, cached in a file."""
    from unweave.papers.ms_vae.conditioning import staged

    trained, rows = Trained(folder), arranged(table)
    rows = rows[rows["kind"] == MS_VAE]

    def of_model(model: "Model") -> pd.DataFrame | dict[str, float]:
        return measure(trained, staged(model, trained.data(model), images))

    return rows.merge(trained.measured(file, rows["run"], of_model, job), on="run")


def measured(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Two-stage models with M1 to M4 and the errors of Y and X."""
    return each_of_two_stages(
        table, folder, TERMS_FILE, "comparing codes", lambda _, s: {**s.terms(), **s.errors()}
    )


def predicted(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Prediction accuracies from C, from Z and from both, by factor and two-stage model."""

    def measure(trained: Trained, staged: "Staged") -> pd.DataFrame:
        model = staged.model
        factors, grid = trained.factors(model, staged.rows), trained.data(model).grid
        names = list(grid.names if grid is not None else range(factors.shape[1]))
        found = staged.predictions(factors)
        return found.assign(factor=[names[k] for k in found["factor"]])

    rows = each_of_two_stages(table, folder, TASKS_FILE, "predicting factors", measure)
    accuracies = ["factor", "c", "z", "both", "most_frequent"]
    return rows[["run", "data", "kind", "beta", "seed", *accuracies]]


def extend_7(table: pd.DataFrame, folder: Path) -> pd.DataFrame:  # noqa: ARG001 - common signature
    """First stages only, with the `size` of C."""
    rows = table[(table["state"] == "scored") & (table["method"] != MS_VAE)]
    return rows.assign(size=rows["latents"])


def extend_8(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Second stages on a first stage with ten latents, with the `size` of Z."""
    rows = measured(table, folder)
    ten = table.set_index("run")["latents"] == C
    return rows[rows["first"].map(ten).eq(True)].assign(size=lambda found: found["latents"])


def extend_9_12(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Second stages with the usual Z, with the `size` of C."""
    rows = measured(table, folder)
    size = table.set_index("run")["latents"]
    return rows[rows["latents"] == Z].assign(size=lambda found: found["first"].map(size))


def obtain_table_1(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds; the MIG of two stages is that of C.

    Uses the largest β, where the gain is largest, because the paper does not state its β.
    """
    frame = published_table(__package__, "table-1")
    rows = arranged(table)
    beta = rows.loc[rows["kind"] == MS_VAE, "beta"].max()
    found = rows[rows["beta"] == beta].groupby(["data", "kind"])
    columns = {"fid": "fid", "mig": "c_mig"}
    means = {
        metric: found[column].mean().to_dict() if column in rows else {}
        for metric, column in columns.items()
    }
    parts = []
    for data in dict.fromkeys(rows["data"]):
        known = data in set(frame["data"])
        part = frame[frame["data"] == data] if known else frame.iloc[:4]
        keys = zip(part["metric"], part["method"], strict=True)
        obtained = [means[metric].get((data, kind), np.nan) for metric, kind in keys]
        printed = {} if known else {"published": np.nan, "spread": np.nan, "printed_in": ""}
        parts.append(part.assign(data=data, beta=beta, obtained=obtained, **printed))
    return pd.concat([*parts, frame[~frame["data"].isin(set(rows["data"]))]], ignore_index=True)


def ranks_of_c(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rank of ten latents among all sizes, by MIG and ELBO."""
    return _ranked(table, texts, ["mig", "elbo"], {"cars3d": C, "smallnorb": C})


def ranks_of_z(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Rank of five or ten latents among all sizes, by FID and the preserved share of C."""
    return _ranked(table, texts, ["fid", "m2", "m3"], {"cars3d": Z, "smallnorb": 10})


def _ranked(
    table: pd.DataFrame, texts: Mapping[str, str], names: Sequence[str], wanted: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield the mean rank of one size, from 0 (worst) to 1 (best).

    Claims about Cars3D are also checked on other data sets.
    """
    for data, part in table.groupby("data", sort=False):
        about = "smallnorb" if data == "smallnorb" else "cars3d"
        known, size = [name for name in names if name in part], wanted[about]
        means = part.groupby("size")[known].mean()
        if len(means) < 2 or size not in means.index:
            continue
        good = means.assign(**({"fid": -means["fid"]} if "fid" in means else {}))
        rank = float(((good.rank() - 1) / (len(good) - 1)).mean(axis=1)[size])
        of = f"{size} of {', '.join(map(str, means.index))}"
        by, holds = f"mean rank by {', '.join(known)}", rank >= BEST_HALF
        yield comparison(texts[about], of, by, rank, BEST_HALF, holds, data=data)


def _share_of_first_stage(rows: pd.DataFrame, column: str) -> float:
    """A value of the second stage as a share of that of the first."""
    means = rows.groupby("kind")[column].mean()
    return float(means.get(MS_VAE, np.nan) / means.get(TC, np.nan))


def _shares_of_m1(rows: pd.DataFrame, column: str) -> "pd.Series[float]":
    """Another term as a share of M1, at each β; empty if there is only one β."""
    means = rows.groupby("beta")[[column, "m1"]].mean()
    shares = means[column] / means["m1"]
    return shares if len(shares) > 1 else shares[:0]


def _smallest(rows: pd.DataFrame) -> pd.DataFrame:
    """Models with the smallest C; none if all have the same size."""
    return rows[(rows["size"] == rows["size"].min()) & (rows["size"].nunique() > 1)]


def _gain(rows: pd.DataFrame) -> float:
    """Share of the error of Y that the second stage removes."""
    return float(1 - rows["l2_x"].mean() / rows["l2_y"].mean())


STATISTICS = {
    "mean_at_the_smallest_beta": lambda rows, column: float(
        rows[rows["beta"] == rows["beta"].min()][column].mean()
    ),
    "share_of_first_stage": _share_of_first_stage,
    "least_share_of_m1": lambda rows, column: float(_shares_of_m1(rows, column).min()),
    "largest_share_of_m1": lambda rows, column: float(_shares_of_m1(rows, column).max()),
    "better_of_both_codes": lambda rows, _: float(rows[["c", "z"]].mean().max()),
    "gain": lambda rows, _: _gain(rows),
    "gain_of_the_smallest_c": lambda rows, _: _gain(_smallest(rows)),
    "mean_of_the_smallest_c": lambda rows, column: float(_smallest(rows)[column].mean()),
}


def plot_4(table: pd.DataFrame, path: Path) -> None:
    """Draw FID (or else the pixel error) and MIG over β, with a line for each kind."""
    quality = {"fid": "FID"} if "fid" in table else {"pixel_error.l2": "L2 error"}
    panels = [quality, {"c_mig": "MIG of C"}]
    draw_by_data(arranged(table), path, x="beta", panels=panels, label="β", by="kind")


def plot_34_35(table: pd.DataFrame, path: Path) -> None:
    """Draw both pixel errors over β, with a line for each kind."""
    errors = [{"pixel_error.l1": "L1"}, {"pixel_error.l2": "L2"}]
    draw_by_data(arranged(table), path, x="beta", panels=errors, label="β", by="kind")
