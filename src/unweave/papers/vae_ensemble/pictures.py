"""Figures 11 to 13: latent traversals; Figures 1 and 5: drawings."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.recipe import Recipe, RecipeError
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, scored
from unweave.papers.vae_ensemble.studies import COLOUR, LARGEST_GAMMA, STUDIES
from unweave.papers.vae_ensemble.traversals import STOPS, stitched, traversed

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["DRAWINGS", "FIGURES_12_13", "FIGURE_11"]

SHAPES_FILE, IMAGES_FILE = "traversals_of_shapes.parquet", "traversals_of_images.parquet"
"""How much images change along each latent, input by input, and a picture of that."""
DRAWN = 8
"""Images of each input from which a latent goes through its range; the first is shown."""
ACTIVE = 0.05
"""A latent is active for an input that changes images at least this share of the most that any
latent of the same model changes them."""
WEAK = "beta_vae"
"""The method of single models with β = 1 / 2, which are regularised as little as an ensemble's."""
SHAPES = {"square": 0, "ellipse": 1, "heart": 2}
SOME_PASSIVE = "a latent of an ensemble of two is passive for an ellipse"
THEN_ACTIVE = "it is active for a heart and for a square"
SAME = "in a single VAE the same latents are active for every input"
DEPENDS = "in an ensemble of two some latents are active for one input and not for another"
SHARPER = "the ensemble's images are sharper"
published_11 = partial(claims, SOME_PASSIVE, THEN_ACTIVE, SAME)
published_12_13 = partial(claims, DEPENDS, SAME, SHARPER)


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
    chosen = rows["method"].isin(["vae", WEAK]) | _pairs(rows)
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


def obtain_11(table: pd.DataFrame) -> pd.DataFrame:
    """How many latents are active for some shapes and not for others, in VAEs and in ensembles.

    The paper shows its second latent; any latent may be that one here. What an ellipse leaves out
    that others have, its orientation within half a turn, is no matter of ensembles, so that the
    same of single VAEs is beside.
    """
    _require(table)
    return compared(published_11(), _comparisons_11(table))


def _comparisons_11(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    wide = _activity(table)
    passive = ~wide["ellipse"]
    found = pd.DataFrame(
        {
            SOME_PASSIVE: passive & wide.drop(columns="ellipse").any(axis=1),
            THEN_ACTIVE: passive & wide["heart"] & wide["square"],
            SAME: wide.any(axis=1) & ~wide.all(axis=1),
        }
    )
    means = found.groupby(["method", "run", "member"]).sum().groupby("method").mean()
    two, single = (means.loc[m] if m in means.index else None for m in (ENSEMBLE, "vae"))
    nothing = pd.Series(np.nan, found.columns)
    two, single = (nothing if each is None else each for each in (two, single))
    for claim in (SOME_PASSIVE, THEN_ACTIVE):
        by = "latents of which this is so, per member, against a VAE's"
        more = two[claim] > 0
        yield comparison(claim, "n = 2, γ = 10", by, two[claim], single[claim], more)
        by, more = "the same, more than in a VAE", two[claim] > single[claim]
        yield comparison(claim, "n = 2, γ = 10", by, two[claim], single[claim], more, control=True)
    by = "latents active for some inputs only, against an ensemble's"
    yield comparison(SAME, "vae", by, single[SAME], two[SAME], single[SAME] == 0)


def _activity(table: pd.DataFrame) -> pd.DataFrame:
    """Whether each latent is active, a column per input."""
    keys = ["method", "run", "member", "latent"]
    return table.pivot(index=keys, columns="input", values="active").astype(bool)


def obtain_12_13(table: pd.DataFrame) -> pd.DataFrame:
    """The same for two images, and how sharp reconstructions are relative to these.

    Since two members decode each code, a single VAE with β = 1 / 2 is the control of sharpness.
    """
    _require(table)
    frame = compared(published_12_13(), _comparisons_12_13(table))
    return frame.assign(data=table["data"].iloc[0])


def _comparisons_12_13(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    wide = _activity(table)
    differs = (wide.any(axis=1) & ~wide.all(axis=1)).groupby(["method", "run", "member"]).sum()
    means = differs.groupby("method").mean()
    two, single = (float(means.get(method, np.nan)) for method in (ENSEMBLE, "vae"))
    by = "latents active for one image only"
    yield comparison(DEPENDS, "n = 2, γ = 10", by, two, single, two > 0)
    yield comparison(SAME, "vae", by, single, two, single == 0)
    sharp = table.groupby("method")["sharpness"].mean()
    two = float(sharp.get(ENSEMBLE, np.nan))
    for method, control in (("vae", False), (WEAK, True)):
        by, against = f"sharpness, against {method}", float(sharp.get(method, np.nan))
        sharper = two > against
        yield comparison(SHARPER, "n = 2, γ = 10", by, two, against, sharper, control=control)


def _require(table: pd.DataFrame) -> None:
    if "change" not in table:
        raise RecipeError("the table has no column 'change'; `extend` adds it")


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


FIGURE_11 = Recipe(
    name="vae-ensemble/figure-11",
    title="Latent traversals from -3 to 3 for an ellipse, a heart and a square",
    where="Figure 11",
    claim="Which latents are active depends on the input in an ensemble, and does not in a single "
    "VAE.",
    published=published_11,
    studies=STUDIES,
    extend=extend_11,
    obtain=obtain_11,
    verdict=sentences,
    plot=plot,
)
FIGURES_12_13 = Recipe(
    name="vae-ensemble/figures-12-13",
    title="Latent traversals from -3 to 3 on CelebA, 16 latents",
    where="Figures 12 and 13",
    claim="An ensemble's traversals depend on the input and are sharper, those of a single VAE "
    "are alike.",
    published=published_12_13,
    studies=COLOUR,
    extend=extend_12_13,
    obtain=obtain_12_13,
    verdict=partial(sentences, meant="celeba"),
    plot=plot,
)
DRAWINGS = Recipe(
    name="vae-ensemble/drawings",
    title="The ensemble, and cross-model reconstruction as geometry",
    where="Figures 1 and 5",
    claim="Decoding an entangled code with a disentangled member's decoder costs more than the "
    "other way round.",
    published=partial(
        claims, "mapping entangled to disentangled codes adds variance, the reverse does not"
    ),
)
