"""What the recipes of this paper read of trained models, computed once and kept beside them."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.recipes.recipe import RecipeError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.fleet.models import Model
    from unweave.select.latents import Latents

__all__ = ["ENSEMBLE", "Trained", "computed_once", "kinds", "scored"]

ENSEMBLE = "vae_ensemble"
ORIGINAL, WITHOUT_CROSS, WITHOUT_ALIGNMENT = "original", "w.o. CR", "w.o. LT"
APART, STOPPED, PARTIAL = "trained apart", "stop_grad_target", "neighbours"
IMAGES = 10_000


class Trained:
    """The models of a study and their data, on a GPU where there is one.

    Args:
        folder: The study's.
    """

    def __init__(self, folder: Path) -> None:
        from unweave.study.sources import Sources
        from unweave.study.store import Store

        self.store = Store(folder)
        self.sources = Sources(self.store)

    @cached_property
    def device(self) -> str:
        """Where models are."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    def model(self, run: str) -> "Model":
        """The model of a run."""
        from unweave.fleet.models import load

        return load(self.store.runs / run, self.device)

    def data(self, model: "Model") -> "Dataset":
        """What a model learned from."""
        return self.sources.near(model.config, model.device)

    def latents(self, models: "Iterable[Model]") -> "Latents":
        """The codes that models of one data set have for 10,000 of its images."""
        from unweave.select.latents import latents_of

        every = list(models)
        return latents_of(every, self.data(every[0]), IMAGES)


def computed_once(
    file: Path, runs: Sequence[str], compute: Callable[[str], pd.DataFrame], job: str
) -> pd.DataFrame:
    """Rows of each run, computed where a file has none of it yet, and kept there run by run.

    Args:
        file: A Parquet file in the study's folder.
        runs: Names of runs, or of several together.
        compute: Makes the rows of one.
        job: What is being done, in words.

    Returns:
        All rows, with the column `run`.
    """
    from unweave.data.cache import whole_file
    from unweave.progress import track

    parts = [pd.read_parquet(file)] if file.exists() else []
    known = {run for part in parts for run in part["run"]}
    missing = [run for run in runs if run not in known]
    for run in track(missing, job, len(missing)):
        parts = [pd.concat([*parts, compute(run).assign(run=run)], ignore_index=True)]
        with whole_file(file) as temporary:
            parts[0].to_parquet(temporary, index=False)
    if not parts:
        raise RecipeError(
            "no model that this recipe needs is scored yet; run the study to its end first"
        )
    return parts[0][parts[0]["run"].isin(runs)]


def name_of(runs: Iterable[str]) -> str:
    """One name for several runs together."""
    return hashlib.sha256(" ".join(sorted(runs)).encode()).hexdigest()[:16]


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """The models that are trained and scored, with their `kind`."""
    rows = table[table["state"] == "scored"]
    if not (rows["method"] == ENSEMBLE).any():
        raise RecipeError(
            "no ensemble of this study is scored yet; run the study to its end first"
        )
    return rows.assign(kind=kinds(rows))


def kinds(table: pd.DataFrame) -> pd.Series:
    """Of each ensemble whether it is as published, or what it lacks; none of other models.

    Example:
        >>> settings = {"method": "vae_ensemble", "cross_reconstruction": [True, False, False]}
        >>> kinds(pd.DataFrame({**settings, "alignment": [True, True, False]})).tolist()
        ['original', 'w.o. CR', 'trained apart']
    """
    said = table.reindex(columns=["cross_reconstruction", "alignment", "stop_grad_target"])
    alone, free = said["cross_reconstruction"].eq(False), said["alignment"].eq(False)
    partial = table.reindex(columns=["neighbours"])["neighbours"].ge(0)
    kind = pd.Series(ORIGINAL, table.index).mask(partial, PARTIAL)
    kind = kind.mask(said["stop_grad_target"].eq(True), STOPPED)
    kind = kind.mask(alone, WITHOUT_CROSS).mask(free, WITHOUT_ALIGNMENT).mask(alone & free, APART)
    return kind.where(table["method"] == ENSEMBLE)
