"""Figures 21 to 31: the adversarial version."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.ms_vae.plots import bars
from unweave.papers.ms_vae.studies import CONTROLS, GANS
from unweave.papers.recipe import Recipe, RecipeError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["FIGURES_21_31", "controlled"]

KEEPS = "MS-GAN varies the control variates without changing the identity, CGAN changes it"
NO_CONTROL = "in CGAN the noise has little or no control over the identity of chairs"
FINDS = "without supervision MS-GAN finds rotation, azimuth and distance of faces"
ENTANGLED = "InfoGAN's factors are highly entangled"
published = partial(claims, KEEPS, NO_CONTROL, FINDS, ENTANGLED)
MS_GAN, CGAN, INFO_GAN, FIRST = "ms_gan", "cgan", "infogan", "beta_vae"
CHANCE = 0.02
"""A MIG that codes reach without knowing anything."""
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
    over = rows[rows["method"].isin([MS_GAN, CGAN])]
    if over.empty:
        raise RecipeError("no generator is trained yet; run the study to its end first")

    def of_run(run: str) -> pd.DataFrame:
        model = trained.model(run)
        return pd.DataFrame([controlled(model, trained.data(model))])

    found = computed_once(folder / FILE, over["run"].tolist(), of_run, "looking at generators")
    return rows.merge(found, on="run", how="left")


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Generators against each other, by what the noise does and by how codes are disentangled."""
    rows = [
        row | {"data": data}
        for data, part in table.groupby("data", sort=False)
        for row in _judged(part)
    ]
    return compared(published(), rows)


def _judged(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    means = table.groupby("method")[["follows", "by_noise", "mig"]].mean()

    def value(method: str, column: str) -> float:
        return float(means[column].get(method, np.nan))

    one, other = value(MS_GAN, "follows"), value(CGAN, "follows")
    by = "correlation of C with C of generated images"
    yield comparison(KEEPS, "ms_gan against cgan", by, one, other, one > other)
    one, other = value(CGAN, "by_noise"), value(MS_GAN, "by_noise")
    by = "share of the variance of pixels by noise"
    yield comparison(NO_CONTROL, "cgan against ms_gan", by, one, other, one < other)
    of_c, info = value(FIRST, "mig"), value(INFO_GAN, "mig")
    yield comparison(FINDS, "C against chance", "MIG", of_c, CHANCE, of_c > CHANCE)
    yield comparison(ENTANGLED, "infogan against C", "MIG", info, of_c, info < of_c)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Each generator by what its control and its noise do."""
    words = {
        "follows": "C is followed",
        "by_control": "variance by C",
        "by_noise": "variance by noise",
        "mig": "MIG",
    }
    bars(table, "method", words, path)


FIGURES_21_31 = Recipe(
    name="ms-vae/figures-21-31",
    title=f"MS-GAN, CGAN and InfoGAN with {CONTROLS} controls, on textured sprites",
    where="Figures 21 to 31",
    claim="MS-GAN varies pose without changing identity; CGAN and InfoGAN do not.",
    published=published,
    studies=GANS,
    extend=extend,
    obtain=obtain,
    verdict=partial(sentences, meant="renderings of cars, chairs and faces, and CelebA"),
    plot=plot,
)
