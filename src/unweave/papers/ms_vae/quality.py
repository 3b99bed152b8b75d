"""Table 1, Figures 4, 34 and 35: reconstruction and disentanglement."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.catalog import published_table
from unweave.papers.ms_vae.stages import MS_VAE, TC, arranged
from unweave.papers.plots import lines

__all__ = ["STATISTICS", "obtain_table_1", "plot_4", "plot_34_35"]

FID, ERRORS = "fid", ("pixel_error.l1", "pixel_error.l2")


def obtain_table_1(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, of C's MIG for both stages.

    At the largest β, at which the gain is largest: the paper does not say which it took.
    """
    frame = published_table(__package__, "table-1")
    rows = arranged(table)
    beta = rows.loc[rows["kind"] == MS_VAE, "beta"].max()
    found = rows[rows["beta"] == beta].groupby(["data", "kind"])
    means = {"fid": _mean(found, FID), "mig": _mean(found, "c_mig")}
    parts = []
    for data in dict.fromkeys(rows["data"]):
        part = frame[frame["data"] == data] if data in set(frame["data"]) else frame.iloc[:4]
        known = data in set(frame["data"])
        keys = zip(part["metric"], part["method"], strict=True)
        obtained = [means[metric].get((data, kind), np.nan) for metric, kind in keys]
        printed = {} if known else {"published": np.nan, "spread": np.nan, "printed_in": ""}
        parts.append(part.assign(data=data, beta=beta, obtained=obtained, **printed))
    return pd.concat([*parts, frame[~frame["data"].isin(set(rows["data"]))]], ignore_index=True)


def _mean(groups: Any, column: str) -> dict[Any, float]:
    return groups[column].mean().to_dict() if column in groups.obj else {}


def _mean_at_the_smallest_beta(rows: pd.DataFrame, column: str) -> float:
    return float(rows[rows["beta"] == rows["beta"].min()][column].mean())


def _share_of_first_stage(rows: pd.DataFrame, column: str) -> float:
    """What the second stage leaves of a number of the first."""
    means = rows.groupby("kind")[column].mean()
    return float(means.get(MS_VAE, np.nan) / means.get(TC, np.nan))


STATISTICS = {
    "mean_at_the_smallest_beta": _mean_at_the_smallest_beta,
    "share_of_first_stage": _share_of_first_stage,
}


def plot_4(table: pd.DataFrame, path: Path) -> None:
    """FID, or where there is none the pixel error, and MIG over β, a line for each kind."""
    measure, label = (FID, "FID") if FID in table else (ERRORS[1], "L2 error")
    panels_of = [{measure: label}, {"c_mig": "MIG of C"}]
    lines(arranged(table), "beta", panels_of, path, by="kind")


def plot_34_35(table: pd.DataFrame, path: Path) -> None:
    """Both errors over β."""
    panels_of = [{ERRORS[0]: "L1"}, {ERRORS[1]: "L2"}]
    lines(arranged(table), "beta", panels_of, path, by="kind")
