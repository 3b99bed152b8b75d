"""Figures 11 to 13: latent traversals."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.measurements import Trained, computed_once
from unweave.papers.recipe import RecipeError
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, scored
from unweave.papers.vae_ensemble.studies import LARGEST_GAMMA
from unweave.papers.vae_ensemble.traversals import STOPS, stitched, traversed

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["STATISTICS", "extend_11", "extend_12_13", "plot", "prepare"]

SHAPES_FILE, IMAGES_FILE = "traversals_of_shapes.parquet", "traversals_of_images.parquet"
"""How much images change along each latent, input by input, and a picture of that."""
DRAWN = 8
"""Images of each input from which a latent goes through its range; the first is shown."""
ACTIVE = 0.05
"""A latent is active for an input that changes images at least this share of the most that any
latent of the same model changes them."""
SHAPES = {"square": 0, "ellipse": 1, "heart": 2}


def extend_11(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row per latent and shape of VAEs and of the members of ensembles of two with γ = 10.

    `change`: how much images change along the latent; `active`: whether that is enough; `picture`:
    the bytes of one traversal, for the first seed.
    """
    rows = scored(table)
    return _traversed(
        rows[(rows["method"] == "vae") | _pairs(rows)], folder / SHAPES_FILE, _shapes
    )


def extend_12_13(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The same of models with 16 latents, for two images, with `sharpness` of reconstructions."""
    rows = scored(table)
    sixteen = rows["latents"] == 16 if "latents" in rows else True
    chosen = rows["method"].isin(["vae", "beta_vae"]) | _pairs(rows)
    return _traversed(rows[chosen & sixteen], folder / IMAGES_FILE, _two_images)


def _pairs(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Which models are the published ensembles of two with γ = 10."""
    largest = (rows["members"] == 2) & (rows["gamma"] == LARGEST_GAMMA)
    return largest & (rows["kind"] == ORIGINAL)


def _traversed(
    rows: pd.DataFrame, file: Path, inputs: Callable[["Dataset"], dict[str, Any]]
) -> pd.DataFrame:
    trained = Trained(file.parent)
    shown = rows["seed"].min()
    first = set(rows[rows["seed"] == shown]["run"])

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        images = inputs(trained.data(model))
        found = pd.concat(
            [
                traversed(member, images).assign(member=place)
                for place, member in enumerate(model.members)
            ],
            ignore_index=True,
        )
        return found if run in first else found.assign(picture=None)

    kept = computed_once(file, rows["run"].tolist(), of_run, "traversing latents")
    both = kept.merge(rows[["run", "data", "method", "members", "seed"]], on="run")
    most = both.groupby(["run", "member"])["change"].transform("max")
    return both.assign(active=both["change"] >= ACTIVE * most)


def _shapes(data: "Dataset") -> dict[str, Any]:
    """Sprites that differ in nothing but their shapes, several of each."""
    grid = data.grid
    if grid is None or "shape" not in grid.names:
        raise RecipeError(f"{data.name} has no shapes to compare; use dSprites")
    place = grid.column("shape")
    factors = np.random.default_rng(0).integers(0, grid.sizes, (DRAWN, len(grid.sizes)))
    found = {}
    for name, shape in SHAPES.items():
        factors[:, place] = shape
        found[name] = data.inputs(grid.index(factors))
    return found


def _two_images(data: "Dataset") -> dict[str, Any]:
    """Two images, drawn once for all models."""
    from unweave.models.drawn_images import drawn_rows

    rows = drawn_rows(data, 2, seed=0)
    return {f"image {row}": data.inputs(rows[place : place + 1]) for place, row in enumerate(rows)}


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """A row per latent: `depends`, whether it is active for some inputs only, and of shapes more.

    `some_passive`: whether it is passive for an ellipse and not for every shape; `then_active`:
    whether it is active for all others.
    """
    keys = ["data", "method", "run", "member", "latent"]
    wide = table.pivot(index=keys, columns="input", values="active").astype(bool)
    found = pd.DataFrame({"depends": wide.any(axis=1) & ~wide.all(axis=1)})
    if "ellipse" in wide:
        others = wide.drop(columns="ellipse")
        found["some_passive"] = ~wide["ellipse"] & others.any(axis=1)
        found["then_active"] = ~wide["ellipse"] & others.all(axis=1)
    if "sharpness" in table:
        found["sharpness"] = table.groupby(keys)["sharpness"].mean()
    return found.reset_index()


def _latents_per_member(rows: pd.DataFrame, column: str) -> float:
    return float(rows.groupby(["run", "member"])[column].sum().mean())


STATISTICS = {"latents_per_member": _latents_per_member}


def plot(table: pd.DataFrame, path: Path) -> None:
    """Traversals of the first seed: a row per model, a column per input, active latents marked."""
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels

    shown = table[table["picture"].notna()]
    inputs: Sequence[str] = list(shown["input"].unique())
    models = list(shown.groupby(["method", "member"], sort=False))
    across = shown["latent"].nunique() / len(STOPS)
    size = PAGE, 0.3 + len(models) * (0.3 + across * PAGE / len(inputs))
    figure, axes = panels(len(models), len(inputs), size)
    for row, ((method, member), latents) in zip(axes, models, strict=True):
        name = f"{method}, member {member}" if method == ENSEMBLE else str(method)
        for panel, chosen in zip(row, inputs, strict=True):
            part = latents[latents["input"] == chosen].sort_values("latent")
            panel.imshow(stitched(part), cmap="gray", vmin=0, vmax=255, interpolation="none")
            height = part["shape"].iloc[0][0]
            names = [
                f"z{k}{' *' * on}" for k, on in zip(part["latent"], part["active"], strict=True)
            ]
            panel.set_yticks([(k + 0.5) * height for k in range(len(part))], names, fontsize=SMALL)
            panel.set_xticks([])
            panel.set_title(f"{name}: {chosen}", fontsize=TEXT)
    figure.supxlabel("from -3 to 3; * active", fontsize=TEXT)
    figure.save(path)
