"""Figures 1, 3, 13, 14, 32 and 33: reconstructions and traversals."""

from pathlib import Path

import pandas as pd

from unweave.papers.catalog import data_file
from unweave.papers.measurements import IMAGES, Trained, computed_once
from unweave.papers.ms_vae.stages import MS_VAE, arranged, measured
from unweave.papers.plots import bars, pictures

__all__ = [
    "extend_1_and_3",
    "extend_13_14",
    "extend_32_33",
    "obtain_13_14",
    "plot_1_and_3",
    "plot_13_14",
    "plot_32_33",
]

KINDS = ("stages", "stage_traversals", "swaps")
"""Pictures of `unweave.plots` that are drawn."""
OF_FACES = ("stage-traversals", "stages")
"""What the two pictures of Figures 13 and 14 are called, in their order."""
PICTURES, DRAWS_FILE = "pictures-of-stages", "draws.parquet"


def extend_1_and_3(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Models of two stages with what they keep, and pictures of one for each data set."""
    rows = measured(table, folder)
    _draw(rows, folder)
    return rows


def _draw(rows: pd.DataFrame, folder: Path) -> list[Path]:
    """Pictures of the model with the middle β and the first seed, for each data set."""
    from unweave import plots as show

    trained, files = Trained(folder), []
    for data, part in rows.groupby("data", sort=False):
        middle = sorted(part["beta"].unique())[part["beta"].nunique() // 2]
        run = part[part["beta"] == middle].sort_values("seed")["run"].iloc[0]
        model = trained.model(run)
        for kind in KINDS:
            files.append(folder / PICTURES / f"{data}-{kind.replace('_', '-')}.png")
            files[-1].parent.mkdir(exist_ok=True)
            getattr(show, kind)(model, trained.data(model)).save(files[-1])
    return files


def extend_13_14(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The files of the pictures."""
    rows = arranged(table)
    files = _draw(rows[rows["kind"] == MS_VAE], folder)
    return pd.DataFrame({"file": [str(file.relative_to(folder)) for file in files]})


def obtain_13_14(table: pd.DataFrame) -> pd.DataFrame:
    """Which picture is where."""
    shown = data_file(__package__, "recipes.yaml")["figures-13-14"]["pictures"]
    named = [next((f for f in table["file"] if kind in f), None) for kind in OF_FACES]
    return pd.DataFrame({"picture": shown, "published": "shown", "obtained": named})


def extend_32_33(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """How much Y and X of the same images vary from draw to draw of C."""
    from unweave.papers.ms_vae.experiments.measures import look_at

    trained = Trained(folder)
    rows = arranged(table)
    rows = rows[rows["kind"] == MS_VAE]

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        return pd.DataFrame([look_at(model, trained.data(model), IMAGES // 20).variation()])

    found = computed_once(folder / DRAWS_FILE, rows["run"].tolist(), of_run, "drawing C again")
    return rows.merge(found, on="run")


def plot_1_and_3(_: pd.DataFrame, path: Path) -> None:
    """The pictures of both stages."""
    pictures(sorted((path.parent / PICTURES).glob("*.png")), path)


def plot_13_14(table: pd.DataFrame, path: Path) -> None:
    """The same, of one study."""
    pictures([path.parent / file for file in table["file"]], path)


def plot_32_33(table: pd.DataFrame, path: Path) -> None:
    """How much pixels vary over draws of C."""
    bars(table, "beta", {"std_y": "deviation of Y", "std_x": "deviation of X"}, path)
