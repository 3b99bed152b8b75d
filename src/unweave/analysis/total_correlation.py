"""Key result 1 of the large study: total correlation of mean and sampled codes, by strength."""

import pandas as pd

from unweave.analysis.correlation import rank_correlations
from unweave.analysis.distributions import summarise
from unweave.analysis.study_table import (
    ACTIVE_TOTAL_CORRELATION,
    DATA,
    METHOD,
    SAMPLED,
    STRENGTH,
    TOTAL_CORRELATION,
    require,
    with_note,
)

__all__ = ["total_correlation", "total_correlation_trend"]

KINDS = {
    TOTAL_CORRELATION: ("mean", "all"),
    ACTIVE_TOTAL_CORRELATION: ("mean", "active"),
    SAMPLED + TOTAL_CORRELATION: ("sampled", "all"),
    SAMPLED + ACTIVE_TOTAL_CORRELATION: ("sampled", "active"),
}
"""Codes and latents of each column."""

PUBLISHED = {"mean": "rises", "sampled": "falls"}
NOT_PUBLISHED = ("annealed_vae",)
"""Methods whose strength is a capacity: larger values regularise less. Not in the figure."""

PASSIVE = (
    "Gaussian total correlation is invariant to scale: a passive latent whose tiny mean copies an "
    "active one counts in full for mean codes, but not for sampled codes. For mean codes, use the "
    "score over active latents."
)


def total_correlation(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise total correlation of mean and sampled codes by data set, method and strength.

        TC = ½ (Σ_j log Σ_jj - log det Σ)    with the covariance Σ of the codes

    Args:
        table: A study table with `gaussian_total_correlation` and
            `sampled.gaussian_total_correlation`; scores over active latents
            (`….active_total_correlation`) are included if present.

    Returns:
        One row per data set, method, strength, `codes` (mean or sampled) and `latents` (all or
        active): `mean`, `std`, `min`, `low` (quartile), `median`, `high` (quartile), `max`,
        `models`, `left_out`. `.attrs["note"]` explains the effect of passive latents.

    Notes:
        The published figure shows all latents only. All latents of sampled codes vary, so active
        ones have to be determined from mean codes. Infinite values (codes that are linear
        functions of others) are left out.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    columns = _columns(table)
    found = _named(summarise(table, columns, (DATA, METHOD, STRENGTH)), "metric")
    return with_note(found, _note(table, columns))


def total_correlation_trend(table: pd.DataFrame) -> pd.DataFrame:
    """Test whether total correlation rises or falls with strength, by data set and method.

    Args:
        table: As for `total_correlation`.

    Returns:
        One row per data set, method, `codes` and `latents`: `spearman` of total correlation and
        strength over models, `direction` (rises, falls or flat), `published` (direction in the
        study for all latents; empty if not reported), `agrees` (missing if there is nothing to
        compare), `models`, `left_out`.

    Notes:
        The study reports minor exceptions. DIP-VAE-I penalises the covariance of the means itself,
        so its mean codes need not follow.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    columns = _columns(table)
    names = (STRENGTH, "metric")
    found = rank_correlations(table, [STRENGTH], columns, names, by=(DATA, METHOD))
    found = _named(found.drop(columns=STRENGTH), "metric")
    rises = found["spearman"] > 0
    found.insert(5, "direction", rises.map({True: "rises", False: "falls"}))
    found.loc[found["spearman"] == 0, "direction"] = "flat"
    found.loc[found["spearman"].isna(), "direction"] = ""
    published = found["codes"].map(PUBLISHED)
    found.insert(6, "published", published.mask(found[METHOD].isin(NOT_PUBLISHED), ""))
    agrees = (found["direction"] == found["published"]).astype("boolean")
    unknown = (found["published"] == "") | (found["direction"] == "")
    found.insert(7, "agrees", agrees.mask(unknown))
    return with_note(found, _note(table, columns))


def _columns(table: pd.DataFrame) -> list[str]:
    require(table, (DATA, METHOD, STRENGTH))
    needed = [TOTAL_CORRELATION, SAMPLED + TOTAL_CORRELATION]
    require(table, needed, "score both mean and sampled codes with gaussian_total_correlation")
    return [name for name in KINDS if name in table.columns]


def _named(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Replace column names by the codes and latents that they describe."""
    position = frame.columns.get_loc(column)
    kinds = frame[column].map(KINDS)
    frame = frame.drop(columns=column)
    frame.insert(position, "codes", kinds.str[0])
    frame.insert(position + 1, "latents", kinds.str[1])
    return frame


def _note(table: pd.DataFrame, columns: list[str]) -> str:
    if ACTIVE_TOTAL_CORRELATION not in columns:
        return f"{PASSIVE} This table lacks it ({ACTIVE_TOTAL_CORRELATION})."
    every, active = (
        table[name].median() for name in (TOTAL_CORRELATION, ACTIVE_TOTAL_CORRELATION)
    )
    return f"{PASSIVE} Its median is {every:.3g} over all and {active:.3g} over active latents."
