"""Figures 2 to 8: a closer look at Shapes3D."""

import io
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims, shown
from unweave.papers.inductive_biases.scores import STAND_INS, VARIATIONAL, kept
from unweave.papers.inductive_biases.studies import SCALES, SEARCHED, examples, trained
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many

__all__ = ["FIGURES_4_6", "FIGURES_7_8", "FIGURE_2", "FIGURE_3"]

MEANT = "Shapes3D"
HISTOGRAM = "a histogram of MIG for each variational method"
GAPS = "MIG of each factor on original and modified images"
PICTURES = {
    "dci": "DCI by strength",
    "factor_vae": "FactorVAE score by strength",
    "sap": "SAP by strength",
}
SEPARATE = "disentangled models encode wall hue and orientation separately, hue in the same way"
POLAR = "entangled models encode hue as the angle and orientation as the radius of two latents"
seven = partial(claims, SEPARATE, POLAR)


def obtain_2(table: pd.DataFrame) -> pd.DataFrame:
    """How many models there are, and where their MIG lie."""
    rows = _changed(table)
    said = [
        f"{method}: {part['mig'].min():.3f} to {part['mig'].max():.3f}, {len(part)} models"
        for method, part in rows.groupby("method", sort=False)
    ]
    return shown(HISTOGRAM).assign(obtained="; ".join(said))


def obtain_3(table: pd.DataFrame) -> pd.DataFrame:
    """In how many factors β-VAE's gap falls."""
    means = _gaps(table)
    falls = means["modified"] < means["original"]
    words = f"it falls in {int(falls.sum())} of {len(falls)} factors"
    return shown(GAPS).assign(obtained=words if len(means) else None)


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
            f"at {how_many(below, 'strength')}"
        )
    return shown(*PICTURES.values()).assign(obtained=found)


def say(frame: pd.DataFrame) -> list[str]:
    """What was obtained, in a sentence each."""
    return [f"{row.picture.capitalize()}: {row.obtained}." for row in frame.itertuples()]


def obtain_7_8(table: pd.DataFrame) -> pd.DataFrame:
    """Disentangled against entangled models, by how they encode two factors."""
    rows = []
    for base, part in table.groupby("base", sort=False):
        means = part.groupby("kind")[["separated", "angle", "radius"]].mean()
        one, other = means.loc["disentangled"], means.loc["entangled"]
        found = [
            comparison(
                SEPARATE,
                "disentangled against entangled",
                "rank correlation with a latent each",
                float(one["separated"]),
                float(other["separated"]),
                one["separated"] > other["separated"],
            )
        ]
        found += [
            comparison(
                POLAR,
                "entangled against disentangled",
                f"share of the {name}",
                float(other[name]),
                float(one[name]),
                other[name] > one[name],
            )
            for name in ("angle", "radius")
        ]
        rows += [row | {"data": base} for row in found]
    return compared(seven(), rows)


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
    from unweave.plots.colours import palette
    from unweave.plots.plot import COLUMN, SMALL, TEXT, panels, plain

    means = _gaps(table)
    figure, axes = panels(1, 1, (COLUMN, 2.2))
    panel, places = plain(axes[0, 0]), np.arange(len(means))
    for k, (images, colour) in enumerate(zip(means, palette(2), strict=True)):
        panel.bar(places + 0.4 * k - 0.2, means[images], 0.38, color=colour, label=str(images))
    panel.set_xticks(places, [name.replace("gap_", "factor ") for name in means.index])
    panel.tick_params(axis="x", labelsize=SMALL, rotation=30)
    panel.set_ylabel("MIG of β-VAE", fontsize=TEXT)
    panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)


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


FIGURE_2 = Recipe(
    name="inductive-biases/figure-2",
    title="Histogram of MIG of the variational methods on modified Shapes3D",
    where="Figure 2",
    claim="The distribution of MIG on modified images, method by method.",
    published=partial(shown, HISTOGRAM),
    settings=SCALES,
    make=trained,
    obtain=obtain_2,
    verdict=say,
    plot=plot_2,
)
FIGURE_3 = Recipe(
    name="inductive-biases/figure-3",
    title="MIG of each factor, β-VAE on original and modified Shapes3D",
    where="Figure 3",
    claim="What the modification does to each factor.",
    published=partial(shown, GAPS),
    settings=SCALES,
    make=trained,
    obtain=obtain_3,
    verdict=say,
    plot=plot_3,
)
FIGURES_4_6 = Recipe(
    name="inductive-biases/figures-4-6",
    title="DCI, FactorVAE and SAP scores over scaled strengths, 10 restarts each, on Shapes3D",
    where="Figures 4 to 6",
    claim="A line search over strengths; runs with fewer active units than factors are left out. "
    "That modified images score below original ones at every strength is ours to ask.",
    published=partial(shown, *PICTURES.values()),
    settings=SCALES,
    make=trained,
    obtain=obtain_4_6,
    verdict=say,
    plot=plot_4_6,
)
FIGURES_7_8 = Recipe(
    name="inductive-biases/figures-7-8",
    title="Two-dimensional traversals of disentangled and entangled β-VAEs",
    where="Figures 7 and 8",
    claim="Disentangled models encode hue alike; entangled ones all mix it with orientation in "
    "the same way.",
    published=seven,
    settings=SCALES,
    make=examples,
    obtain=obtain_7_8,
    verdict=partial(sentences, meant=MEANT, known=("shapes3d",)),
    plot=plot_7_8,
)
