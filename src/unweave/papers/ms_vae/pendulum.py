"""Figures 15 and 16: a hierarchy of three stages learns a pendulum."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.catalog import published_table

__all__ = ["make", "obtain", "plot"]

MASSES = (0.1, 1.5, 2.0)
"""Of which the paper says the z; which of its two ends is up is arbitrary."""
TRAINED = (0.1, 0.5, 1.0, 1.5, 2.0)
SCORES = {
    "loss": "loss",
    "nll": "negative log-likelihood",
    "kl": "KL divergence",
    "floor": "negative log-likelihood of exact curves",
    "pearson": "correlation of z and mass",
    "spearman": "rank correlation of z and mass",
    "rmse_before": "error of curves without z",
    "rmse_after": "error of curves with z",
    "length": "variance met along L at fixed z",
    "damping": "variance met along b at fixed z",
    "z": "variance met along z",
}


def make(epochs: Sequence[int], seed: int, device: str) -> pd.DataFrame:
    """Train a chain, and measure it.

    Args:
        epochs: Of the three stages.
        seed: Of everything.
        device: Where.

    Returns:
        Rows of three `kind`s: `score` (`quantity`, `value`), `code` (`mass`, `z`) and `curve`
        (`factor`, `value`, `time`, `angle`, `simulated`).
    """
    from dataclasses import replace

    from unweave.papers.ms_vae.experiments import pendulum, pendulum_scores

    plans = [
        replace(plan, epochs=count) for plan, count in zip(pendulum.PUBLISHED, epochs, strict=True)
    ]
    chain = pendulum.train(plans, seed, device)
    curves = pendulum_scores.traversals(chain)
    z = pendulum_scores.z_of_mass(chain, list(MASSES))
    upwards = 1 if z[-1] >= z[0] else -1
    scores: dict[str, Any] = {
        f"z at mass {mass}": upwards * one for mass, one in zip(MASSES, z, strict=True)
    }
    found = {**pendulum_scores.evaluate(chain), **pendulum_scores.followed(curves)}
    like_training = pendulum_scores.evaluate(chain, num=2000, masses=TRAINED)
    found |= {name: like_training[name] for name in ("nll", "kl", "loss")}
    scores |= {SCORES[name]: value for name, value in found.items()}
    codes = pendulum_scores.codes(chain)[["mass", "z"]]
    codes["z"] *= upwards
    listed = pd.DataFrame(scores.items(), columns=["quantity", "value"])
    parts = {"score": listed, "code": codes, "curve": curves}
    return pd.concat([part.assign(kind=kind) for kind, part in parts.items()], ignore_index=True)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """Every score, beside what was published of it."""
    scores = table[table["kind"] == "score"][["quantity", "value"]]
    frame = scores.rename(columns={"value": "obtained"})
    return frame.merge(published_table(__package__, "figures-15-16"), how="left").reindex(
        columns=["quantity", "published", "obtained"]
    )


def plot(table: pd.DataFrame, path: Path) -> None:
    """Three traversals, and z against the mass."""
    from unweave.papers.ms_vae.experiments.pendulum_figures import draw_chain

    kinds = dict(list(table.groupby("kind")))
    draw_chain(kinds["curve"], kinds["code"]).save(path)
