"""Figures 2 to 8: a closer look at Shapes3D."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from unweave.papers.catalog import data_file
from unweave.papers.inductive_biases.scores import STAND_INS, VARIATIONAL, kept
from unweave.papers.inductive_biases.studies import SEARCHED
from unweave.papers.plots import grouped_bars

__all__ = [
    "obtain_2",
    "obtain_3",
    "obtain_4_6",
    "plot_2",
    "plot_3",
    "plot_4_6",
    "plot_7_8",
    "prepare_7_8",
]

MEANT = "Shapes3D"
PICTURES = {
    "dci": "DCI by strength",
    "factor_vae": "FactorVAE score by strength",
    "sap": "SAP by strength",
}


def obtain_2(table: pd.DataFrame) -> pd.DataFrame:
    """How many models there are, and where their MIG lie."""
    rows = _changed(table)
    said = [
        f"{method}: {part['mig'].min():.3f} to {part['mig'].max():.3f}, {len(part)} models"
        for method, part in rows.groupby("method", sort=False)
    ]
    return _shown("figure-2", ["; ".join(said)])


def obtain_3(table: pd.DataFrame) -> pd.DataFrame:
    """In how many factors β-VAE's gap falls."""
    means = _gaps(table)
    falls = means["modified"] < means["original"]
    words = f"it falls in {int(falls.sum())} of {len(falls)} factors"
    return _shown("figure-3", [words if len(means) else None])


def obtain_4_6(table: pd.DataFrame) -> pd.DataFrame:
    """The best factor of each method on original images, and where modified ones score less."""
    rows = _whole(table)
    tried = ", ".join(f"{factor:g}" for factor in sorted(rows["factor"].unique()))
    found = []
    for metric in PICTURES:
        means = rows.groupby(["method", "factor", "images"])[metric].mean()
        means = means.unstack().reindex(columns=SEARCHED)
        known = means["original"].dropna().groupby("method")
        best = [f"{name} × {part.idxmax()[1]:g}" for name, part in known]
        below = means.dropna().eval("modified < original").tolist()
        found.append(
            f"of × {tried}, best on original images: {', '.join(best)}; modified ones score below "
            f"at {sum(below)} of {len(below)} strengths"
        )
    return _shown("figures-4-6", found)


def _shown(slug: str, found: Sequence[str | None]) -> pd.DataFrame:
    """What was found, beside what the pictures of a figure show."""
    frame = pd.DataFrame(
        {"picture": data_file(__package__, "recipes.yaml")[slug]["pictures"], "published": "shown"}
    )
    return frame.assign(obtained=list(found))


def prepare_7_8(table: pd.DataFrame) -> pd.DataFrame:
    """Models with the data set that they learned from as `data`."""
    return table.rename(columns={"base": "data"})


def _meant(table: pd.DataFrame) -> pd.DataFrame:
    """Models of Shapes3D or of what stands in for it; all, where there are none of these."""
    found = table["base"].replace(STAND_INS).eq(MEANT.lower())
    return table[found] if found.any() else table


def _whole(table: pd.DataFrame) -> pd.DataFrame:
    """Variational methods at all strengths, on the images on which these were tried."""
    table = _meant(table)
    rows = table[table["method"].isin(VARIATIONAL) & table["images"].isin(SEARCHED)]
    return rows[~rows["over_pruned"].eq(True)]


def _changed(table: pd.DataFrame) -> pd.DataFrame:
    rows = kept(_meant(table))
    return rows[rows["method"].isin(VARIATIONAL) & (rows["images"] == "modified")]


def _gaps(table: pd.DataFrame) -> pd.DataFrame:
    """MIG by factor of β-VAE, a column for each kind of images."""
    rows = kept(_meant(table))
    rows = rows[rows["method"] == "beta_vae"]
    names = [name for name in rows if name.startswith("gap_")]
    return (
        rows.groupby("images")[names].mean().T.dropna().reindex(columns=["original", "modified"])
    )


def plot_2(table: pd.DataFrame, path: Path) -> None:
    """A histogram for each method."""
    from unweave.plots.plot import PAGE, TEXT, panels, plain

    rows = _changed(table)
    parts = list(rows.groupby("method", sort=False))
    figure, axes = panels(1, max(1, len(parts)), (PAGE, 1.9), sharey=True)
    edges = np.linspace(0, max(0.1, float(rows["mig"].max()) if len(rows) else 0.1), 21)
    for (method, part), axis in zip(parts, axes[0], strict=False):
        plain(axis).hist(part["mig"], edges.tolist())
        axis.set_title(str(method), fontsize=TEXT)
        axis.set_xlabel("MIG", fontsize=TEXT)
    figure.save(path)


def plot_3(table: pd.DataFrame, path: Path) -> None:
    """Two bars for each factor."""
    means = _gaps(table).rename(index=lambda name: name.replace("gap_", "factor "))
    rows = means.rename_axis("factor").reset_index().melt("factor", value_name="mig")
    grouped_bars({"MIG of β-VAE": rows}, "mig", "factor", "images", path)


def plot_4_6(table: pd.DataFrame, path: Path) -> None:
    """A panel for each metric, a line for each method, dashed where images are modified."""
    from matplotlib.lines import Line2D

    from unweave.plots.colours import palette
    from unweave.plots.plot import PAGE, TEXT, legend_above, panels, plain

    rows = _whole(table)
    figure, axes = panels(1, len(PICTURES), (PAGE, 2.2))
    for (metric, title), axis in zip(PICTURES.items(), axes[0], strict=True):
        panel = plain(axis)
        for method, colour in zip(VARIATIONAL, palette(len(VARIATIONAL)), strict=True):
            for images, line in zip(SEARCHED, ("o-", "o--"), strict=True):
                part = rows[(rows["method"] == method) & (rows["images"] == images)]
                means = part.groupby("factor")[metric].mean()
                label = method if images == "original" else None
                panel.plot(means.index, means, line, color=colour, label=label, ms=3)
        panel.set_xlabel("times the usual strength", fontsize=TEXT)
        panel.set_title(title, fontsize=TEXT)
    dashed = Line2D([], [], color="grey", ls="--", label="modified images")
    legend_above(figure, [*axes[0, 0].get_legend_handles_labels()[0], dashed], columns=5)
    figure.save(path)


def plot_7_8(table: pd.DataFrame, path: Path) -> None:
    """Pictures of all models, disentangled ones in the first row."""
    from PIL import Image

    from unweave.plots.plot import PAGE, TEXT, panels

    kinds = list(table.groupby("kind", sort=False))
    columns = max(len(part) for _, part in kinds)
    figure, axes = panels(len(kinds), columns, (PAGE, PAGE * len(kinds) / columns))
    for axis in axes.flat:
        axis.set_axis_off()
    for (kind, part), line in zip(kinds, axes, strict=True):
        for (content, polar), axis in zip(part[["picture", "angle"]].values, line, strict=False):
            axis.imshow(Image.open(io.BytesIO(content)).convert("RGB"))
            axis.set_title(f"{kind}, angle {polar:.2f}", fontsize=TEXT)
    figure.save(path)
