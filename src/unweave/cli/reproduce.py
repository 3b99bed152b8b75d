"""The command `unweave reproduce`: published results next to obtained ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from tyro.conf import Positional, arg

from unweave.cli.app import app
from unweave.cli.options import Where
from unweave.cli.printing import print_table
from unweave.errors import InterruptedTrainingError, UnknownNameError, UnweaveError
from unweave.io.paths import check_folder
from unweave.progress import print_output

if TYPE_CHECKING:
    import pandas as pd

    from unweave.papers import Recipe

__all__ = ["Reproduce", "list_recipes"]

Scale: TypeAlias = Literal["smoke", "hour", "paper"]


@app.add("reproduce")
@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Reproduce a published table or figure, and print published and obtained side by side.

    Example: unweave reproduce common-assumptions/variance-explained --scale smoke
    """

    name: Annotated[
        Positional[str | None],
        arg(metavar="[NAME]", help="Name of a recipe or paper (default: list all recipes)."),
    ] = None
    scale: Scale = "smoke"
    """Scale: smoke (minutes on a CPU), hour (one GPU-hour) or paper (as published)."""
    out: Annotated[
        Path | None,
        arg(
            aliases=["-o"],
            metavar="FOLDER",
            help="Output folder (default: reproduce/PAPER-SCALE).",
        ),
    ] = None
    on: Where = "here"
    plan: bool = False
    """Only print the plan and its estimated cost."""
    every: Annotated[bool, arg(name="all", help="Run all recipes of the paper NAME.")] = False
    yes: bool = False
    """Train on the CPU even if the scale is meant for a GPU."""

    def run(self) -> None:
        from unweave.papers import PAPERS, find

        if self.every:
            if self.name not in PAPERS:
                raise UnknownNameError("paper", str(self.name), PAPERS)
            _reproduce_paper(self)
        elif self.name is None or self.name in PAPERS:
            list_recipes(self.name)
        else:
            _reproduce_recipe(find(self.name), self)


def list_recipes(paper: str | None = None) -> None:
    """Print all recipes, or those of one paper, with their place in the paper and status."""
    import pandas as pd

    from unweave.papers import PAPERS, RECIPES

    for name, citation in PAPERS.items():
        if paper in (None, name):
            print_output(f"\n{citation}")
            recipes = [recipe for recipe in RECIPES.values() if recipe.paper == name]
            print_table(
                pd.DataFrame(
                    [
                        {"name": r.name, "where": r.where, "title": r.title, "status": r.status}
                        for r in recipes
                    ]
                )
            )
    print_output("To run a recipe: unweave reproduce NAME [--scale smoke|hour|paper]")


def _reproduce_recipe(recipe: "Recipe", options: Reproduce) -> None:
    """Run a recipe, print published and obtained results side by side and compare them."""
    from unweave.papers import PAPERS
    from unweave.papers.running import compare, default_folder

    print_output(
        f"{recipe.title}\n{recipe.where} of {PAPERS[recipe.paper]}\nClaim: {recipe.claim}\n"
    )
    if recipe.status != "ready":
        print_table(recipe.published())
        print_output("These values are listed for reference only; there is nothing to run.")
        return
    folder = options.out or default_folder(recipe, options.scale)
    if not options.plan:
        check_folder(folder)
    table = _run_study(recipe, folder, options)
    if table is None:
        return
    if recipe.extend is not None:
        table = recipe.extend(table, folder)
    found = compare(recipe, table, folder)
    print_table(_obtained(found.frame))
    for sentence in found.sentences:
        print_output(sentence)
    if recipe.studies or recipe.make is not None:
        _print_scale(recipe, options.scale)
    print_output("Saved: " + ", ".join(str(file) for file in found.files))


def _reproduce_paper(options: Reproduce) -> None:
    """Run all recipes of a paper in turn; a failed recipe does not stop the others."""
    from unweave.papers import RecipeError, ready

    recipes, failed = ready(str(options.name)), []
    for number, recipe in enumerate(recipes, 1):
        print_output(f"\n{recipe.name} ({number} of {len(recipes)})")
        try:
            _reproduce_recipe(recipe, options)
        except InterruptedTrainingError:
            raise
        except UnweaveError as error:
            print_output(f"{recipe.name} failed: {error}")
            failed.append(recipe.slug)
    if failed:
        raise RecipeError(
            f"{len(failed)} of {len(recipes)} recipes of {options.name} failed (see above): "
            f"{', '.join(failed)}",
            subject=options.name,
            value=failed,
        )


def _print_scale(recipe: "Recipe", scale: str) -> None:
    """Print how far to trust the numbers, unless they are at the scale of the paper."""
    from unweave.papers import SCALES

    if recipe.make is not None and recipe.settings_at(scale) == recipe.settings_at("paper"):
        scale = "paper"
    if scale != "paper":
        print_output(f"\nScale {scale}: {SCALES[scale]}.")


def _run_study(recipe: "Recipe", folder: Path, options: Reproduce) -> "pd.DataFrame | None":
    """Print the plan, then train; return None with `--plan`."""
    import pandas as pd

    from unweave.study import plan, run

    if recipe.make is not None:
        return _run_directly(recipe, folder, options)
    study = recipe.study(options.scale)
    if study is None:
        return None if options.plan else pd.DataFrame()
    print_output(f"Plan at scale {options.scale}, in {folder}:\n{plan(study, folder)}\n")
    if options.plan:
        return None
    if options.on == "here" and not options.yes:
        _check_device(options.scale)
    return run(study, folder, on=options.on).table


def _run_directly(recipe: "Recipe", folder: Path, options: Reproduce) -> "pd.DataFrame | None":
    """Print the plan and run a recipe that is not a study; return None with `--plan`."""
    from unweave.papers import RecipeError
    from unweave.papers.running import kept_table, make

    settings = recipe.settings_at(options.scale) or {}
    listed = "\n".join(f"  {name}: {value}" for name, value in settings.items())
    done = kept_table(recipe, options.scale, folder) is not None
    print_output(f"Plan at scale {options.scale}, in {folder}:\n{listed}")
    print_output("Already trained.\n" if done else "")
    if options.plan:
        return None
    if options.on != "here":
        raise RecipeError(f"{recipe.name} only runs in this process; leave out --on", subject="on")
    if not (done or options.yes or settings.get("device") == "cpu"):
        _check_device(options.scale)
    return make(recipe, options.scale, folder)


def _check_device(scale: str) -> None:
    from unweave.papers import RecipeError

    if scale != "smoke" and not _has_gpu():
        raise RecipeError(
            f"scale {scale} is meant for a GPU, but none was found; use --scale smoke, or add "
            "--yes to train on the CPU",
            subject="scale",
            value=scale,
        )


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _obtained(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows with obtained values, and print how many have none."""
    rows = frame[frame["obtained"].notna()]
    missing = len(frame) - len(rows)
    if missing:
        print_output(
            f"{missing} of {len(frame)} published rows have no obtained value at this scale."
        )
    return rows
