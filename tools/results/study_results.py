"""Results of studies in benchmarks/results: reading them and adding new ones."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.errors import UnweaveError
from unweave.evaluation.files import write_table
from unweave.papers import RECIPES, SCALES, Recipe

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
TABLE, RUN = "study.csv", "run.json"
DIGITS = 6


class ResultsError(UnweaveError):
    """Raised when a page cannot be generated from the results."""


@dataclass(frozen=True)
class StudyResults:
    """A folder in benchmarks/results with the table of a study.

    Args:
        folder: Path of the folder, named after the paper and the kind of run: `isa_vae_hour`.
    """

    folder: Path

    @cached_property
    def table(self) -> pd.DataFrame:
        """The study table."""
        return _read(self.folder / TABLE)

    @cached_property
    def run(self) -> dict[str, Any]:
        """Device, time and speed of the run."""
        path = self.folder / RUN
        if not path.exists():
            raise ResultsError(
                f"{RUN} was not found in {self.folder}; it records the device and time, and "
                "`python benchmarks/large_study.py` writes it",
                subject=RUN,
                value=self.folder,
            )
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    @property
    def paper(self) -> str:
        """Name of the paper, as in recipes; empty if the study belongs to no paper."""
        name = self.folder.name.replace("_", "-")
        papers = {recipe.paper for recipe in RECIPES.values()}
        return max((p for p in papers if name.startswith(p)), key=len, default="")

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of all models: the recorded ones, or else those of the recipes."""
        if (self.folder / RUN).exists():
            recorded: dict[str, Any] = self.run["settings"]
            return recorded
        scale = self.folder.name.rpartition("_")[2]
        studies = [r.studies for r in RECIPES.values() if r.paper == self.paper and r.studies]
        if not studies:
            return {}
        found: dict[str, Any] = studies[0][scale if scale in SCALES else "hour"]["settings"]
        return found

    def comparisons(self) -> Iterator[tuple[Recipe, pd.DataFrame]]:
        """Yield recipes of the study with their saved comparisons."""
        for recipe in RECIPES.values():
            path = self.folder / f"{recipe.slug}.csv"
            if recipe.paper == self.paper and path.exists():
                yield recipe, _read(path)


def all_studies(results: Path = RESULTS) -> list[StudyResults]:
    """Return all studies with results, sorted by name."""
    return [StudyResults(path.parent) for path in sorted(results.glob(f"*/{TABLE}"))]


def add_run(out: Path, results: Path = RESULTS) -> StudyResults:
    """Add the results of a run: its table, its cost, and the comparisons of all recipes.

    Args:
        out: Output folder of `benchmarks/large_study.py`, with `study.parquet` and `run.json`.
        results: Folder to add the results to.
    """
    for name in ("study.parquet", RUN):
        if not (out / name).is_file():
            raise ResultsError(
                f"{name} was not found in {out}; use the output folder of "
                "`python benchmarks/large_study.py --out`",
                subject=name,
                value=out,
            )
    run = json.loads((out / RUN).read_text())
    table = pd.read_parquet(out / "study.parquet")
    folder = results / run["name"]
    folder.mkdir(parents=True, exist_ok=True)
    old = folder / RUN
    if not (old.exists() and json.loads(old.read_text())["calls"] == run["calls"]):
        # A file of the same run is not replaced, because it may have been edited by hand.
        shutil.copyfile(out / RUN, old)
    table.round(DIGITS).to_csv(folder / TABLE, index=False)
    study = StudyResults(folder)
    for recipe in RECIPES.values():
        if recipe.paper == study.paper and recipe.studies and recipe.extend is None:
            # Use the rounded table, so that the comparison can be reproduced from it.
            write_table(recipe.obtain(study.table), folder / f"{recipe.slug}.csv")
    return study


def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise ResultsError(
            f"{path.name} was not found in {path.parent}; add the results of a run with "
            "`python -m tools.results OUT`",
            subject=path.name,
            value=path.parent,
        )
    return pd.read_csv(path)
