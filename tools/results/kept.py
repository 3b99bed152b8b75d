"""What studies have left in benchmarks/results, and how a new one comes there."""

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
    """Results that a page cannot be made of."""


@dataclass(frozen=True)
class Kept:
    """A folder of benchmarks/results with the table of a study.

    Args:
        folder: Its name is the paper's and what kind of run it was: `isa_vae_hour`.
    """

    folder: Path

    @cached_property
    def table(self) -> pd.DataFrame:
        """The study table."""
        return _read(self.folder / TABLE)

    @cached_property
    def run(self) -> dict[str, Any]:
        """The device, the minutes and the speed of what was run."""
        path = self.folder / RUN
        if not path.exists():
            raise ResultsError(
                f"there is no {RUN} in {self.folder}, which says on what and how long it ran; "
                "`python benchmarks/large_study.py` writes it"
            )
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    @property
    def paper(self) -> str:
        """Whose recipes it is of, as recipes have it; empty where it is no paper's."""
        name = self.folder.name.replace("_", "-")
        papers = {recipe.paper for recipe in RECIPES.values()}
        return max((p for p in papers if name.startswith(p)), key=len, default="")

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of all its models: those that were noted, or else those of its recipes."""
        if (self.folder / RUN).exists():
            noted: dict[str, Any] = self.run["settings"]
            return noted
        scale = self.folder.name.rpartition("_")[2]
        studies = [r.studies for r in RECIPES.values() if r.paper == self.paper and r.studies]
        if not studies:
            return {}
        found: dict[str, Any] = studies[0][scale if scale in SCALES else "hour"]["settings"]
        return found

    def comparisons(self) -> Iterator[tuple[Recipe, pd.DataFrame]]:
        """Its recipes, and what was obtained beside what was published."""
        for recipe in RECIPES.values():
            path = self.folder / f"{recipe.slug}.csv"
            if recipe.paper == self.paper and path.exists():
                yield recipe, _read(path)


def every(results: Path = RESULTS) -> list[Kept]:
    """All studies that are kept, by name."""
    return [Kept(path.parent) for path in sorted(results.glob(f"*/{TABLE}"))]


def take(out: Path, results: Path = RESULTS) -> Kept:
    """Keep what a run has left: its table, what it took, and the comparisons of all recipes.

    Args:
        out: With `study.parquet` and `run.json`, as `benchmarks/large_study.py` leaves them.
        results: Where it is kept.
    """
    for name in ("study.parquet", RUN):
        if not (out / name).is_file():
            raise ResultsError(
                f"there is no {name} in {out}; name the folder that "
                "`python benchmarks/large_study.py --out` has written"
            )
    run = json.loads((out / RUN).read_text())
    table = pd.read_parquet(out / "study.parquet")
    folder = results / run["name"]
    folder.mkdir(parents=True, exist_ok=True)
    old = folder / RUN
    if not (old.exists() and json.loads(old.read_text())["calls"] == run["calls"]):
        # Otherwise it is the same run, in which something may have been marked by hand.
        shutil.copyfile(out / RUN, old)
    table.round(DIGITS).to_csv(folder / TABLE, index=False)
    kept = Kept(folder)
    for recipe in RECIPES.values():
        ours = recipe.paper == kept.paper and recipe.studies and recipe.extend is None
        if ours and recipe.obtain is not None:
            # From the digits that are kept, so that anybody finds the same.
            write_table(recipe.obtain(kept.table), folder / f"{recipe.slug}.csv")
    return kept


def _read(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise ResultsError(
            f"there is no {path.name} in {path.parent}; `python -m tools.results OUT` puts it "
            "there from what a run has left"
        )
    return pd.read_csv(path)
