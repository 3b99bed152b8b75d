"""Figures 15 and 16: a hierarchy of three stages learns a pendulum."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.recipe import Recipe

__all__ = ["FIGURES_15_16", "make", "obtain", "verdict"]

TRAVERSAL = {0.1: -1.5, 1.5: 0.52, 2.0: 1.44}
"""Mass and the value of z that corresponds to it; which of its two ends is up is arbitrary."""
NOTEBOOK = {"loss": -44.47, "negative log-likelihood": -46.4, "KL divergence": 1.72}
"""Nats per curve with the masses of training, printed in the authors' notebook, not the paper."""
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
CLOSE, RANKED, FALLS, NEAR, MET = 0.95, 0.97, 3.0, 1.5, 0.9
"""From which correlation, rank correlation and fall of the error, up to which distance from the
floor and from which share of variance on the claims count as borne out."""


def published() -> pd.DataFrame:
    """What z is for three masses, and what the notebook prints."""
    rows = {f"z at mass {mass}": z for mass, z in TRAVERSAL.items()} | NOTEBOOK
    return pd.DataFrame(rows.items(), columns=["quantity", "published"])


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
    masses = list(TRAVERSAL)
    z = pendulum_scores.z_of_mass(chain, masses)
    upwards = 1 if z[-1] >= z[0] else -1
    scores: dict[str, Any] = {
        f"z at mass {mass}": upwards * one for mass, one in zip(masses, z, strict=True)
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
    return frame.merge(published(), how="left").reindex(
        columns=["quantity", "published", "obtained"]
    )


def verdict(frame: pd.DataFrame) -> list[str]:
    """Whether z follows the mass, and whether the stages follow the simulator."""
    of = frame.set_index("quantity")["obtained"]
    found = {name: of[words] for name, words in SCORES.items()}
    follows = found["pearson"] >= CLOSE and found["spearman"] >= RANKED
    falls = found["rmse_before"] / found["rmse_after"]
    above = found["nll"] - found["floor"]
    least = min(found[name] for name in ("length", "damping"))
    met = f"{found['length']:.1%} and {found['damping']:.1%}"
    return [
        f"The correlation of z and mass is {found['pearson']:.3f}, that of their ranks "
        f"{found['spearman']:.3f}: z is {'' if follows else 'not '}heavily correlated with the "
        f"mass, {'as' if follows else 'other than'} published.",
        f"With z the error of curves is {falls:.1f} times smaller "
        f"({'at least' if falls >= FALLS else 'less than'} {FALLS:.0f}), and their negative "
        f"log-likelihood is {above:.2f} nats above its floor "
        f"({'near' if above <= NEAR else 'not near'}).",
        f"Where L or b changes and z stays, {met} of what the simulator does is met: the stages "
        f"{'follow' if least >= MET else 'do not follow'} it.",
    ]


def plot(table: pd.DataFrame, path: Path) -> None:
    """Three traversals, and z against the mass."""
    from unweave.papers.ms_vae.experiments.pendulum_figures import draw_chain

    kinds = dict(list(table.groupby("kind")))
    draw_chain(kinds["curve"], kinds["code"]).save(path)


FIGURES_15_16 = Recipe(
    name="ms-vae/figures-15-16",
    title="Traversals of length, damping and z, and z against mass, of a pendulum",
    where="Figures 15 and 16",
    claim="The last latent, never told the mass, is heavily correlated with it.",
    published=published,
    settings={
        "smoke": {"epochs": [80, 80, 40], "seed": 0, "device": "cpu"},
        "hour": {"epochs": [400, 400, 200], "seed": 0, "device": "cpu"},
        "paper": {"epochs": [400, 400, 200], "seed": 0, "device": "cpu"},
    },
    make=make,
    obtain=obtain,
    verdict=verdict,
    plot=plot,
)
