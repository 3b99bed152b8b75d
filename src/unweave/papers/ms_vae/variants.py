"""Figures 21 to 31 and 37 to 40: the adversarial version, and ablations."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unweave.papers.measurements import IMAGES, Trained, scored_models
from unweave.papers.ms_vae.scores import measured

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

OVER_FIRST_STAGES = ("ms_gan", "cgan")
"""Generators that are conditioned on the code of a first stage."""
SPREAD = 0.1
"""Smallest standard deviation of an active latent."""
DRAWN = 32
"""Number of codes, and of noise samples for each, used to compare generators."""
CONTROLS_FILE, NATS_FILE = "controls.parquet", "nats.parquet"


def controlled(model: "Model", data: "Dataset", count: int = DRAWN) -> dict[str, float]:
    """Measure the effects of control code and noise in a generator with a first stage.

    Returns:
        `follows`, the mean correlation, over active latents, of the control with the code that the
        first stage infers from generated images; `by_control` and `by_noise`, the shares of the
        pixel variance explained by each alone; the rest is their interaction.
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


def extend_21_31(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Generators with the measures of `controlled`; without a first stage, only their MIG."""
    trained = Trained(folder)
    rows = scored_models(table, *OVER_FIRST_STAGES)
    over = rows[rows["method"].isin(OVER_FIRST_STAGES)]

    def of_model(model: "Model") -> dict[str, float]:
        return controlled(model, trained.data(model))

    found = trained.measured(CONTROLS_FILE, over["run"], of_model, "measuring generators")
    return rows.merge(found, on="run", how="left")


def version_of(table: pd.DataFrame) -> pd.Series:
    """Version of each model in Figures 37 to 40, M1 to M5.

    Example:
        >>> one = {"strength_z": 1, "condition": "image", "mixing": "adain", "together": False}
        >>> changes = [{}, {"together": True}, {"condition": "code"}]
        >>> version_of(pd.DataFrame([{**one, **change} for change in changes])).tolist()
        ['M4', 'M1', 'M3']
    """
    code, concat = table["condition"] == "code", table["mixing"] == "concat"
    version = pd.Series("M4", table.index).mask(code & ~concat, "M3").mask(code & concat, "M2")
    return version.mask(table["together"].eq(True), "M1").mask(table["strength_z"] > 1, "M5")


def extend_37_40(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Two-stage models with M1 to M4, errors, and the nats and MIG of both codes."""
    from unweave.metrics import METRICS
    from unweave.models.images import sample_rows

    rows = measured(table, folder).rename(columns={"strength": "strength_z"})
    trained = Trained(folder)

    def of_model(model: "Model") -> dict[str, float]:
        data = trained.data(model)
        chosen = sample_rows(data, min(IMAGES, len(data)), seed=0)
        mean, logvar = model.encode(data.images(chosen))
        nats = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
        size, factors = model.first.configs[0].code_size, trained.factors(model, chosen)
        found = {}
        for name, part in (("first", slice(size)), ("second", slice(size, None))):
            found[f"nats_{name}"] = float(nats[part].sum())
            found[f"mig_{name}"] = float(METRICS["mig"].function(mean[:, part], factors)["mig"])
        return found

    rows = rows.merge(trained.measured(NATS_FILE, rows["run"], of_model, "measuring codes"))
    return rows.assign(version=version_of(rows))
