"""Figures 1, 3, 13, 14, 32 and 33: reconstructions and traversals; 2 and 17: graphs."""

from functools import partial
from pathlib import Path

import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims, shown
from unweave.papers.measurements import IMAGES, Trained, computed_once
from unweave.papers.ms_vae.plots import bars, pictures
from unweave.papers.ms_vae.stages import MS_VAE, arranged, measured, verdict
from unweave.papers.ms_vae.studies import FACES, STUDIES
from unweave.papers.recipe import Recipe

__all__ = ["DRAWINGS", "FIGURES_1_AND_3", "FIGURES_13_14", "FIGURES_32_33"]

BETTER = "MS-VAE reconstructs better than β-TCVAE and keeps the pose"
SAME = "traversals of C mean the same in Y and in X"
KEEPS = "perturbing Z keeps the pose"
three = partial(claims, BETTER, SAME, KEEPS)
TRAVERSALS, RECONSTRUCTIONS = (
    "traversals of C: β-TCVAE in odd rows, MS-VAE in even rows",
    "reconstructions",
)
thirteen = partial(shown, TRAVERSALS, RECONSTRUCTIONS)
VARY = "reconstructions of β-TCVAE vary much for the same image"
HARDLY = "reconstructions of MS-VAE vary little"
thirty_two = partial(claims, VARY, HARDLY)
KINDS = {RECONSTRUCTIONS: "stages", TRAVERSALS: "stage_traversals", "both codes swapped": "swaps"}
PICTURES, DRAWS_FILE = "pictures-of-stages", "draws.parquet"
LITTLE = 0.7
"""X varies little that varies by less than this share of what Y does."""


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
        for kind in KINDS.values():
            files.append(folder / PICTURES / f"{data}-{kind.replace('_', '-')}.png")
            files[-1].parent.mkdir(exist_ok=True)
            getattr(show, kind)(model, trained.data(model)).save(files[-1])
    return files


def obtain_1_and_3(table: pd.DataFrame) -> pd.DataFrame:
    """Errors of Y and X, and what of C is left in X, at each β."""
    rows = []
    for (data, beta), part in table.groupby(["data", "beta"], sort=False):
        means = part[["l2_y", "l2_x", "m1", "m2", "m3", "m4"]].mean().astype(float)
        of = f"β = {beta:g}"
        found = [
            comparison(
                BETTER,
                of,
                "L2 of X against Y",
                means["l2_x"],
                means["l2_y"],
                means["l2_x"] < means["l2_y"],
            ),
            comparison(
                SAME, of, "M2 against M1", means["m2"], means["m1"], means["m2"] >= means["m1"]
            ),
            comparison(
                KEEPS, of, "M3 against M4", means["m3"], means["m4"], means["m3"] > means["m4"]
            ),
        ]
        rows += [row | {"data": data} for row in found]
    return compared(three(), rows)


def extend_13_14(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The files of the pictures."""
    rows = arranged(table)
    files = _draw(rows[rows["kind"] == MS_VAE], folder)
    return pd.DataFrame({"file": [str(file.relative_to(folder)) for file in files]})


def obtain_13_14(table: pd.DataFrame) -> pd.DataFrame:
    """Which picture is where."""
    frame = thirteen()
    named = [
        next((f for f in table["file"] if KINDS[kind].replace("_", "-") in f), None)
        for kind in frame["picture"]
    ]
    return frame.assign(obtained=named)


def verdict_13_14(frame: pd.DataFrame) -> list[str]:
    """Where to look."""
    return [f"{row.picture}: {row.obtained}." for row in frame.itertuples()]


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


def obtain_32_33(table: pd.DataFrame) -> pd.DataFrame:
    """The deviation of pixels over ten draws, of X against Y, at each β."""
    rows = []
    for (data, beta), part in table.groupby(["data", "beta"], sort=False):
        x, y = float(part["std_x"].mean()), float(part["std_y"].mean())
        of, by = f"β = {beta:g}", "deviation of pixels over draws"
        found = [
            comparison(VARY, of, f"{by}, Y against X", y, x, y > x),
            comparison(HARDLY, of, f"{by}, X against Y", x, y, x < LITTLE * y),
        ]
        rows += [row | {"data": data} for row in found]
    return compared(thirty_two(), rows)


def plot_1_and_3(_: pd.DataFrame, path: Path) -> None:
    """The pictures of both stages."""
    pictures(sorted((path.parent / PICTURES).glob("*.png")), path)


def plot_13_14(table: pd.DataFrame, path: Path) -> None:
    """The same, of one study."""
    pictures([path.parent / file for file in table["file"]], path)


def plot_32_33(table: pd.DataFrame, path: Path) -> None:
    """How much pixels vary over draws of C."""
    bars(table, "beta", {"std_y": "deviation of Y", "std_x": "deviation of X"}, path)


FIGURES_1_AND_3 = Recipe(
    name="ms-vae/figures-1-and-3",
    title="Reconstructions and traversals on Cars3D and SmallNORB",
    where="Figures 1 and 3",
    claim="The second stage sharpens images and keeps the meaning of every factor.",
    published=three,
    studies=STUDIES,
    extend=extend_1_and_3,
    obtain=obtain_1_and_3,
    verdict=verdict,
    plot=plot_1_and_3,
)
FIGURES_13_14 = Recipe(
    name="ms-vae/figures-13-14",
    title="Traversals and reconstructions on CelebA",
    where="Figures 13 and 14",
    claim="MS-VAE on real images, which have no factors to score by.",
    published=thirteen,
    studies=FACES,
    extend=extend_13_14,
    obtain=obtain_13_14,
    verdict=verdict_13_14,
    plot=plot_13_14,
)
FIGURES_32_33 = Recipe(
    name="ms-vae/figures-32-33",
    title="Several draws of Y for one image of CelebA (β = 15, 15 dimensions of C)",
    where="Figures 32 and 33",
    claim="Y varies from draw to draw, X hardly.",
    published=thirty_two,
    studies=FACES,
    extend=extend_32_33,
    obtain=obtain_32_33,
    verdict=partial(sentences, meant="CelebA", known=("celeba",)),
    plot=plot_32_33,
)
DRAWINGS = Recipe(
    name="ms-vae/drawings",
    title="Graphical models of MS-VAE and of the pendulum",
    where="Figures 2 and 17",
    claim="Given Y, the codes C and Z are independent.",
    published=partial(claims, "C → Y → X ← Z: observing Y separates C from Z"),
)
