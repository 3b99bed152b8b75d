"""Figures 3, 9 and 10: active and passive latents of the members of an ensemble."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.measurements import Trained, computed_once
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, scored

__all__ = ["STATISTICS", "extend", "latents_of_members", "plot", "prepare"]

POLARISED_FILE = "polarised.parquet"
"""Noise, signal and log Δ of every latent of every member."""
NOISE, SIGNAL = "σ² alone", "σ² and var(μ)"
"""Two ways to count active latents: log Δ < 0, and that with a mean that varies."""


def extend(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """A row per latent of every member of ensembles of two and three, and of β-VAEs with β = 4.

    `log_delta`; `noise`: the mean of σ²; `signal`: the variance of μ; `used`: whether that exceeds
    0.01; `looks_active`: whether log Δ < 0.
    """
    rows = scored(table)
    wanted = (rows["kind"] == ORIGINAL) & rows["members"].isin([2, 3])
    if "beta" in rows:
        wanted |= (rows["method"] == "beta_vae") & (rows["beta"] == 4)
    trained, chosen = Trained(folder), rows[wanted]

    def of_run(run: str) -> pd.DataFrame:
        return latents_of_members(trained.latents(trained.model(run).members))

    kept = computed_once(
        folder / POLARISED_FILE, chosen["run"].tolist(), of_run, "looking at latents"
    )
    settings = ["run", "data", "method", "members", "gamma", "seed"]
    both = kept.merge(chosen[settings], on="run")
    return both.assign(looks_active=both["log_delta"] < 0)


def latents_of_members(latents: Any) -> pd.DataFrame:
    """What each latent of each member does, a row each.

    Args:
        latents: Codes of the members, `unweave.select.Latents` with log-variances.
    """
    from unweave.analysis.activity import VARIANCE
    from unweave.metrics.polarised_regime import log_noise_share

    return pd.concat(
        [
            pd.DataFrame(
                {
                    "member": member,
                    "latent": range(means.shape[1]),
                    "num_latents": means.shape[1],
                    "log_delta": log_noise_share(means, logvars),
                    "noise": np.exp(logvars).mean(0),
                    "signal": means.var(0),
                    "used": VARIANCE.holds(means.var(0)),
                }
            )
            for member, (means, logvars) in enumerate(
                zip(latents.means, latents.logvars, strict=True)
            )
        ],
        ignore_index=True,
    )


def prepare(table: pd.DataFrame) -> pd.DataFrame:
    """Latents with both ways to count active ones, and the noise that unused ones should have."""
    return table.assign(
        **{NOISE: table["looks_active"], SIGNAL: table["looks_active"] & table["used"]},
        expected_noise=1 / (1 + 2 * table["gamma"] * (table["members"] - 1)),
    )


def _difference_of_members(rows: pd.DataFrame, column: str) -> float:
    """The mean difference of ordered values between members of one ensemble."""
    pairs = [
        pair
        for _, run in _profiles(rows, column).groupby(level=0)
        for pair in combinations(run.tolist(), 2)
    ]
    return float(np.mean([np.abs(one - other).mean() for one, other in pairs]))


def _difference_of_seeds(rows: pd.DataFrame, column: str) -> float:
    """The same between first members of ensembles that differ by the seed."""
    firsts = _profiles(rows, column).groupby(level=0).first().tolist()
    pairs = list(combinations(firsts, 2))
    apart = [np.abs(one - other).mean() for one, other in pairs]
    return float(np.mean(apart)) if apart else float("nan")


def _profiles(rows: pd.DataFrame, column: str) -> pd.Series:
    """The ordered values of each member of each run."""
    groups = rows.groupby(["run", "member"])[column]
    return pd.Series({member: np.sort(values) for member, values in groups})


def _per_member(rows: pd.DataFrame, column: str) -> "pd.Series[float]":
    return rows.groupby(["run", "member"])[column].sum()


def _widest_gap(rows: pd.DataFrame, column: str) -> float:
    """Between neighbours among the ordered values of a member, mean over members."""
    return float(_profiles(rows, column).map(lambda values: np.diff(values).max()).mean())


STATISTICS = {
    "difference_of_members": _difference_of_members,
    "difference_of_seeds": _difference_of_seeds,
    "active_per_member": lambda rows, column: float(_per_member(rows, column).mean()),
    "most_active_of_a_member": lambda rows, column: float(_per_member(rows, column).max()),
    "widest_gap": _widest_gap,
}


def plot(table: pd.DataFrame, path: Path) -> None:
    """Ordered log Δ of every member, and signal beside noise: a column per size and latents."""
    from unweave.plots.colours import GREY, MARKERS, PALETTE
    from unweave.plots.plot import PAGE, SMALL, TEXT, panels, plain

    ensembles = table["method"] == ENSEMBLE
    columns = list(table[ensembles].groupby(["num_latents", "members"]))
    figure, axes = panels(2, len(columns), (max(PAGE, 2.3 * len(columns)), 4.6))
    for place, ((d, members), part) in enumerate(columns):
        above, below = plain(axes[0, place]), plain(axes[1, place])
        others = table[~ensembles & (table["num_latents"] == d)]
        for colour, (gamma, rows) in zip(PALETTE, part.groupby("gamma"), strict=False):
            for marker, (member, latents) in zip(MARKERS, rows.groupby("member"), strict=False):
                name = f"γ = {gamma:g}" if member == 0 else None
                style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 3, "lw": 0.8}
                above.plot(_ordered(latents), label=name, **style)
            below.scatter(rows["noise"], rows["signal"], s=6, color=colour, alpha=0.6)
            expected = 1 / (1 + 2 * float(gamma) * (members - 1))
            below.axvline(expected, color=colour, linewidth=0.6, linestyle=":")
        if len(others):
            above.plot(_ordered(others), color=GREY, label="β-VAE, β = 4", lw=1)
            below.scatter(others["noise"], others["signal"], s=6, color=GREY)
        above.axhline(0, color=GREY, linewidth=0.6, linestyle=":")
        above.set_title(f"{members:g} members, {d} latents", fontsize=TEXT)
        above.set_xlabel("latents in order", fontsize=SMALL)
        above.set_xticks([0, d - 1], ["1", str(d)])
        below.set(xscale="log")
        below.set_xlabel("mean of σ²; dotted: unused latents", fontsize=SMALL)
    axes[0, 0].set_ylabel("log Δ", fontsize=TEXT)
    axes[1, 0].set_ylabel("var(μ)", fontsize=TEXT)
    axes[0, 0].legend(frameon=False, fontsize=SMALL)
    figure.save(path)


def _ordered(latents: pd.DataFrame) -> np.ndarray:
    """The mean over runs of log Δ in order."""
    return np.mean([np.sort(one["log_delta"]) for _, one in latents.groupby("run")], axis=0)
