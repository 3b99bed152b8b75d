"""Figures 3, 9 and 10: active and passive latents of the members of an ensemble."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.papers.comparisons import compared, comparison, sentences
from unweave.papers.frames import claims
from unweave.papers.measurements import Trained, computed_once
from unweave.papers.recipe import Recipe, RecipeError
from unweave.papers.vae_ensemble import studies
from unweave.papers.vae_ensemble.models import ENSEMBLE, ORIGINAL, scored

__all__ = ["FIGURES_9_10", "FIGURE_3"]

POLARISED_FILE = "polarised.parquet"
"""Noise, signal and log Δ of every latent of every member."""
NOISE, SIGNAL = "σ² alone", "σ² and var(μ)"
"""Two ways to count active latents: log Δ < 0, and that with a mean that varies."""
CLOSE = 0.2
"""How far the noise of unused latents may be from what is expected, as a share of that."""
ALIKE = "members of one ensemble share the profile of log Δ over their latents"
MORE_THAN_BETA = "an ensemble of two has more active latents than β-VAE with β = 4"
MORE_IN_THREE = "an ensemble of three has more active latents than one of two"
EIGHT = "an ensemble of two has up to eight active latents on the five factors of dSprites"
SEPARATES = "higher γ separates passive from active latents"
LOOKS = "no latent looks active that is not in use"
SETTLES = "unused latents settle at σ² = 1 / (1 + 2γ(n - 1))"
published_3 = partial(claims, ALIKE, MORE_THAN_BETA, MORE_IN_THREE, EIGHT)
published_9_10 = partial(claims, ALIKE, SEPARATES, MORE_IN_THREE)


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


def obtain_3(table: pd.DataFrame) -> pd.DataFrame:
    """Profiles within and between ensembles, and active latents by both counts.

    Controls count latents only that are in use: that is what the noise alone does not tell, since
    unused latents of an ensemble have less of it than the prior.
    """
    _require(table)
    return compared(published_3(), [*_alike(table), *_counts(table), *_unused(table)])


def obtain_9_10(table: pd.DataFrame) -> pd.DataFrame:
    """The same on faces, by number of latents, and what γ does.

    Latents are the more separated, the larger the widest gap is between neighbours when a member's
    log Δ are put in order.
    """
    _require(table)
    ensembles = table[table["method"] == ENSEMBLE]
    rows = [*_alike(table), *_separated(ensembles), *_counts(table), *_unused(table)]
    return compared(published_9_10(), rows).assign(data=table["data"].iloc[0])


def _require(table: pd.DataFrame) -> None:
    if "log_delta" not in table:
        raise RecipeError("the table has no column 'log_delta'; `extend` adds it")


def _alike(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Mean differences of ordered log Δ: between members, and between first members of seeds."""
    ensembles = table[table["method"] == ENSEMBLE]
    for (d, members, gamma), part in ensembles.groupby(["num_latents", "members", "gamma"]):
        profiles = {
            key: np.sort(latents["log_delta"]) for key, latents in part.groupby(["run", "member"])
        }
        runs = list(part["run"].unique())
        within = [
            _apart(profiles[run, one], profiles[run, other])
            for run in runs
            for one, other in combinations(range(int(members)), 2)
        ]
        between = [
            _apart(profiles[one, 0], profiles[other, 0]) for one, other in combinations(runs, 2)
        ]
        measured, against = np.mean(within), np.mean(between) if between else np.nan
        of = f"d = {d}, n = {members:g}, γ = {gamma:g}"
        by = "differences of log Δ, against other seeds"
        yield comparison(ALIKE, of, by, float(measured), float(against), measured < against)


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).mean())


def _active(table: pd.DataFrame) -> pd.DataFrame:
    """How many latents of each member are active, by both counts."""
    counted = table.assign(
        **{NOISE: table["looks_active"], SIGNAL: table["looks_active"] & table["used"]}
    )
    keys = ["num_latents", "method", "members", "gamma", "run", "member"]
    return counted.groupby(keys, dropna=False)[[NOISE, SIGNAL]].sum().reset_index()


def _counts(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    active = _active(table)
    for d, part in active.groupby("num_latents"):
        ensembles, others = part[part["method"] == ENSEMBLE], part[part["method"] != ENSEMBLE]
        two, three = (ensembles[ensembles["members"] == n] for n in (2, 3))
        for by, control in ((NOISE, False), (SIGNAL, True)):
            few, many = two[by].mean(), three[by].mean()
            of = f"d = {d}, n = 3 against 2"
            yield comparison(MORE_IN_THREE, of, by, many, few, many > few, control=control)
            if len(others):
                beta, most = others[by].mean(), two[by].max()
                of = f"d = {d}, n = 2"
                yield comparison(MORE_THAN_BETA, of, by, few, beta, few > beta, control=control)
                yield comparison(EIGHT, of, by, most, 8, most == 8, control=control)


def _separated(ensembles: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (d, members), part in ensembles.groupby(["num_latents", "members"]):
        gaps = part.groupby(["gamma", "run", "member"])["log_delta"].agg(_widest_gap)
        for (low, before), (high, after) in pairwise(gaps.groupby("gamma").mean().items()):
            of = f"d = {d}, n = {members:g}, γ = {high:g} against {low:g}"
            yield comparison(SEPARATES, of, "widest gap of log Δ", after, before, after > before)


def _widest_gap(values: "pd.Series[float]") -> float:
    return float(np.diff(np.sort(values)).max())


def _unused(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Of each member how many latents look active and how many are; and the noise of the others.

    Both are no claims of the paper but what its objective implies.
    """
    ensembles = table[table["method"] == ENSEMBLE]
    keys = ["num_latents", "members", "gamma"]
    for (d, members, gamma), part in ensembles.groupby(keys):
        of = f"d = {d}, n = {members:g}, γ = {gamma:g}"
        for member, active in _active(part).groupby("member"):
            many, few = active[NOISE].mean(), active[SIGNAL].mean()
            member_of = f"{of}, member {member}"
            yield comparison(LOOKS, member_of, "active", few, many, few == many, control=True)
        noise = part.loc[~part["used"], "noise"].mean()
        expected = 1 / (1 + 2 * gamma * (members - 1))
        close = abs(noise / expected - 1) <= CLOSE
        yield comparison(SETTLES, of, "σ²", noise, expected, close, control=True)


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


FIGURE_3 = Recipe(
    name="vae-ensemble/figure-3",
    title="Polarised regime of ensembles of two and three against β-VAE on dSprites",
    where="Figure 3",
    claim="Members of an ensemble have similar active and passive latents, more of them active "
    "than in β-VAE, and more in larger ensembles.",
    published=published_3,
    studies=studies.STUDIES,
    extend=extend,
    obtain=obtain_3,
    verdict=sentences,
    plot=plot,
)
FIGURES_9_10 = Recipe(
    name="vae-ensemble/figures-9-10",
    title="Polarised regime of ensembles of two and three on CelebA, 10, 16 and 32 latents",
    where="Figures 9 and 10",
    claim="Higher γ separates passive from active latents, above all with enough latents.",
    published=published_9_10,
    studies=studies.COLOUR,
    extend=extend,
    obtain=obtain_9_10,
    verdict=partial(sentences, meant="celeba"),
    plot=plot,
)
