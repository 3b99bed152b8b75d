"""What recipes read of trained models, computed once and kept beside them."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.papers.recipe import RecipeError

if TYPE_CHECKING:
    import numpy as np

    from unweave.analysis.latents import Latents
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["IMAGES", "Trained", "computed_once"]

IMAGES = 10_000
"""Of a data set on which models are compared."""


class Trained:
    """The models of a study and their data, on a GPU where there is one.

    Args:
        folder: The study's.
    """

    def __init__(self, folder: Path) -> None:
        from unweave.study.datasets import Sources
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
        from unweave.models.model import load

        return load(self.store.runs / run, self.device)

    def data(self, model: "Model") -> "Dataset":
        """What a model learned from."""
        return self.sources.near(model.config, model.device)

    def factors(self, model: "Model", rows: "np.ndarray") -> "np.ndarray":
        """The factor classes `[n, K]` of some images of what a model learned from."""
        return self.sources.open(model.config).factors(rows)

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
    from unweave.io.tables import read_table
    from unweave.io.writing import whole_file
    from unweave.progress import track

    try:
        parts = [read_table(file, more_types=True)] if file.exists() else []
    except (OSError, ValueError) as error:
        raise RecipeError(f"{file} cannot be read; remove it to measure again") from error
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
