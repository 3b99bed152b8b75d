"""Running a recipe: training, then comparison with the published results, saved in one folder."""

from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import pandas as pd

from unweave.papers.recipe import Recipe, RecipeError

__all__ = ["Reproduction", "compare", "default_folder", "kept_table", "make"]


@dataclass(frozen=True)
class Reproduction:
    """Results of a recipe.

    Args:
        frame: Published and obtained results side by side.
        sentences: Summary of how far they agree.
        files: Saved files.
    """

    frame: pd.DataFrame
    sentences: list[str]
    files: list[Path]


def default_folder(recipe: Recipe, scale: str) -> Path:
    """Return the default output folder of a recipe, which all recipes of a paper share."""
    return Path("reproduce") / f"{recipe.paper}-{scale}"


def kept_table(recipe: Recipe, scale: str, folder: Path) -> pd.DataFrame | None:
    """Return the saved result of `make` with the same settings, or None if there is none."""
    from unweave.io.tables import read_attributes, read_table

    file = _table_file(recipe, scale, folder)
    if not file.exists():
        return None
    try:
        table, settings = (
            read_table(file, extended_types=True),
            read_attributes(file).get("settings"),
        )
    except (OSError, ValueError) as error:
        raise RecipeError(f"cannot read {file}; remove it to train again", subject=file) from error
    return table if settings == recipe.settings_at(scale) else None


def make(recipe: Recipe, scale: str, folder: Path) -> pd.DataFrame:
    """Run the `make` step of a recipe, or load its result from `<slug>-<scale>.parquet`."""
    from unweave.evaluation.files import write_table

    table, settings = kept_table(recipe, scale, folder), recipe.settings_at(scale)
    if table is not None:
        return table
    if recipe.make is None or settings is None:
        raise RecipeError(
            f"{recipe.name} has no `make` step; use its study, if it has one", subject=recipe.name
        )
    # Some recipes save models in the folder and reuse them.
    wants_folder = "folder" in signature(recipe.make).parameters
    table = recipe.make(**settings, **({"folder": folder} if wants_folder else {}))
    table.attrs["settings"] = settings
    write_table(table, _table_file(recipe, scale, folder))
    return table


def _table_file(recipe: Recipe, scale: str, folder: Path) -> Path:
    return folder / f"{recipe.slug}-{scale}.parquet"


def compare(recipe: Recipe, table: pd.DataFrame, folder: Path) -> Reproduction:
    """Compare a table with the published results, and save the comparison and the plot.

    The table is a study table or the result of `make`; it is empty if the recipe trains nothing.
    `<slug>.csv` and `<slug>.svg` in the folder are overwritten.
    """
    from unweave.evaluation.files import write_table
    from unweave.io.writing import whole_file

    frame = recipe.obtain(table)
    files = [folder / f"{recipe.slug}.csv"]
    write_table(frame, files[0])
    if recipe.plot is not None:
        files.append(folder / f"{recipe.slug}.svg")
        with whole_file(files[1]) as temporary:
            recipe.plot(table, temporary)
    return Reproduction(frame, recipe.verdict(frame), files)
