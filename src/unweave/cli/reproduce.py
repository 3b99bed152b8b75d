"""The command `unweave reproduce`: what it lists, trains, compares and prints."""

from pathlib import Path
from typing import Any

import pandas as pd

from unweave.cli.commands.papers import Reproduce
from unweave.errors import InterruptedTrainingError, UnknownNameError, UnweaveError
from unweave.io.paths import check_folder
from unweave.papers import PAPERS, RECIPES, SCALES, Recipe, RecipeError, find, ready
from unweave.papers.running import compare, default_folder, kept_table, make, study_of, train
from unweave.progress import tell

__all__ = ["list_recipes", "print_table", "reproduce"]

PRINTED = ("published", "spread")


def list_recipes(paper: str | None = None) -> None:
    """Print all recipes, or those of one paper: where they stand, what they show, their status."""
    for name, citation in PAPERS.items():
        if paper in (None, name):
            tell(f"\n{citation}")
            recipes = [recipe for recipe in RECIPES.values() if recipe.paper == name]
            print_table(
                pd.DataFrame(
                    [
                        {"name": r.name, "where": r.where, "what": r.title, "status": r.status}
                        for r in recipes
                    ]
                )
            )
    tell("Run one that is ready: unweave reproduce NAME [--scale smoke|hour|paper]")


def reproduce(asked: Reproduce) -> None:
    """List recipes, or run one or all of a paper."""
    if asked.every:
        if asked.name not in PAPERS:
            raise UnknownNameError("paper", str(asked.name), PAPERS)
        reproduce_paper(asked)
    elif asked.name is None or asked.name in PAPERS:
        list_recipes(asked.name)
    else:
        reproduce_recipe(find(asked.name), asked)


def reproduce_recipe(recipe: Recipe, asked: Reproduce) -> None:
    """Run a recipe, print published and obtained side by side, and how far they agree."""
    tell(f"{recipe.title}\n{recipe.where} of {PAPERS[recipe.paper]}\nClaim: {recipe.claim}\n")
    if recipe.waits_for or recipe.for_reference:
        _only_published(recipe)
        return
    folder = asked.out or default_folder(recipe, asked.scale)
    if not asked.plan:
        check_folder(folder)
    table = _trained(recipe, folder, asked)
    if table is None:
        return
    if recipe.extend is not None:
        table = recipe.extend(table, folder)
    found = compare(recipe, table, folder)
    print_table(_obtained(found.frame))
    for sentence in found.sentences:
        tell(sentence)
    if recipe.studies or recipe.make is not None:
        _print_scale(recipe, asked.scale)
    tell("Saved: " + ", ".join(str(file) for file in found.files))


def reproduce_paper(asked: Reproduce) -> None:
    """Run all recipes of a paper, one after the other; one that is refused costs only itself."""
    recipes, failed = ready(str(asked.name)), []
    for place, recipe in enumerate(recipes, 1):
        tell(f"\n{recipe.name} ({place} of {len(recipes)})")
        try:
            reproduce_recipe(recipe, asked)
        except InterruptedTrainingError:
            raise
        except UnweaveError as error:
            tell(f"{recipe.name} failed: {error}")
            failed.append(recipe.slug)
    if failed:
        raise RecipeError(
            f"{len(failed)} of {len(recipes)} recipes of {asked.name} failed, see above: "
            f"{', '.join(failed)}"
        )


def _print_scale(recipe: Recipe, scale: str) -> None:
    """What the numbers are worth, unless they are those of the paper's scale."""
    if recipe.make is not None and recipe.settings_at(scale) == recipe.settings_at("paper"):
        scale = "paper"
    if scale != "paper":
        tell(f"\nScale {scale}: {SCALES[scale]}.")


def _only_published(recipe: Recipe) -> None:
    """What can be said of a recipe that cannot be run."""
    print_table(recipe.published())
    if recipe.waits_for:
        raise RecipeError(f"{recipe.name} cannot be run yet: it waits for {recipe.waits_for}")
    tell("This is for reference: there is nothing to obtain.")


def _trained(recipe: Recipe, folder: Path, asked: Reproduce) -> pd.DataFrame | None:
    """Print the plan, then train; None if only the plan was asked for."""
    from unweave.study import plan

    if recipe.make is not None:
        return _made(recipe, folder, asked)
    study = study_of(recipe, asked.scale)
    if study is None:
        return None if asked.plan else pd.DataFrame()
    tell(f"Plan at scale {asked.scale}, kept in {folder}:\n{plan(study, folder)}\n")
    if asked.plan:
        return None
    if asked.on == "here" and not asked.yes:
        _check_device(asked.scale)
    return train(study, folder, asked.on)


def _made(recipe: Recipe, folder: Path, asked: Reproduce) -> pd.DataFrame | None:
    """The same for a recipe that is not a study."""
    settings = recipe.settings_at(asked.scale) or {}
    listed = "\n".join(f"  {name}: {value}" for name, value in settings.items())
    done = kept_table(recipe, asked.scale, folder) is not None
    tell(f"Plan at scale {asked.scale}, kept in {folder}:\n{listed}")
    tell("This is trained already.\n" if done else "")
    if asked.plan:
        return None
    if asked.on != "here":
        raise RecipeError(f"{recipe.name} is no study and trains here only; leave out --on")
    if not (done or asked.yes or settings.get("device") == "cpu"):
        _check_device(asked.scale)
    return make(recipe, asked.scale, folder)


def _check_device(scale: str) -> None:
    if scale != "smoke" and not _has_gpu():
        raise RecipeError(
            f"scale {scale} is meant for a GPU, and there is none here; try --scale smoke, or add "
            "--yes to train on the CPU all the same"
        )


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _obtained(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that were obtained, and a line on the others, which are in the file."""
    rows = frame[frame["obtained"].notna()]
    left = len(frame) - len(rows)
    if left:
        tell(f"Of {len(frame)} published rows the study has nothing to set beside {left}.")
    return rows


def print_table(frame: pd.DataFrame) -> None:
    """A table, numbers to the right, as wide as it needs to be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    drawn = Table(box=box.SIMPLE_HEAD)
    for name in frame:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        drawn.add_column(str(name), justify="right" if numeric else "left")
    for row in frame.to_dict("records"):
        drawn.add_row(*(_cell(value, name in PRINTED) for name, value in row.items()))
    if not console.is_terminal:
        console.width = max(160, console.measure(drawn).maximum)
    console.print(drawn)


def _cell(value: Any, printed: bool) -> str:
    """What was published to every digit that is printed, what was obtained to three and more."""
    if pd.isna(value):
        return "–"
    return f"{value:.7g}" if printed and isinstance(value, float) else _short(value)


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.1f}"
