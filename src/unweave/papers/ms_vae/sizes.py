"""Figures 7 to 12: how many dimensions C and Z should have."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.claims import comparison
from unweave.papers.ms_vae.stages import MS_VAE, measured
from unweave.papers.ms_vae.studies import C, Z
from unweave.papers.plots import lines

__all__ = [
    "STATISTICS",
    "extend_7",
    "extend_8",
    "extend_9_12",
    "plot_7",
    "plot_8",
    "plot_9_12",
    "ranks_of_c",
    "ranks_of_z",
]

ELBO = "elbo"
BEST_HALF = 0.5
"""A size does well that is in the better half by the mean of its ranks."""


def extend_7(table: pd.DataFrame, folder: Path) -> pd.DataFrame:  # noqa: ARG001 - as others have it
    """First stages alone, with `size`, that of C."""
    rows = table[(table["state"] == "scored") & (table["method"] != MS_VAE)]
    return rows.assign(size=rows["latents"])


def ranks_of_c(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rank of ten latents among all sizes, by MIG and by the bound."""
    return _ranked(table, texts, ["mig", ELBO], {"cars3d": C, "smallnorb": C})


def extend_8(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Second stages over ten latents, with `size`, that of Z."""
    rows = measured(table, folder)
    ten = table.set_index("run")["latents"] == C
    return rows[rows["first"].map(ten).eq(True)].assign(size=lambda found: found["latents"])


def ranks_of_z(table: pd.DataFrame, texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rank of five latents, or ten, among all sizes, by FID and by how much of C is kept."""
    return _ranked(table, texts, ["fid", "m2", "m3"], {"cars3d": Z, "smallnorb": 10})


def _ranked(
    table: pd.DataFrame, texts: Mapping[str, str], names: Sequence[str], wanted: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """How one size does, as its mean rank from 0, the worst, to 1, the best of all.

    What is said of Cars3D is asked of other data sets, too.
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


def extend_9_12(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Second stages with the usual Z, with `size`, that of C."""
    rows = measured(table, folder)
    size = table.set_index("run")["latents"]
    return rows[rows["latents"] == Z].assign(size=lambda found: found["first"].map(size))


def _smallest(rows: pd.DataFrame) -> pd.DataFrame:
    """The models with the smallest C; none where all have the same."""
    return rows[(rows["size"] == rows["size"].min()) & (rows["size"].nunique() > 1)]


def _gain(rows: pd.DataFrame) -> float:
    """The share of the error of Y that the second stage takes away."""
    return float(1 - rows["l2_x"].mean() / rows["l2_y"].mean())


STATISTICS = {
    "gain": lambda rows, _: _gain(rows),
    "gain_of_the_smallest_c": lambda rows, _: _gain(_smallest(rows)),
    "mean_of_the_smallest_c": lambda rows, column: float(_smallest(rows)[column].mean()),
}


def plot_7(table: pd.DataFrame, path: Path) -> None:
    """MIG and the bound over the size of C."""
    lines(table, "size", [{"mig": "MIG"}, {ELBO: "ELBO"}], path, "latents of C")


def plot_8(table: pd.DataFrame, path: Path) -> None:
    """What of C is kept, and FID where it is known, over the size of Z."""
    kept = {"m2": "M2", "m3": "M3 (random Z)"}
    others = [{"fid": "FID"}] if "fid" in table else []
    lines(table, "size", [kept, *others], path, "latents of Z")


def plot_9_12(table: pd.DataFrame, path: Path) -> None:
    """Errors of both stages, and MIG, over the size of C."""
    errors = {"l2_y": "L2 of Y", "l2_x": "L2 of X"}
    lines(table, "size", [errors, {"c_mig": "MIG of C"}], path, "latents of C")
