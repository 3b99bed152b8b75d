"""Figures 37 to 40: what each choice in MS-VAE is good for."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims
from unweave.papers.measurements import IMAGES, Trained, computed_once
from unweave.papers.ms_vae.plots import bars
from unweave.papers.ms_vae.stages import measured
from unweave.papers.ms_vae.studies import ABLATIONS
from unweave.papers.recipe import Recipe

__all__ = ["FIGURES_37_40", "version_of"]

M1 = "M1, trained end to end: C is entangled with identity and colour"
M2 = "M2, C and Z concatenated: disentanglement is lost"
M3 = "M3, C with adaptive normalisation: disentangled, worse images than M4"
M4 = "M4, the full model: disentangled, best images"
M5 = "M5, Z before C: C holds nothing, Z holds all factors entangled"
published = partial(claims, M1, M2, M3, M4, M5)
EMPTY = 0.1
"""C holds nothing where it has less than this share of the nats of Z."""
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


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Each version against the full model."""
    rows = [row for data, part in table.groupby("data", sort=False) for row in _judged(data, part)]
    return compared(published(), rows)


def _judged(data: Any, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    means = table.groupby("version")[
        ["mig_first", "m3", "l2_x", "nats_first", "nats_second", "mig_second"]
    ].mean()
    if "M4" not in means.index:
        return
    full = means.loc["M4"]
    for claim, version, column, word, sign in (
        (M1, "M1", "mig_first", "MIG of C", -1),
        (M1, "M1", "m3", "M3, share of C that is kept", -1),
        (M2, "M2", "m3", "M3, share of C that is kept", -1),
        (M3, "M3", "l2_x", "L2 of X", 1),
    ):
        if version in means.index:
            one, other = float(means.loc[version, column]), float(full[column])
            of, worse = f"{version} against M4", sign * (one - other) > 0
            yield comparison(claim, of, word, one, other, worse, data=data)
    best = float(means.loc[means.index != "M5", "l2_x"].min())
    own = float(full["l2_x"])
    yield comparison(M4, "M4 against all", "L2 of X", own, best, own <= best, data=data)
    if "M5" in means.index:
        last = means.loc["M5"]
        nats, most = float(last["nats_second"]), float(last["nats_first"])
        empty = nats < EMPTY * most
        yield comparison(M5, "C against Z", "nats", nats, most, empty, data=data)
        own, other = float(last["mig_first"]), float(full["mig_first"])
        of = "Z of M5 against C of M4"
        yield comparison(M5, of, "MIG", own, other, own < other, data=data)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Each version by what it may lack."""
    words = {"mig_first": "MIG of C", "m3": "share of C kept", "l2_x": "L2 of X"}
    bars(table, "version", words, path)


FIGURES_37_40 = Recipe(
    name="ms-vae/figures-37-40",
    title="MS-VAE and four versions of it that lack something",
    where="Figures 37 to 40",
    claim="Two stages, Y in place of C, adaptive normalisation, and C before Z are all needed.",
    published=published,
    studies=ABLATIONS,
    extend=extend,
    obtain=obtain,
    verdict=partial(sentences, meant="Cars3D", known=("cars3d",)),
    plot=plot,
)
