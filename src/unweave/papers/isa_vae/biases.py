"""Appendix B: what variational inference prefers in factor analysis, where it can be solved."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.comparisons import FAILS, HOLDS
from unweave.papers.frames import claims
from unweave.papers.recipe import Recipe
from unweave.papers.verdicts import how_many

__all__ = [
    "APPENDIX_B",
    "APPENDIX_B4_B5",
    "checked",
    "claims_verdict",
    "effects_of_beta",
    "obtained_free_energy",
    "without_the_spare",
]

FREE_ENERGY = {
    ("0", "log-likelihood"): -17.82,
    ("0", "free energy"): -17.82,
    ("π/4", "log-likelihood"): -17.82,
    ("π/4", "free energy"): -57.16,
}
"""Of factor analysis whose weights are rotated, in nats."""
SAME_LIKELIHOOD = "the log-likelihood is the same for every a"
NO_SPARE = "the free energy is largest at a = 0, without a third component"
SAME_DIRECTIONS = "β does not change the directions of largest free energy"
SMALLER_WAVES = "β makes the free energy vary less over rotations"
WIDER = "β makes the posterior more uncertain"
SAME_FITS = "β-VI returns the same fits as VI for every β"


def published_free_energy() -> pd.DataFrame:
    """Log-likelihood and free energy at two rotations of the weights."""
    return pd.DataFrame(
        [
            {"rotation": rotation, "quantity": quantity, "published": nats}
            for (rotation, quantity), nats in FREE_ENERGY.items()
        ]
    )


def obtained_free_energy(_: pd.DataFrame | None = None) -> pd.DataFrame:
    """The same, computed."""
    from unweave.papers.isa_vae.theory import vi_bias

    table = vi_bias.rotation(angles=[0, math.pi / 4])
    found = table[["log_likelihood", "free_energy"]].to_numpy()
    return published_free_energy().assign(obtained=found.ravel())


def free_energy_verdict(frame: pd.DataFrame) -> list[str]:
    """How far nats are apart, and what that is worth."""
    apart = (frame["published"] - frame["obtained"]).abs().max()
    return [
        f"Published and obtained nats differ by at most {apart:.2g}.",
        "Weights and noise are not published and were fitted to these numbers: they check the "
        "formulas, not the paper.",
    ]


def without_the_spare(betas: Sequence[float] = (1.0,)) -> pd.DataFrame:
    """What Appendix B.4 says of three components for two dimensions, checked."""
    from unweave.papers.isa_vae.theory import vi_bias

    table = vi_bias.over_complete(betas)
    spread = table["log_likelihood"].max() - table["log_likelihood"].min()
    best = table.loc[table.groupby("beta")["free_energy"].idxmax(), "a"]
    norms = vi_bias.learned_spare(betas[0]).norms
    rows = [
        (SAME_LIKELIHOOD, spread < 1e-6, f"it varies by {spread:.1g} nats"),
        (
            NO_SPARE,
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
            SAME_DIRECTIONS,
            (table[["angle", "best_a"]] == 0).to_numpy().all(),
            f"θ = {_listed(table['angle'], 'g')} and a = {_listed(table['best_a'], 'g')} {words}",
        ),
        (
            SMALLER_WAVES,
            table["amplitude"].is_monotonic_decreasing,
            f"{_listed(table['amplitude'], '.2f')} nats {words}; times β, as a β-VAE has it: "
            f"{_listed(table['beta_amplitude'], '.1f')}",
        ),
        (
            WIDER,
            table["sd_0"].is_monotonic_increasing and table["sd_1"].is_monotonic_increasing,
            f"standard deviations {_listed(table['sd_0'], '.2f')} and "
            f"{_listed(table['sd_1'], '.2f')} {words}",
        ),
        (
            SAME_FITS,
            table["norm_0"].nunique() == table["norm_1"].nunique() == 1,
            f"free weights are {_listed(table['norm_0'], '.2f')} and "
            f"{_listed(table['norm_1'], '.2f')} long {words}",
        ),
    ]
    return checked(rows)


def obtained_factor_analysis(_: pd.DataFrame) -> pd.DataFrame:
    """Both of them."""
    return pd.concat([without_the_spare(), effects_of_beta()], ignore_index=True)


def claims_verdict(frame: pd.DataFrame) -> list[str]:
    """How many claims hold, and what is measured where one does not."""
    holds = frame["obtained"] == HOLDS
    return [
        f"{how_many(holds, 'claim').capitalize()} hold.",
        *(f"This does not: {row.claim}; {row.measured}." for row in frame[~holds].itertuples()),
    ]


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


APPENDIX_B = Recipe(
    name="isa-vae/appendix-b",
    title="Free energy of rotated factor analysis",
    where="Appendix B.3, drawings without number",
    claim="The likelihood does not see a rotation of the weights; the free energy does, and "
    "prefers orthogonal weights.",
    published=published_free_energy,
    obtain=obtained_free_energy,
    verdict=free_energy_verdict,
    plot=plot_rotation,
)
APPENDIX_B4_B5 = Recipe(
    name="isa-vae/appendix-b4-b5",
    title="A spare component in factor analysis, and what β changes",
    where="Appendices B.4 and B.5, drawings without number",
    claim="Variational inference prunes a component that is not needed, and β changes neither "
    "this nor the directions that are found.",
    published=lambda: claims(
        SAME_LIKELIHOOD, NO_SPARE, SAME_DIRECTIONS, SMALLER_WAVES, WIDER, SAME_FITS
    ),
    obtain=obtained_factor_analysis,
    verdict=claims_verdict,
    plot=plot_effect_of_beta,
)
