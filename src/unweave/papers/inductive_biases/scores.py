"""Tables 2 to 4 of the supplement, Table 1 of the paper: original, modified and noisy images."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from unweave.papers.catalog import published_table
from unweave.papers.claims import Count
from unweave.papers.inductive_biases.studies import IMAGES
from unweave.papers.plots import grouped_bars

__all__ = ["STAND_INS", "VARIATIONAL", "changes", "kept", "obtain", "plot"]

VARIATIONAL = ("beta_vae", "factor_vae", "beta_tc_vae", "slow_vae")
STAND_INS = {"rooms3d": "shapes3d"}
"""What is not downloaded, and what it stands for."""


def kept(table: pd.DataFrame) -> pd.DataFrame:
    """Models at the published strength.

    Those that use too few latents are among them: only Figures 4 to 6 leave such models out.
    """
    return table[table["factor"].eq(1.0)]


def obtain(slug: str, metric: str, table: pd.DataFrame) -> pd.DataFrame:
    """Published means beside ours; rooms stand in for Shapes3D.

    Returns:
        What was published, and `obtained`, `deviation`, `seeds`, and `pruned`: how many of these
        have fewer active latents than there are factors, 0 of methods without noise to tell it
        by.
    """
    frame = published_table(__package__, slug)
    found = kept(table)
    noisy = found["method"].isin(VARIATIONAL)
    found = found.assign(pruned=found["over_pruned"].eq(True) & noisy)
    data = found["base"].replace(STAND_INS)
    models = found.assign(place=data).groupby(["method", "place", "images"])
    groups, pruned = models[metric], models["pruned"].sum()
    means, spreads, counts = groups.mean(), groups.std(), groups.count()
    keys = list(zip(frame["method"], frame["data"], frame["images"], strict=True))
    return frame.assign(
        obtained=[means.get(key, np.nan) for key in keys],
        deviation=[spreads.get(key, np.nan) for key in keys],
        seeds=[int(counts.get(key, 0)) for key in keys],
        pruned=[int(pruned.get(key, 0)) for key in keys],
    )


def changes(frame: pd.DataFrame) -> Iterator[Count]:
    """How far scores change with images, and how many models use too few latents."""
    for data, part in frame.dropna(subset="obtained").groupby("data", sort=False):
        cells = part.pivot(index="method", columns="images", values="obtained")
        if set(IMAGES) <= set(cells):
            by = cells.sub(cells["original"], axis=0).reindex([*VARIATIONAL, "pcl"])
            numbers = {
                "variational methods, modified": by["modified"][list(VARIATIONAL)].mean(),
                "pcl, modified": by["modified"]["pcl"],
                "pcl, noise": by["noise"]["pcl"],
            }
            yield Count(f"Mean change from original images, {data}", 0, 0, numbers=numbers)
    variational = frame[frame["method"].isin(VARIATIONAL)]
    if variational["pruned"].any():
        pruned, models = int(variational["pruned"].sum()), int(variational["seeds"].sum())
        yield Count("Fewer latents are used than there are factors", pruned, models, "models")


def plot(metric: str, table: pd.DataFrame, path: Path) -> None:
    """A bar per method and kind of images, every model a point."""
    bases = kept(table).sort_values("images", key=lambda images: images.map(IMAGES.index))
    parts = {f"{metric} on {base}": part for base, part in bases.groupby("base", sort=False)}
    grouped_bars(parts, metric, "method", "images", path)
