"""Figures 1, 3, 13, 14, 32 and 33: reconstructions and traversals."""

from pathlib import Path

import pandas as pd

from unweave.papers.measurements import IMAGES, Trained
from unweave.papers.ms_vae.scores import MS_VAE, arranged, each_of_two_stages, measured
from unweave.papers.plots import pictures
from unweave.papers.recipe import data_file

KINDS = ("stages", "stage_traversals", "swaps")
"""Functions of `unweave.plots` that draw the pictures."""
OF_FACES = ("stage-traversals", "stages")
"""Names of the pictures of Figures 13 and 14, in order."""
PICTURES, DRAWS_FILE = "pictures-of-stages", "draws.parquet"


def extend_1_and_3(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Measure two-stage models, and draw pictures of one model for each data set."""
    rows = measured(table, folder)
    _draw(rows, folder)
    return rows


def _draw(rows: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw pictures of the model with the middle β and the first seed, for each data set."""
    from unweave import plots

    trained, files = Trained(folder), []
    for data, part in rows.groupby("data", sort=False):
        middle = sorted(part["beta"].unique())[part["beta"].nunique() // 2]
        run = part[part["beta"] == middle].sort_values("seed")["run"].iloc[0]
        model = trained.model(run)
        for kind in KINDS:
            files.append(folder / PICTURES / f"{data}-{kind.replace('_', '-')}.png")
            files[-1].parent.mkdir(exist_ok=True)
            getattr(plots, kind)(model, trained.data(model)).save(files[-1])
    return files


def extend_13_14(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Draw the pictures and return their files."""
    rows = arranged(table)
    files = _draw(rows[rows["kind"] == MS_VAE], folder)
    return pd.DataFrame({"file": [str(file.relative_to(folder)) for file in files]})


def obtain_13_14(table: pd.DataFrame) -> pd.DataFrame:
    """File of each picture."""
    shown = data_file(__package__, "recipes.yaml")["figures-13-14"]["pictures"]
    named = [next((f for f in table["file"] if kind in f), None) for kind in OF_FACES]
    return pd.DataFrame({"picture": shown, "published": "shown", "obtained": named})


def extend_32_33(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Measure how much Y and X of the same images vary between samples of C."""
    return each_of_two_stages(
        table, folder, DRAWS_FILE, "sampling C", lambda _, s: s.variation(), IMAGES // 20
    )


def plot_1_and_3(_: pd.DataFrame, path: Path) -> None:
    """Draw the pictures of both stages side by side."""
    pictures(sorted((path.parent / PICTURES).glob("*.png")), path)


def plot_13_14(table: pd.DataFrame, path: Path) -> None:
    """Draw the pictures of one study side by side."""
    pictures([path.parent / file for file in table["file"]], path)
