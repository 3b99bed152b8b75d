"""Running a recipe: what it trains, then its comparison, both kept in one folder."""

from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.papers.recipe import Recipe, RecipeError

if TYPE_CHECKING:
    from unweave.study import Study

__all__ = ["Reproduction", "compare", "default_folder", "kept_table", "make", "study_of", "train"]


@dataclass(frozen=True)
class Reproduction:
    """What came of a recipe.

    Args:
        frame: Published and obtained, side by side.
        sentences: How far they agree.
        files: What was saved.
    """

    frame: pd.DataFrame
    sentences: list[str]
    files: list[Path]


def default_folder(recipe: Recipe, scale: str) -> Path:
    """Where a recipe is kept unless said otherwise; all recipes of a paper share it."""
    return Path("reproduce") / f"{recipe.paper}-{scale}"


def study_of(recipe: Recipe, scale: str) -> "Study | None":
    """What a recipe trains at a scale; None where it trains nothing."""
    from unweave.study import Study

    keys = recipe.study(scale)
    return None if keys is None else Study(**keys)


def train(study: "Study", folder: Path, on: str = "here", progress: bool = True) -> pd.DataFrame:
    """Run or continue a study, and return its table."""
    from unweave.study import run

    return run(study, folder, on=on, progress=progress).table


def kept_table(recipe: Recipe, scale: str, folder: Path) -> pd.DataFrame | None:
    """What `make` found earlier with these very settings; None where there is nothing."""
    from unweave.io.tables import read_attributes, read_table

    file = _table_file(recipe, scale, folder)
    if not file.exists():
        return None
    try:
        table, settings = read_table(file, more_types=True), read_attributes(file).get("settings")
    except (OSError, ValueError) as error:
        raise RecipeError(f"{file} cannot be read; remove it to train again") from error
    return table if settings == recipe.settings_at(scale) else None


def make(recipe: Recipe, scale: str, folder: Path) -> pd.DataFrame:
    """Train what is no study, or read what came of it: `<slug>-<scale>.parquet` in the folder."""
    from unweave.evaluation.files import write_table

    table, settings = kept_table(recipe, scale, folder), recipe.settings_at(scale)
    if table is not None:
        return table
    if recipe.make is None or settings is None:
        raise RecipeError(f"{recipe.name} trains nothing of its own; it has a study or none")
    # Some keep models in the folder, and find them there.
    wants_folder = "folder" in signature(recipe.make).parameters
    table = recipe.make(**settings, **({"folder": folder} if wants_folder else {}))
    table.attrs["settings"] = settings
    write_table(table, _table_file(recipe, scale, folder))
    return table


def _table_file(recipe: Recipe, scale: str, folder: Path) -> Path:
    return folder / f"{recipe.slug}-{scale}.parquet"


def compare(recipe: Recipe, table: pd.DataFrame, folder: Path) -> Reproduction:
    """Compare a table with what was published; save the comparison and the plot.

    Args:
        recipe: Which.
        table: The study table, or what `make` returned; empty where nothing is trained.
        folder: Where `<slug>.csv` and `<slug>.svg` are saved, in place of older ones.
    """
    from unweave.evaluation.files import write_table
    from unweave.io.writing import whole_file

    if recipe.obtain is None:
        raise RecipeError(f"{recipe.name} is {recipe.status}: there is nothing to obtain")
    frame = recipe.obtain(table)
    sentences = [] if recipe.verdict is None else recipe.verdict(frame)
    files = [folder / f"{recipe.slug}.csv"]
    write_table(frame, files[0])
    if recipe.plot is not None:
        files.append(folder / f"{recipe.slug}.svg")
        with whole_file(files[1]) as temporary:
            recipe.plot(table, temporary)
    return Reproduction(frame, sentences, files)
