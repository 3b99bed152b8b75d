"""Appendix B: what variational inference prefers in factor analysis, where it can be solved."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.catalog import data_file, published_table
from unweave.papers.claims import FAILS, HOLDS

__all__ = [
    "checked",
    "effects_of_beta",
    "obtained_factor_analysis",
    "obtained_free_energy",
    "plot_effect_of_beta",
    "plot_rotation",
    "without_the_spare",
]

_SAID = data_file(__package__, "recipes.yaml")["appendix-b4-b5"]["claims"]


def obtained_free_energy(_: pd.DataFrame | None = None) -> pd.DataFrame:
    """Log-likelihood and free energy at two rotations of the weights, computed."""
    from unweave.papers.isa_vae.theory import vi_bias

    table = vi_bias.rotation(angles=[0, math.pi / 4])
    found = table[["log_likelihood", "free_energy"]].to_numpy()
    return published_table(__package__, "appendix-b").assign(obtained=found.ravel())


def without_the_spare(betas: Sequence[float] = (1.0,)) -> pd.DataFrame:
    """What Appendix B.4 says of three components for two dimensions, checked."""
    from unweave.papers.isa_vae.theory import vi_bias

    table = vi_bias.over_complete(betas)
    spread = table["log_likelihood"].max() - table["log_likelihood"].min()
    best = table.loc[table.groupby("beta")["free_energy"].idxmax(), "a"]
    norms = vi_bias.learned_spare(betas[0]).norms
    rows = [
        (_SAID["same_likelihood"], spread < 1e-6, f"it varies by {spread:.1g} nats"),
        (
            _SAID["no_spare"],
            (best == 0).all(),
            f"a = {best.max():g}; learned from a = ½, its weights are {norms[-1].min():.3f} long "
            f"after {len(norms) - 1} steps",
        ),
    ]
    return checked(rows)


def effects_of_beta(betas: Sequence[float] | None = None) -> pd.DataFrame:
    """What Appendix B.5 says of β in factor analysis, checked; `betas` ascend from 1."""
    from unweave.papers.isa_vae.theory import vi_bias

    table = vi_bias.effect_of_beta(vi_bias.BETAS if betas is None else betas)
    words = f"at β = {_listed(table['beta'], 'g')}"
    rows = [
        (
            _SAID["same_directions"],
            (table[["angle", "best_a"]] == 0).to_numpy().all(),
            f"θ = {_listed(table['angle'], 'g')} and a = {_listed(table['best_a'], 'g')} {words}",
        ),
        (
            _SAID["smaller_waves"],
            table["amplitude"].is_monotonic_decreasing,
            f"{_listed(table['amplitude'], '.2f')} nats {words}; times β, as a β-VAE has it: "
            f"{_listed(table['beta_amplitude'], '.1f')}",
        ),
        (
            _SAID["wider"],
            table["sd_0"].is_monotonic_increasing and table["sd_1"].is_monotonic_increasing,
            f"standard deviations {_listed(table['sd_0'], '.2f')} and "
            f"{_listed(table['sd_1'], '.2f')} {words}",
        ),
        (
            _SAID["same_fits"],
            table["norm_0"].nunique() == table["norm_1"].nunique() == 1,
            f"free weights are {_listed(table['norm_0'], '.2f')} and "
            f"{_listed(table['norm_1'], '.2f')} long {words}",
        ),
    ]
    return checked(rows)


def obtained_factor_analysis(_: pd.DataFrame) -> pd.DataFrame:
    """Both of them."""
    return pd.concat([without_the_spare(), effects_of_beta()], ignore_index=True)


def checked(rows: Sequence[tuple[str, Any, str]]) -> pd.DataFrame:
    """Claims, whether they hold, and what is measured."""
    found = [(claim, HOLDS, HOLDS if holds else FAILS, text) for claim, holds, text in rows]
    return pd.DataFrame(found, columns=["claim", "published", "obtained", "measured"])


def _listed(numbers: "pd.Series[float]", style: str) -> str:
    return ", ".join(f"{number:{style}}" for number in numbers)


def plot_rotation(_: pd.DataFrame, path: Path) -> None:
    """Weights, posteriors and nats."""
    from unweave.papers.isa_vae.theory.vi_bias_figures import draw_rotation

    draw_rotation().save(path)


def plot_effect_of_beta(_: pd.DataFrame, path: Path) -> None:
    """Directions, posteriors and lengths for every β."""
    from unweave.papers.isa_vae.theory.vi_bias_figures import draw_effect_of_beta

    draw_effect_of_beta().save(path)
