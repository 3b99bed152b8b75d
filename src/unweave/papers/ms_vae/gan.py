"""Figures 21 to 31: the adversarial version."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.papers.measurements import Trained, computed_once
from unweave.papers.plots import bars
from unweave.papers.recipe import RecipeError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["controlled", "extend", "plot"]

SPREAD = 0.1
"""The deviation of a latent that is in use."""
FILE, DRAWN = "controls.parquet", 32
"""Codes, and draws of noise for each, on which generators are compared."""


def controlled(model: "Model", data: "Dataset", count: int = DRAWN) -> dict[str, float]:
    """What control and noise each do in a generator over a first stage.

    Returns:
        `follows`, the correlation of the control with what the first stage reads of generated
        images, mean over latents in use; `by_control` and `by_noise`, which share of the variance
        of pixels each alone explains; the rest is both together.
    """
    random, first = np.random.default_rng(0), model.first[0]
    rows = random.permutation(data.support)[:count]
    controls = first.encode(data.images(rows))[0]
    noise = random.normal(size=(count, model.config.latents)).astype(np.float32)
    pairs = [np.concatenate([np.tile(one, (count, 1)), noise], 1) for one in controls]
    images = np.stack([model.decode(codes) for codes in pairs])  # [control, noise, H, W, C]
    read = first.encode(images.reshape(-1, *model.shape))[0].reshape(count, count, -1)
    used = np.flatnonzero(controls.std(0) > SPREAD)
    follows = [
        np.corrcoef(np.repeat(controls[:, k], count), read[..., k].ravel())[0, 1] for k in used
    ]
    total = images.var((0, 1)).sum() or np.nan
    return {
        "follows": float(np.mean(follows)) if follows else float("nan"),
        "by_control": float(images.mean(1).var(0).sum() / total),
        "by_noise": float(images.mean(0).var(0).sum() / total),
    }


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Generators with what they do; what has no first stage has its MIG alone."""
    trained = Trained(folder)
    rows = table[table["state"] == "scored"]
    over = rows[rows["method"].isin(["ms_gan", "cgan"])]
    if over.empty:
        raise RecipeError("no generator is trained yet; run the study to its end first")

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        return pd.DataFrame([controlled(model, trained.data(model))])

    found = computed_once(folder / FILE, over["run"].tolist(), of_run, "looking at generators")
    return rows.merge(found, on="run", how="left")


def plot(table: pd.DataFrame, path: Path) -> None:
    """Each generator by what its control and its noise do."""
    words = {
        "follows": "C is followed",
        "by_control": "variance by C",
        "by_noise": "variance by noise",
        "mig": "MIG",
    }
    bars(table, "method", words, path)
