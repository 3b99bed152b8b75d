"""Figures 7 to 12: how many dimensions C and Z should have."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.papers.comparisons import compared, comparison
from unweave.papers.frames import claims
from unweave.papers.ms_vae.plots import lines
from unweave.papers.ms_vae.stages import MS_VAE, measured, verdict
from unweave.papers.ms_vae.studies import SIZES, C, Z
from unweave.papers.recipe import Recipe

__all__ = ["FIGURES_9_12", "FIGURE_7", "FIGURE_8"]

GOOD_CARS = "10 dimensions have a good combination of MIG and ELBO on Cars3D"
GOOD_NORB = "MIG varies much on SmallNORB, where 10 dimensions do reasonably well"
seven = partial(claims, GOOD_CARS, GOOD_NORB)
SMALL_CARS = "5 dimensions have a good combination of all three on Cars3D"
SMALL_NORB = "10 dimensions have a good combination of all three on SmallNORB"
eight = partial(claims, SMALL_CARS, SMALL_NORB)
BLURRY = "C of 2 dimensions: Y is blurry and factors are entangled"
ADDS = "C of 2 dimensions: Z adds details such as colour"
SHARPER = "C of 10 dimensions: Y is sharper and more disentangled, and Z refines it"
nine = partial(claims, BLURRY, ADDS, SHARPER)
ELBO = "elbo"
BEST_HALF = 0.5
"""A size does well that is in the better half by the mean of its ranks."""


def extend_7(table: pd.DataFrame, folder: Path) -> pd.DataFrame:  # noqa: ARG001 - as others have it
    """First stages alone, with `size`, that of C."""
    rows = table[(table["state"] == "scored") & (table["method"] != MS_VAE)]
    return rows.assign(size=rows["latents"])


def obtain_7(table: pd.DataFrame) -> pd.DataFrame:
    """The rank of ten latents among all sizes, by MIG and by the bound."""
    return compared(seven(), _ranked(table, ["mig", ELBO], {ELBO: 1}, C, GOOD_CARS, GOOD_NORB))


def extend_8(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Second stages over ten latents, with `size`, that of Z."""
    rows = measured(table, folder)
    ten = table.set_index("run")["latents"] == C
    return rows[rows["first"].map(ten).eq(True)].assign(size=lambda found: found["latents"])


def obtain_8(table: pd.DataFrame) -> pd.DataFrame:
    """The rank of five latents among all sizes, by FID and by how much of C is kept."""
    names = [name for name in ("fid", "m2", "m3") if name in table]
    return compared(eight(), _ranked(table, names, {"fid": -1}, Z, SMALL_CARS, SMALL_NORB, 10))


def _ranked(
    table: pd.DataFrame,
    names: list[str],
    signs: dict[str, int],
    wanted: int,
    on_cars: str,
    on_norb: str,
    wanted_on_norb: int | None = None,
) -> Iterator[dict[str, Any]]:
    """How one size does, as its mean rank from 0, the worst, to 1, the best of all."""
    usual = wanted
    for data, part in table.groupby("data", sort=False):
        wanted = (wanted_on_norb or usual) if data == "smallnorb" else usual
        known = [name for name in names if name in part]
        means = part.groupby("size")[known].mean()
        good = means * pd.Series({name: signs.get(name, 1) for name in known})
        if len(means) < 2 or wanted not in means.index:
            continue
        ranks = ((good.rank() - 1) / (len(good) - 1)).mean(axis=1)
        claim = on_norb if data == "smallnorb" else on_cars
        yield comparison(
            claim,
            f"{wanted} of {', '.join(map(str, means.index))}",
            f"mean rank by {', '.join(known)}",
            float(ranks[wanted]),
            BEST_HALF,
            ranks[wanted] >= BEST_HALF,
            data=data,
        )


def extend_9_12(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Second stages with the usual Z, with `size`, that of C."""
    rows = measured(table, folder)
    size = table.set_index("run")["latents"]
    return rows[rows["latents"] == Z].assign(size=lambda found: found["first"].map(size))


def obtain_9_12(table: pd.DataFrame) -> pd.DataFrame:
    """The smallest C against ten: errors of Y, MIG, and how much the second stage adds."""
    rows = []
    for data, part in table.groupby("data", sort=False):
        means = part.groupby("size")[["l2_y", "l2_x", "c_mig"]].mean()
        if len(means) < 2 or C not in means.index:
            continue
        small, ten = means.iloc[0], means.loc[C]
        of = f"C of {means.index[0]:g} against {C}"
        gain, usual = (float(1 - one["l2_x"] / one["l2_y"]) for one in (small, ten))
        l2, mig = (float(small["l2_y"]), float(ten["l2_y"])), (small["c_mig"], ten["c_mig"])
        found = [
            comparison(BLURRY, of, "L2 of Y", *l2, l2[0] > l2[1]),
            comparison(ADDS, of, "share of the error that Z takes away", gain, usual, gain > 0),
            comparison(SHARPER, of, "MIG of C", float(mig[1]), float(mig[0]), mig[1] > mig[0]),
        ]
        rows += [row | {"data": data} for row in found]
    return compared(nine(), rows)


def plot_7(table: pd.DataFrame, path: Path) -> None:
    """MIG and the bound over the size of C."""
    lines(table, "size", [{"mig": "MIG"}, {ELBO: "ELBO"}], path, "latents of C")


def plot_8(table: pd.DataFrame, path: Path) -> None:
    """What of C is kept, and FID where it is known, over the size of Z."""
    kept = {"m2": "M2", "m3": "M3 (random Z)"}
    others = [{"fid": "FID"}] if "fid" in table else []
    lines(table, "size", [kept, *others], path, "latents of Z")


def plot_9_12(table: pd.DataFrame, path: Path) -> None:
    """Errors of both stages, and MIG, over the size of C."""
    errors = {"l2_y": "L2 of Y", "l2_x": "L2 of X"}
    lines(table, "size", [errors, {"c_mig": "MIG of C"}], path, "latents of C")


FIGURE_7 = Recipe(
    name="ms-vae/figure-7",
    title="MIG and ELBO by the size of C (1 to 10, 20, 50) at β = 4",
    where="Figure 7",
    claim="Ten dimensions of C are a good choice.",
    published=seven,
    studies=SIZES,
    adds=(ELBO,),
    extend=extend_7,
    obtain=obtain_7,
    verdict=verdict,
    plot=plot_7,
)
FIGURE_8 = Recipe(
    name="ms-vae/figure-8",
    title="MIG, FID and mutual information by the size of Z (5, 10, 50, 90) at β = 4",
    where="Figure 8",
    claim="Small Z do best.",
    published=eight,
    studies=SIZES,
    adds=("fid",),
    extend=extend_8,
    obtain=obtain_8,
    verdict=verdict,
    plot=plot_8,
)
FIGURES_9_12 = Recipe(
    name="ms-vae/figures-9-12",
    title="What small and large C leave to Z",
    where="Figures 9 to 12",
    claim="With a small C the second code takes over what is missing.",
    published=nine,
    studies=SIZES,
    extend=extend_9_12,
    obtain=obtain_9_12,
    verdict=verdict,
    plot=plot_9_12,
)
