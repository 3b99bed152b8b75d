"""The command `unweave theory vi-bias`: four experiments, computed, drawn and printed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from unweave.cli.commands.papers import TheoryVIBias
from unweave.errors import UnknownNameError
from unweave.io.paths import check_free
from unweave.papers.theory import TheoryError
from unweave.progress import tell

if TYPE_CHECKING:
    from unweave.plots.animation import Animation
    from unweave.plots.plot import Plot

__all__ = ["show_vi_bias"]

ICA_BETAS = (1.0, 5.0)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of an experiment.

    Args:
        rows: `what`, `published`, `obtained` and `measured`, to be printed.
        table: All numbers.
        plot: The figure.
        animation: A moving one, where there is one.
        sentences: What is to be said below the rows.
    """

    rows: pd.DataFrame
    table: pd.DataFrame
    plot: "Plot"
    animation: "Animation | None" = None
    sentences: list[str] = field(default_factory=list)


def show_vi_bias(asked: TheoryVIBias) -> None:
    """Run experiments, write their figures and numbers, print published and obtained."""
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table

    chosen = list(dict.fromkeys(asked.experiments or EXPERIMENTS))
    for name in chosen:
        if name not in EXPERIMENTS:
            raise UnknownNameError("experiment", name, EXPERIMENTS)
    if asked.animate and "ica" not in chosen:
        raise TheoryError("--animate shows how ica learns; add ica to the experiments")
    files = {
        name: [asked.out / f"{name}.{asked.ending}", asked.out / f"{name}.csv"] for name in chosen
    }
    if asked.animate:
        files["ica"].append(asked.out / "ica.gif")
    check_free([file for group in files.values() for file in group], asked.overwrite)
    outcomes = {name: EXPERIMENTS[name](asked) for name in chosen}
    for name, found in outcomes.items():
        found.plot.save(files[name][0])
        write_table(found.table, files[name][1])
        if found.animation is not None:
            found.animation.save(files[name][2])
    rows = [found.rows.assign(experiment=name) for name, found in outcomes.items()]
    print_table(pd.concat(rows)[["experiment", "what", "published", "obtained", "measured"]])
    for found in outcomes.values():
        for sentence in found.sentences:
            tell(sentence)
    tell("Saved: " + ", ".join(str(file) for group in files.values() for file in group))


def _rotation(_: TheoryVIBias) -> Outcome:
    from unweave.papers.isa_vae.biases import obtained_free_energy
    from unweave.papers.isa_vae.theory import vi_bias
    from unweave.papers.isa_vae.theory.vi_bias_figures import draw_rotation

    found = obtained_free_energy()
    rows = pd.DataFrame(
        {
            "what": found["quantity"] + " at " + found["rotation"] + ", in nats",
            "published": found["published"].map("{:.2f}".format),
            "obtained": found["obtained"].map("{:.2f}".format),
            "measured": "",
        }
    )
    return Outcome(rows, vi_bias.rotation(), draw_rotation())


def _over_complete(_: TheoryVIBias) -> Outcome:
    from unweave.papers.isa_vae.biases import without_the_spare
    from unweave.papers.isa_vae.theory import vi_bias
    from unweave.papers.isa_vae.theory.vi_bias_figures import draw_over_complete

    return Outcome(_claims(without_the_spare()), vi_bias.over_complete(), draw_over_complete())


def _beta(asked: TheoryVIBias) -> Outcome:
    from unweave.papers.isa_vae.biases import effects_of_beta
    from unweave.papers.isa_vae.theory import vi_bias
    from unweave.papers.isa_vae.theory.vi_bias_figures import draw_effect_of_beta

    # Others are compared with plain variational inference.
    chosen = sorted({1.0, *(asked.betas or vi_bias.BETAS)})
    table = vi_bias.effect_of_beta(chosen)
    return Outcome(_claims(effects_of_beta(chosen)), table, draw_effect_of_beta(chosen))


def _ica(asked: TheoryVIBias) -> Outcome:
    from unweave.papers.isa_vae.components import obtained_components
    from unweave.papers.isa_vae.theory import ica, vi_bias
    from unweave.papers.isa_vae.theory.vi_bias_figures import animate_components, draw_components

    steps = vi_bias.BUDGET if asked.steps is None else asked.steps
    learned = {
        beta: vi_bias.components(beta, steps, asked.seed, progress=True)
        for beta in dict.fromkeys(asked.betas or ICA_BETAS)
    }
    step = min(steps, vi_bias.BUDGET)
    published = obtained_components({beta: [way] for beta, way in learned.items()}, step)
    others = [
        {"what": f"components at β = {beta:g}", "obtained": str(way.kept[step])}
        for beta, way in learned.items()
        if beta not in ICA_BETAS
    ]
    rows = pd.concat([_claims(published), pd.DataFrame(others, dtype=object)])
    data = ica.draw(asked.seed)
    return Outcome(
        rows.assign(what=rows["what"] + f" (step {step:,})"),
        pd.concat([way.table.assign(beta=beta) for beta, way in learned.items()]),
        draw_components(data, learned),
        animate_components(data, learned) if asked.animate else None,
        [_fate(beta, way.pruned_after(2), steps) for beta, way in learned.items()],
    )


def _fate(beta: float, pruned: int | None, steps: int) -> str:
    if pruned is None:
        return f"ica at β = {beta:g}: three components are kept after all {steps:,} steps."
    return f"ica at β = {beta:g}: a component is pruned from step {pruned:,} on."


EXPERIMENTS: Mapping[str, Callable[[TheoryVIBias], Outcome]] = {
    "rotation": _rotation,
    "over-complete": _over_complete,
    "beta": _beta,
    "ica": _ica,
}


def _claims(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"claim": "what"})
