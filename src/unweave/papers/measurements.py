"""Measurements of trained models for recipes, cached in the study folder."""

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

__all__ = ["IMAGES", "Trained", "computed_once", "scored_models"]

IMAGES = 10_000
"""Number of images on which models are compared."""


def scored_models(table: pd.DataFrame, *methods: str) -> pd.DataFrame:
    """Return the scored models of a study; there must be one of these methods, if any."""
    rows = table[table["state"] == "scored"]
    wanted = rows["method"].isin(methods) if methods else rows["state"].notna()
    if not wanted.any():
        kind = " or ".join(methods) or "any method"
        raise RecipeError(
            f"the study has no scored models of {kind}; finish it first",
            subject="state",
            value=methods,
        )
    return rows


class Trained:
    """The models of a study and their data, on a GPU if available.

    Args:
        folder: Folder of the study.
    """

    def __init__(self, folder: Path) -> None:
        from unweave.study.store import Store

        self.folder = folder
        self.store = Store(folder)

    @cached_property
    def device(self) -> str:
        """Device on which models are loaded."""
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    def model(self, run: str) -> "Model":
        """Load the model of a run."""
        from unweave.models.model import load

        return load(self.store.runs / run, self.device)

    def data(self, model: "Model") -> "Dataset":
        """Return the training data of a model."""
        return self.store.data_of(model.config, model.device)

    def factors(self, model: "Model", rows: "np.ndarray") -> "np.ndarray":
        """Return the factor classes `[n, K]` of some images of a model's training data."""
        return self.store.data_of(model.config).factors(rows)

    def latents(self, models: "Iterable[Model]", images: int = IMAGES) -> "Latents":
        """Encode images of a data set with several models that were trained on it."""
        from unweave.select.latents import latents_of

        every = list(models)
        return latents_of(every, self.data(every[0]), images)

    def measured(
        self,
        file: str,
        runs: Iterable[str],
        compute: "Callable[[Model], pd.DataFrame | dict[str, float]]",
        job: str,
    ) -> pd.DataFrame:
        """Call `computed_once` for the models of runs, with a cache file in the study folder."""

        def of_run(run: str) -> pd.DataFrame:
            found = compute(self.model(run))
            return pd.DataFrame([found]) if isinstance(found, dict) else found

        return computed_once(self.folder / file, list(runs), of_run, job)


def computed_once(
    file: Path, runs: Sequence[str], compute: Callable[[str], pd.DataFrame], job: str
) -> pd.DataFrame:
    """Compute rows for each run that is not yet in a cache file, and save them run by run.

    Returns:
        All rows, with the column `run`.
    """
    from unweave.io.tables import read_table
    from unweave.io.writing import whole_file
    from unweave.progress import track

    try:
        parts = [read_table(file, extended_types=True)] if file.exists() else []
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"cannot read {file}; remove it to measure the models again", subject=file
        ) from error
    known = {run for part in parts for run in part["run"]}
    missing = [run for run in runs if run not in known]
    for run in track(missing, job, len(missing)):
        parts = [pd.concat([*parts, compute(run).assign(run=run)], ignore_index=True)]
        with whole_file(file) as temporary:
            parts[0].to_parquet(temporary, index=False)
    if not parts:
        raise RecipeError(
            "none of the models that this recipe needs has scores; finish the study first",
            subject="run",
        )
    return parts[0][parts[0]["run"].isin(runs)]
