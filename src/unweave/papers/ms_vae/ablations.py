"""Figures 37 to 40: what each choice in MS-VAE is good for."""

from pathlib import Path

import numpy as np
import pandas as pd

from unweave.papers.measurements import IMAGES, Trained, computed_once
from unweave.papers.ms_vae.stages import measured
from unweave.papers.plots import bars

__all__ = ["NATS_FILE", "STATISTICS", "extend", "plot", "version_of"]

NATS_FILE = "nats.parquet"


def version_of(table: pd.DataFrame) -> pd.Series:
    """Which of the five a model is.

    Example:
        >>> one = {"strength_z": 1, "condition": "image", "mixing": "adain", "together": False}
        >>> changes = [{}, {"together": True}, {"condition": "code"}]
        >>> version_of(pd.DataFrame([{**one, **change} for change in changes])).tolist()
        ['M4', 'M1', 'M3']
    """
    code, concat = table["condition"] == "code", table["mixing"] == "concat"
    version = pd.Series("M4", table.index).mask(code & ~concat, "M3").mask(code & concat, "M2")
    return version.mask(table["together"].eq(True), "M1").mask(table["strength_z"] > 1, "M5")


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Models of two stages with what they keep of C, their errors, and the nats of both codes."""
    rows = measured(table, folder).rename(columns={"strength": "strength_z"})
    trained = Trained(folder)

    def of_run(run: str) -> pd.DataFrame:
        from unweave.models.drawn_images import drawn_rows

        model = trained.model(run)
        data = trained.data(model)
        rows = drawn_rows(data, min(IMAGES, len(data)), seed=0)
        mean, logvar = model.encode(data.images(rows))
        nats = 0.5 * (mean**2 + np.exp(logvar) - logvar - 1).mean(0)
        size, factors = model.first.configs[0].code_size, trained.factors(model, rows)
        own = _mig(mean[:, :size], factors), _mig(mean[:, size:], factors)
        return pd.DataFrame(
            [
                {
                    "nats_first": float(nats[:size].sum()),
                    "nats_second": float(nats[size:].sum()),
                    "mig_first": own[0],
                    "mig_second": own[1],
                }
            ]
        )

    found = computed_once(folder / NATS_FILE, rows["run"].tolist(), of_run, "looking at codes")
    rows = rows.merge(found, on="run")
    return rows.assign(version=version_of(rows))


def _mig(codes: np.ndarray, factors: np.ndarray) -> float:
    """MIG of some latents of a model."""
    from unweave.metrics import METRICS

    return float(METRICS["mig"].function(codes, factors)["mig"])


def _least_mean_of_a_version(rows: pd.DataFrame, column: str) -> float:
    return float(rows.groupby("version")[column].mean().min())


STATISTICS = {"least_mean_of_a_version": _least_mean_of_a_version}


def plot(table: pd.DataFrame, path: Path) -> None:
    """Each version by what it may lack."""
    words = {"mig_first": "MIG of C", "m3": "share of C kept", "l2_x": "L2 of X"}
    bars(table, "version", words, path)
