"""Tables and figures: scores on original, modified and noisy images, and details on Shapes3D."""

import io
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from unweave.papers.claims import Count
from unweave.papers.inductive_biases.studies import IMAGES, SEARCHED
from unweave.papers.plots import Panel, draw
from unweave.papers.recipe import published_table

VARIATIONAL = ("beta_vae", "factor_vae", "beta_tc_vae", "slow_vae")
STAND_INS = {"rooms3d": "shapes3d"}
"""Generated data sets, and the downloadable data sets that they replace."""
PICTURES = {
    "dci": "DCI by strength",
    "factor_vae": "FactorVAE score by strength",
    "sap": "SAP by strength",
}
"""Panel titles of Figures 4 to 6, by metric."""


def at_published_strength(table: pd.DataFrame) -> pd.DataFrame:
    """Models at the published strength.

    Models that use too few latents are included; only Figures 4 to 6 exclude them.
    """
    return table[table["factor"].eq(1.0)]


def obtain_table(slug: str, metric: str, table: pd.DataFrame) -> pd.DataFrame:
    """Published means next to ours; rooms replace Shapes3D.

    Returns:
        The published table with `obtained`, `deviation`, `seeds`, and `pruned`: the number of
        these models with fewer active latents than factors (0 for methods without latent noise).
    """
    found = at_published_strength(table)
    pruned = found["over_pruned"].eq(True) & found["method"].isin(VARIATIONAL)
    models = found.assign(pruned=pruned, data=found["base"].replace(STAND_INS))
    keys = ["method", "data", "images"]
    numbers = models.groupby(keys, as_index=False).agg(
        obtained=(metric, "mean"),
        deviation=(metric, "std"),
        seeds=(metric, "count"),
        pruned=("pruned", "sum"),
    )
    frame = published_table(__package__, slug).merge(numbers, on=keys, how="left")
    counts = ["seeds", "pruned"]
    return frame.astype({"obtained": float, "deviation": float}).assign(
        **frame[counts].fillna(0).astype(int)
    )


def changes(frame: pd.DataFrame) -> Iterator[Count]:
    """Yield the change of scores with images, and the number of models with too few latents."""
    for data, part in frame.dropna(subset="obtained").groupby("data", sort=False):
        cells = part.pivot(index="method", columns="images", values="obtained")
        if set(IMAGES) <= set(cells):
            change = cells.sub(cells["original"], axis=0).reindex([*VARIATIONAL, "pcl"])
            numbers = {
                "variational methods, modified": change["modified"][list(VARIATIONAL)].mean(),
                "pcl, modified": change["modified"]["pcl"],
                "pcl, noise": change["noise"]["pcl"],
            }
            yield Count(f"Mean change from original images, {data}", 0, 0, numbers=numbers)
    variational = frame[frame["method"].isin(VARIATIONAL)]
    if variational["pruned"].any():
        pruned, models = int(variational["pruned"].sum()), int(variational["seeds"].sum())
        yield Count("Fewer active latents than factors", pruned, models, "models")


def plot_table(metric: str, table: pd.DataFrame, path: Path) -> None:
    """Draw a bar per method and kind of images, with a point for each model."""
    bases = at_published_strength(table).sort_values(
        "images", key=lambda images: images.map(IMAGES.index)
    )
    row = [
        Panel(
            rows=part,
            x="method",
            columns={metric: metric},
            by="images",
            title=f"{metric} on {base}",
        )
        for base, part in bases.groupby("base", sort=False)
    ]
    draw([row], "bars").save(path)


def _shapes3d(table: pd.DataFrame) -> pd.DataFrame:
    """Models of Shapes3D or its replacement; all models if there are none."""
    found = table["base"].replace(STAND_INS).eq("shapes3d")
    return table[found] if found.any() else table


def obtain_2(table: pd.DataFrame) -> pd.DataFrame:
    """MIG of every model of a variational method on modified images, as `obtained`."""
    rows = at_published_strength(_shapes3d(table))
    rows = rows[rows["method"].isin(VARIATIONAL) & (rows["images"] == "modified")]
    found = rows[["method", "run", "mig"]].rename(columns={"mig": "obtained"})
    return found.assign(published="shown").reset_index(drop=True)


def plot_2(table: pd.DataFrame, path: Path) -> None:
    """Draw a histogram for each method."""
    from unweave.papers.inductive_biases.manipulation.figures import show_histogram

    show_histogram(obtain_2(table).assign(data="modified"), "obtained").save(path)


def obtain_3(table: pd.DataFrame) -> pd.DataFrame:
    """MIG of β-VAE by factor: `original`, and `obtained` on modified images."""
    rows = at_published_strength(_shapes3d(table))
    rows = rows[rows["method"] == "beta_vae"]
    gaps = [name for name in rows if name.startswith("gap_")]
    means = rows.groupby("images")[gaps].mean().T.dropna().reindex(columns=list(SEARCHED))
    means = means.rename(columns={"modified": "obtained"}).rename_axis("factor", axis=0)
    return means.rename_axis(None, axis=1).reset_index().assign(published="shown")


def plot_3(table: pd.DataFrame, path: Path) -> None:
    """Draw two bars for each factor."""
    means = obtain_3(table).rename(columns={"obtained": "modified"}).drop(columns="published")
    means["factor"] = means["factor"].str.replace("gap_", "factor ")
    rows = means.melt("factor", var_name="images", value_name="mig")
    panel = Panel(rows=rows, x="factor", columns={"mig": "MIG"}, by="images", title="MIG of β-VAE")
    draw([[panel]], "bars").save(path)


def searched(table: pd.DataFrame) -> pd.DataFrame:
    """Variational methods at all strengths, on the images of the line search."""
    table = _shapes3d(table)
    rows = table[table["method"].isin(VARIATIONAL) & table["images"].isin(SEARCHED)]
    return rows[~rows["over_pruned"].eq(True)]


def obtain_4_6(table: pd.DataFrame) -> pd.DataFrame:
    """Mean scores by metric, method and multiple of the usual strength.

    Returns:
        `metric`, `method`, `factor`, the `original` score, the score on modified images
        (`obtained`), and `best`: whether this factor is the best of its method on original images.
    """
    rows, keys = searched(table), ["metric", "method", "factor"]
    scores = rows.melt(["method", "factor", "images"], list(PICTURES), "metric", "score")
    means = scores.groupby([*keys, "images"])["score"].mean().unstack()
    means = means.reindex(columns=list(SEARCHED)).rename(columns={"modified": "obtained"})
    most = means.groupby(["metric", "method"])["original"].transform("max")
    frame = means.assign(best=means["original"] == most, published="shown")
    return frame.rename_axis(None, axis=1).reset_index()


def plot_4_6(table: pd.DataFrame, path: Path) -> None:
    """Draw a panel for each metric and kind of images, with a line for each method."""
    rows = searched(table)
    grid = [
        [
            Panel(
                rows=rows[rows["images"] == images],
                x="factor",
                columns={metric: title},
                by="method",
                kinds=VARIATIONAL,
                title=f"{title}, {images}",
                xlabel="times the usual strength",
            )
            for metric, title in PICTURES.items()
        ]
        for images in SEARCHED
    ]
    draw(grid, sharey="col").save(path)


def plot_7_8(table: pd.DataFrame, path: Path) -> None:
    """Draw the pictures of all models, disentangled ones in the first row."""
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


def with_data(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the column `base` renamed to `data`, which comparisons expect."""
    return table.rename(columns={"base": "data"})
