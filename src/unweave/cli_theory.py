"""The commands `unweave theory …`: what they compute, draw and print."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from unweave.errors import DataError, UnknownNameError
from unweave.theory.learning import TheoryError

if TYPE_CHECKING:
    from unweave.show.animation import Animation
    from unweave.show.plot import Plot

__all__ = ["EXPERIMENTS", "show_d_separation", "show_pca_alignment", "show_vi_bias"]

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


def show_vi_bias(
    experiments: Sequence[str],
    out: Path,
    betas: Sequence[float] | None,
    steps: int | None,
    seed: int,
    ending: str,
    animate: bool,
    overwrite: bool,
) -> None:
    """Run experiments, write their figures and numbers, print published and obtained.

    Args:
        experiments: Of `EXPERIMENTS`; all where none is named.
        out: The folder for `<experiment>.<ending>` and `<experiment>.csv`.
        betas: Of `beta` and `ica`; by default theirs.
        steps: Of `ica`; by default those of the comparison.
        seed: Of the data of `ica`.
        ending: `png` or `svg`.
        animate: Whether to write `ica.gif` too.
        overwrite: Whether files may be there already.
    """
    from unweave.cli_reproduce import print_table
    from unweave.evaluation.files import write_table

    chosen = list(dict.fromkeys(experiments or EXPERIMENTS))
    for name in chosen:
        if name not in EXPERIMENTS:
            raise UnknownNameError("experiment", name, EXPERIMENTS)
    if animate and "ica" not in chosen:
        raise TheoryError("--animate shows how ica learns; add ica to the experiments")
    files = {name: [out / f"{name}.{ending}", out / f"{name}.csv"] for name in chosen}
    if animate:
        files["ica"].append(out / "ica.gif")
    _check_free([file for group in files.values() for file in group], overwrite)
    options = {"betas": betas, "steps": steps, "seed": seed, "animate": animate}
    outcomes = {name: EXPERIMENTS[name](**options) for name in chosen}
    for name, found in outcomes.items():
        found.plot.save(files[name][0])
        write_table(found.table, files[name][1])
        if found.animation is not None:
            found.animation.save(files[name][2])
    rows = [found.rows.assign(experiment=name) for name, found in outcomes.items()]
    print_table(pd.concat(rows)[["experiment", "what", "published", "obtained", "measured"]])
    for found in outcomes.values():
        for sentence in found.sentences:
            print(sentence)
    print("Saved: " + ", ".join(str(file) for group in files.values() for file in group))


def show_d_separation(out: Path, ending: str, overwrite: bool) -> None:
    """Compute the example of d-separation, write its figure and tables, print both fractions.

    Args:
        out: The folder for `example.<ending>` and `example.csv`.
        ending: `png` or `svg`.
        overwrite: Whether files may be there already.
    """
    from unweave.cli_reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.recipes.ms_vae.separation import obtained, verdict
    from unweave.theory.d_separation import all_tables
    from unweave.theory.d_separation_figures import draw_example

    files = [out / f"example.{ending}", out / "example.csv"]
    _check_free(files, overwrite)
    draw_example().save(files[0])
    write_table(all_tables(), files[1])
    found = obtained()
    print_table(
        pd.DataFrame(
            {
                "law": found["law"],
                "event": found["event"],
                "published": found["fraction"],
                "obtained": found["exactly"],
            }
        )
    )
    for sentence in verdict(found):
        print(sentence)
    print("Saved: " + ", ".join(map(str, files)))


def show_pca_alignment(out: Path, seeds: int, moments: int, ending: str, overwrite: bool) -> None:
    """Run the four linear experiments, write figure and tables, print prediction and outcome.

    Args:
        out: The folder for `alignment.<ending>` and a CSV file per experiment.
        seeds: How many runs of each.
        moments: Of the sources of linear PCL.
        ending: `png` or `svg`.
        overwrite: Whether files may be there already.
    """
    from unweave.cli_reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.theory import linear_pcl, pca_alignment
    from unweave.theory.pca_alignment_figures import draw_alignment

    if seeds < 1:
        raise TheoryError(f"each experiment is run at least once, but got {seeds} seeds")
    names = ("rotations", "autoencoders", "modified-data", "contrastive")
    files = [out / f"alignment.{ending}", *(out / f"{name}.csv" for name in names)]
    _check_free(files, overwrite)
    runs = range(seeds)
    turned = [
        pca_alignment.rotations(runs, fixed=fixed).assign(fixed=fixed) for fixed in (False, True)
    ]
    tables = [
        pd.concat(turned, ignore_index=True),
        pca_alignment.linear_autoencoders(runs),
        pca_alignment.modified_data(seeds=runs),
        linear_pcl.contrastive(seeds=runs, count=moments),
    ]
    draw_alignment(*tables[1:]).save(files[0])
    for table, file in zip(tables, files[1:], strict=True):
        write_table(table, file)
    print_table(pd.DataFrame(_alignments(*tables)))
    print("Saved: " + ", ".join(map(str, files)))


def _alignments(
    turned: pd.DataFrame,
    autoencoders: pd.DataFrame,
    modified: pd.DataFrame,
    contrasted: pd.DataFrame,
) -> list[dict[str, str]]:
    """What theory says and what came out: the smallest match of each run, as a range."""
    from math import cos

    from unweave.theory.pca_alignment import predicted_rotation

    rows = [
        ("best rotation, with principal axes", "1", turned["alignment"]),
        ("its loss, as a share of the bound", "1", turned["loss"] / turned["bound"]),
    ]
    words = {
        "vae": ("linear VAE, with principal axes", "1"),
        "equal": ("linear VAE, equal variances, with factors", "below 1: no axes"),
        "autoencoder": ("linear autoencoder, with principal axes", "below 1: any basis"),
    }
    for kind, (what, theory) in words.items():
        own = autoencoders[autoencoders["kind"] == kind]
        rows.append((what, theory, own["factors" if kind == "equal" else "principal"]))
    for delta, own in modified.groupby("delta"):
        theory = f"cos θ = {own['predicted'].iloc[0]:.3f}"
        rows.append(
            (f"linear VAE, modified by δ = {delta:g}, with factors", theory, own["factors"])
        )
    for delta, own in contrasted.groupby("delta"):
        rows.append((f"linear PCL, δ = {delta:g}, with factors", "1", own["pcl"]))
        cosine = cos(predicted_rotation(delta))
        what = f"principal components, δ = {delta:g}, with factors"
        rows.append((what, f"cos θ = {cosine:.3f}", own["pca"]))
    return [
        {"what": what, "theory": theory, "obtained": _range(values)}
        for what, theory, values in rows
    ]


def _range(values: pd.Series) -> str:
    low, high = f"{values.min():.4f}", f"{values.max():.4f}"
    return low if low == high else f"{low} – {high}"


def _rotation(**_: Any) -> Outcome:
    from unweave.recipes.isa_vae.biases import obtained_free_energy
    from unweave.theory import vi_bias
    from unweave.theory.vi_bias_figures import draw_rotation

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


def _over_complete(**_: Any) -> Outcome:
    from unweave.recipes.isa_vae.biases import without_the_spare
    from unweave.theory import vi_bias
    from unweave.theory.vi_bias_figures import draw_over_complete

    return Outcome(_claims(without_the_spare()), vi_bias.over_complete(), draw_over_complete())


def _beta(betas: Sequence[float] | None, **_: Any) -> Outcome:
    from unweave.recipes.isa_vae.biases import effects_of_beta
    from unweave.theory import vi_bias
    from unweave.theory.vi_bias_figures import draw_effect_of_beta

    # Others are compared with plain variational inference.
    chosen = sorted({1.0, *(betas or vi_bias.BETAS)})
    table = vi_bias.effect_of_beta(chosen)
    return Outcome(_claims(effects_of_beta(chosen)), table, draw_effect_of_beta(chosen))


def _ica(betas: Sequence[float] | None, steps: int | None, seed: int, animate: bool) -> Outcome:
    from unweave.recipes.isa_vae.biases import obtained_components
    from unweave.theory import ica, vi_bias
    from unweave.theory.vi_bias_figures import animate_components, draw_components

    steps = vi_bias.BUDGET if steps is None else steps
    learned = {
        beta: vi_bias.components(beta, steps, seed, progress=True)
        for beta in dict.fromkeys(betas or ICA_BETAS)
    }
    step = min(steps, vi_bias.BUDGET)
    published = obtained_components({beta: [way] for beta, way in learned.items()}, step)
    others = [
        {"what": f"components at β = {beta:g}", "obtained": str(way.kept[step])}
        for beta, way in learned.items()
        if beta not in ICA_BETAS
    ]
    rows = pd.concat([_claims(published), pd.DataFrame(others, dtype=object)])
    data = ica.draw(seed)
    return Outcome(
        rows.assign(what=rows["what"] + f" (step {step:,})"),
        pd.concat([way.table.assign(beta=beta) for beta, way in learned.items()]),
        draw_components(data, learned),
        animate_components(data, learned) if animate else None,
        [_fate(beta, way.pruned_after(2), steps) for beta, way in learned.items()],
    )


def _fate(beta: float, pruned: int | None, steps: int) -> str:
    if pruned is None:
        return f"ica at β = {beta:g}: three components are kept after all {steps:,} steps."
    return f"ica at β = {beta:g}: a component is pruned from step {pruned:,} on."


EXPERIMENTS: Mapping[str, Callable[..., Outcome]] = {
    "rotation": _rotation,
    "over-complete": _over_complete,
    "beta": _beta,
    "ica": _ica,
}


def _claims(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"claim": "what"})


def _check_free(files: Sequence[Path], overwrite: bool) -> None:
    for file in files:
        if file.exists() and not overwrite:
            raise DataError(
                f"{file} is already there; choose another folder with -o, or add --overwrite"
            )
