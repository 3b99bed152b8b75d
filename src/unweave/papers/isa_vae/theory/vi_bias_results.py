"""Figure 1 and Appendix B: checks of the paper's claims about biases of variational inference."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.papers.isa_vae.theory import ica, vi_bias
from unweave.papers.isa_vae.theory import vi_bias_figures as figures
from unweave.papers.recipe import published_table
from unweave.papers.theory import Ascent

if TYPE_CHECKING:
    from unweave.plots.animation import Animation
    from unweave.plots.figure import Plot

SEEDS = (0, 1, 2, 3)
BEYOND = 2500
"""Steps of Figure 1 with β = 1, beyond the published number."""
CLAIMED = (1.0, 5.0)
"""Values of β for which the paper makes claims about components."""
COLUMNS = ("what", "by", "published", "obtained", "measured", "against")


def obtain_free_energy(_: pd.DataFrame) -> pd.DataFrame:
    """Log-likelihood and free energy at two rotations of the weights."""
    table = vi_bias.rotation(angles=[0, math.pi / 4])
    found = table[["log_likelihood", "free_energy"]].to_numpy()
    return published_table("unweave.papers.isa_vae", "appendix-b").assign(obtained=found.ravel())


def factor_analyses(table: pd.DataFrame) -> pd.DataFrame:
    """Run both experiments of Appendices B.4 and B.5, unless a table is given."""
    if len(table):
        return table
    return pd.concat([_over_complete(), vi_bias.effect_of_beta().assign(experiment="beta")])


def _over_complete() -> pd.DataFrame:
    learned = vi_bias.learned_spare().norms[-1]
    return vi_bias.over_complete().assign(experiment="over-complete", spare_length=learned.min())


def component_runs(table: pd.DataFrame) -> pd.DataFrame:
    """Run the experiment of Figure 1 with several seeds, unless a table is given."""
    if len(table):
        return table
    steps = {1.0: BEYOND, 5.0: vi_bias.BUDGET}
    learned = {
        beta: [vi_bias.components(beta, steps[beta], seed) for seed in SEEDS] for beta in steps
    }
    return runs_table(learned, vi_bias.BUDGET)


def runs_table(learned: Mapping[float, Sequence[Ascent]], budget: int) -> pd.DataFrame:
    """Summarise the components learned by runs of each β.

    Returns:
        A row per run: `beta`, `run`; at that step, the number of components `kept`, the `angle`
        between the two longest, their `orthogonality` and that of the `truth`; and `pruned`, the
        first step with two components, or infinity.
    """
    rows = []
    for beta, runs in learned.items():
        for place, run in enumerate(runs):
            step, pruned = min(budget, len(run.weights) - 1), run.pruned_after(2)
            rows.append(
                {
                    "beta": beta,
                    "run": f"run {place}",
                    "kept": run.kept[step],
                    "angle": run.angle[step],
                    "orthogonality": run.orthogonality[step],
                    "truth": run.orthogonality[0],
                    "pruned": math.inf if pruned is None else pruned,
                }
            )
    return pd.DataFrame(rows)


STATISTICS = {
    "a_of_the_largest_free_energy": lambda rows, _: float(
        rows.loc[rows["free_energy"].idxmax(), "a"]
    ),
}


def plot_rotation(_: pd.DataFrame, path: Path) -> None:
    """Draw weights, posteriors and nats."""
    figures.draw_rotation().save(path)


def plot_effect_of_beta(_: pd.DataFrame, path: Path) -> None:
    """Draw directions, posteriors and lengths for every β."""
    figures.draw_effect_of_beta().save(path)


def plot_components(_: pd.DataFrame, path: Path) -> None:
    """Draw true and learned components of the first seed, and their lengths during training."""
    learned = {beta: vi_bias.components(beta, BEYOND, SEEDS[0]) for beta in CLAIMED}
    figures.draw_components(ica.draw(SEEDS[0]), learned).save(path)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Results of an experiment.

    Args:
        rows: Published claims and obtained results, with the columns `COLUMNS`.
        table: All numbers.
        plot: Figure.
        animation: Animation, if any.
        sentences: Sentences to print below the rows.
    """

    rows: pd.DataFrame
    table: pd.DataFrame
    plot: "Plot"
    animation: "Animation | None" = None
    sentences: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ViBias:
    """The experiments with custom settings.

    Args:
        betas: Values of β for `beta` (default: `vi_bias.BETAS`) and `ica` (default: 1 and 5).
        steps: Steps of `ica`.
        seed: Seed of the data of `ica`.
        animate: Whether to animate `ica`.
    """

    betas: Sequence[float] | None = None
    steps: int = vi_bias.BUDGET
    seed: int = 0
    animate: bool = False

    def rotation(self) -> Outcome:
        found = obtain_free_energy(pd.DataFrame())
        rows = pd.DataFrame(
            {
                "what": found["quantity"] + " at " + found["rotation"] + ", in nats",
                "published": found["published"].map("{:.2f}".format),
                "obtained": found["obtained"].map("{:.2f}".format),
            }
        )
        return Outcome(rows.reindex(columns=COLUMNS), vi_bias.rotation(), figures.draw_rotation())

    def over_complete(self) -> Outcome:
        rows = _judged("appendix-b4-b5", _over_complete())
        return Outcome(rows, vi_bias.over_complete(), figures.draw_over_complete())

    def beta(self) -> Outcome:
        # Always include plain variational inference for comparison.
        betas = sorted({1.0, *(self.betas or vi_bias.BETAS)})
        table = vi_bias.effect_of_beta(betas)
        rows = _judged("appendix-b4-b5", table.assign(experiment="beta"))
        return Outcome(rows, table, figures.draw_effect_of_beta(betas))

    def ica(self) -> Outcome:
        learned = {
            beta: vi_bias.components(beta, self.steps, self.seed, progress=True)
            for beta in dict.fromkeys(self.betas or CLAIMED)
        }
        step = min(self.steps, vi_bias.BUDGET)
        runs = runs_table({beta: [way] for beta, way in learned.items()}, step)
        others = runs[~runs["beta"].isin(CLAIMED)]
        kept = pd.DataFrame(
            {
                "what": others["beta"].map("components at β = {:g}".format),
                "obtained": others["kept"].map(str),
            }
        )
        # The pruning step is reported below: the recipe checks it after more steps.
        judged = _judged("figure-1", runs.drop(columns="pruned"))
        rows = pd.concat([judged, kept]).reindex(columns=COLUMNS)
        data, sentences = ica.draw(self.seed), []
        for beta, way in learned.items():
            pruned = way.pruned_after(2)
            text = f"all three components remain after {self.steps:,} steps"
            if pruned is not None:
                text = f"a component is pruned at step {pruned:,}"
            sentences.append(f"ica at β = {beta:g}: {text}.")
        return Outcome(
            rows.assign(what=rows["what"] + f" (step {step:,})"),
            pd.concat([way.table.assign(beta=beta) for beta, way in learned.items()]),
            figures.draw_components(data, learned),
            figures.animate_components(data, learned) if self.animate else None,
            sentences,
        )


EXPERIMENTS: Mapping[str, Callable[[ViBias], Outcome]] = {
    "rotation": ViBias.rotation,
    "over-complete": ViBias.over_complete,
    "beta": ViBias.beta,
    "ica": ViBias.ica,
}


def _judged(slug: str, table: pd.DataFrame) -> pd.DataFrame:
    """Claims about a table with their verdicts, from its recipe."""
    from unweave.papers.isa_vae import RECIPES

    (recipe,) = (recipe for recipe in RECIPES if recipe.slug == slug)
    assert recipe.obtain is not None
    frame = recipe.obtain(table).dropna(subset="obtained")
    by = (frame["by"] + ", " + frame["of"]).str.removesuffix(", ")
    return frame.rename(columns={"claim": "what"}).assign(by=by).reindex(columns=COLUMNS)
