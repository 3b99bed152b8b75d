"""The first result: total correlation of mean against sampled codes, by strength."""

import pandas as pd

from unweave.analysis.columns import (
    ACTIVE_TOTAL_CORRELATION,
    DATA,
    METHOD,
    SAMPLED,
    STRENGTH,
    TOTAL_CORRELATION,
    require,
)
from unweave.analysis.correlation import rank_correlations
from unweave.analysis.distributions import summarise

__all__ = ["total_correlation", "total_correlation_trend"]

KINDS = {
    TOTAL_CORRELATION: ("mean", "all"),
    ACTIVE_TOTAL_CORRELATION: ("mean", "active"),
    SAMPLED + TOTAL_CORRELATION: ("sampled", "all"),
    SAMPLED + ACTIVE_TOTAL_CORRELATION: ("sampled", "active"),
}
"""Which codes and latents each column is about."""

PUBLISHED = {"mean": "rises", "sampled": "falls"}
NOT_PUBLISHED = ("annealed_vae",)
"""Its strength is a capacity: more of it regularises less, and the figure leaves it out."""

PASSIVE = (
    "Gaussian total correlation does not see scale: a passive latent whose tiny mean copies an "
    "active one counts in full for mean codes, yet for nothing once its noise is sampled, so "
    "read mean codes over active latents."
)


def total_correlation(table: pd.DataFrame) -> pd.DataFrame:
    """Total correlation of mean and of sampled codes, by data set, method and strength.

        TC = ½ (Σ_j log Σ_jj - log det Σ)    with the covariance Σ of the codes

    Args:
        table: A study table with `gaussian_total_correlation` and
            `sampled.gaussian_total_correlation`; where it also has these numbers over active
            latents (`….active_total_correlation`), they are shown beside.

    Returns:
        One row per data set, method, strength, `codes` (mean or sampled) and `latents` (all or
        active): `mean`, `std`, `min`, `low` (quartile), `median`, `high` (quartile), `max`,
        `models`, `left_out`. `.attrs["note"]` says what passive latents do to it.

    Notes:
        The published figure shows all latents only. Of sampled codes all latents vary, so that
        those that are active have to be chosen by the mean codes. Infinite values (codes that are
        linear functions of others) are left out.

    References:
        Locatello et al., Challenging Common Assumptions, arXiv:1811.12359.
    """
    columns = _columns(table)
    found = _named(summarise(table, columns, (DATA, METHOD, STRENGTH)), "metric")
    found.attrs["note"] = _note(table, columns)
    return found


def total_correlation_trend(table: pd.DataFrame) -> pd.DataFrame:
    """Whether total correlation rises or falls with strength, by data set and method.

    Args:
        table: As for `total_correlation`.

    Returns:
        One row per data set, method, `codes` and `latents`: `spearman` of the total correlation
        with the strength over models, `direction` (rises, falls or flat), `published` (what the
        study says of all latents; empty where it says nothing), `agrees` (missing where there is
        nothing to compare), `models`, `left_out`.

    Notes:
        The study finds minor exceptions. DIP-VAE-I penalises the covariance of the means itself,
        so that its mean codes need not follow.

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
    said = found["codes"].map(PUBLISHED)
    found.insert(6, "published", said.mask(found[METHOD].isin(NOT_PUBLISHED), ""))
    agrees = (found["direction"] == found["published"]).astype("boolean")
    silent = (found["published"] == "") | (found["direction"] == "")
    found.insert(7, "agrees", agrees.mask(silent))
    found.attrs["note"] = _note(table, columns)
    return found


def _columns(table: pd.DataFrame) -> list[str]:
    require(table, (DATA, METHOD, STRENGTH))
    needed = [TOTAL_CORRELATION, SAMPLED + TOTAL_CORRELATION]
    require(table, needed, "score both mean and sampled codes with gaussian_total_correlation")
    return [name for name in KINDS if name in table.columns]


def _named(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Replace a column's names by which codes and latents they are about."""
    position = frame.columns.get_loc(column)
    kinds = frame[column].map(KINDS)
    frame = frame.drop(columns=column)
    frame.insert(position, "codes", kinds.str[0])
    frame.insert(position + 1, "latents", kinds.str[1])
    return frame


def _note(table: pd.DataFrame, columns: list[str]) -> str:
    if ACTIVE_TOTAL_CORRELATION not in columns:
        return f"{PASSIVE} This table lacks them ({ACTIVE_TOTAL_CORRELATION})."
    every, active = (
        table[name].median() for name in (TOTAL_CORRELATION, ACTIVE_TOTAL_CORRELATION)
    )
    return f"{PASSIVE} Here its median is {every:.3g} over all and {active:.3g} over active."
