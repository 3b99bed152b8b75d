"""Figures 15 and 16: traversals of a pendulum model, and z against the mass."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from unweave.papers.recipe import published_table
from unweave.plots.colours import FAINT, INK, PALETTE, SEQUENTIAL

if TYPE_CHECKING:
    from unweave.plots.figure import Plot

TRAINED_MASSES = (0.1, 0.5, 1.0, 1.5, 2.0)
PUBLISHED_MASSES = (0.1, 1.5, 2.0)
"""Masses whose z is published; the sign of z is arbitrary."""
SCORES = {
    "loss": "loss",
    "nll": "negative log-likelihood",
    "kl": "KL divergence",
    "floor": "negative log-likelihood of exact curves",
    "pearson": "correlation of z and mass",
    "spearman": "rank correlation of z and mass",
    "rmse_before": "error of curves without z",
    "rmse_after": "error of curves with z",
    "length": "variance explained along L at fixed z",
    "damping": "variance explained along b at fixed z",
    "z": "variance explained along z",
}
TITLES = {"length": "length L", "damping": "damping b", "z": "z, of masses m"}
DRAWN = 5
"""Curves drawn per traversal."""
NARROW = {"handlelength": 0.8, "columnspacing": 0.8, "handletextpad": 0.3, "borderpad": 0.0}


def make(epochs: Sequence[int], seed: int, device: str) -> pd.DataFrame:
    """Train a chain, for the given number of epochs of each stage, and evaluate it.

    Returns:
        Rows of three `kind`s: `score` (`quantity`, `value`), `code` (`mass`, `z`) and `curve`
        (`factor`, `value`, `time`, `angle`, `simulated`).
    """
    from dataclasses import replace

    from unweave.papers.ms_vae import pendulum

    plans = [
        replace(plan, epochs=count) for plan, count in zip(pendulum.PUBLISHED, epochs, strict=True)
    ]
    chain = pendulum.train(plans, seed, device)
    curves = pendulum.traversals(chain)
    z = pendulum.z_of_mass(chain, PUBLISHED_MASSES)
    sign = 1 if z[-1] >= z[0] else -1
    scores: dict[str, Any] = {
        f"z at mass {mass}": sign * one for mass, one in zip(PUBLISHED_MASSES, z, strict=True)
    }
    found = {**pendulum.evaluate(chain), **pendulum.explained_variance(curves)}
    like_training = pendulum.evaluate(chain, num=2000, masses=TRAINED_MASSES)
    found |= {name: like_training[name] for name in ("nll", "kl", "loss")}
    scores |= {SCORES[name]: value for name, value in found.items()}
    coded = pendulum.codes(chain)[["mass", "z"]]
    coded["z"] *= sign
    listed = pd.DataFrame(scores.items(), columns=["quantity", "value"])
    parts = {"score": listed, "code": coded, "curve": curves}
    return pd.concat([part.assign(kind=kind) for kind, part in parts.items()], ignore_index=True)


def obtain(table: pd.DataFrame) -> pd.DataFrame:
    """All scores next to the published values."""
    scores = table[table["kind"] == "score"][["quantity", "value"]]
    frame = scores.rename(columns={"value": "obtained"})
    return frame.merge(published_table(__package__, "figures-15-16"), how="left").reindex(
        columns=["quantity", "published", "obtained"]
    )


def plot(table: pd.DataFrame, path: Path) -> None:
    """Draw three traversals, and z against the mass."""
    kinds = dict(list(table.groupby("kind")))
    draw_chain(kinds["curve"], kinds["code"]).save(path)


def draw_chain(curves: pd.DataFrame, codes: pd.DataFrame) -> "Plot":
    """Draw generated and simulated curves, and z against the mass."""
    from unweave.plots.plot import PAGE, SMALL, TEXT, legend_above, panels, plain

    figure, axes = panels(2, 2, (PAGE, 4.2))
    for panel, (factor, title) in zip(axes.flat, TITLES.items(), strict=False):
        _draw_traversal(plain(panel), curves[curves["factor"] == factor])
        panel.set_title(title, fontsize=TEXT)
        panel.set_xlabel("time", fontsize=SMALL)
        panel.set_ylabel("angle", fontsize=SMALL)
    panel = plain(axes[1, 1])
    panel.scatter(codes["mass"], codes["z"], s=5, color=PALETTE[0], alpha=0.5, linewidths=0)
    panel.set_title("z against the unobserved mass", fontsize=TEXT)
    panel.set_xlabel("mass m", fontsize=SMALL)
    panel.set_ylabel("z", fontsize=SMALL)
    (made,) = axes[0, 0].plot([], [], color=INK, label="decoded by the chain")
    (true,) = axes[0, 0].plot([], [], color=FAINT, linestyle=":", label="simulated")
    legend_above(figure, [made, true], 2)
    return figure


def _draw_traversal(panel: Any, curves: pd.DataFrame) -> None:
    from matplotlib import colormaps

    from unweave.plots.plot import SMALL

    values = curves["value"].unique()
    chosen = values[[round(k * (len(values) - 1) / (DRAWN - 1)) for k in range(DRAWN)]]
    for place, value in enumerate(chosen):
        rows = curves[curves["value"] == value]
        colour = colormaps[SEQUENTIAL](0.9 * place / (DRAWN - 1))
        panel.plot(rows["time"], rows["angle"], color=colour, linewidth=1, label=f"{value:.2g}")
        panel.plot(rows["time"], rows["simulated"], color=FAINT, linewidth=1, linestyle=":")
    bottom, top = panel.get_ylim()
    panel.set_ylim(bottom, top + 0.15 * (top - bottom))  # room for the legend
    panel.legend(fontsize=SMALL, frameon=False, ncols=DRAWN, loc="upper right", **NARROW)
