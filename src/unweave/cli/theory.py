"""The commands `unweave theory …`: small exact experiments."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from tyro.conf import Positional, arg

from unweave.cli.app import theory_app
from unweave.cli.options import MetricsOption
from unweave.cli.printing import print_table
from unweave.errors import DataError, UnknownNameError
from unweave.io.arguments import check_count, check_seed
from unweave.io.paths import check_free
from unweave.progress import print_output

if TYPE_CHECKING:
    import numpy as np

Folder: TypeAlias = Annotated[
    Path, arg(aliases=["-o"], metavar="FOLDER", help="Output folder for figures and tables.")
]
FileFormat: TypeAlias = Annotated[
    Literal["png", "svg"], arg(name="format", help="File format of the figures.")
]
ALIGNMENT_TABLES = ("rotations", "autoencoders", "modified-data", "contrastive")


@theory_app.add("vi-bias")
@dataclass(frozen=True, kw_only=True)
class TheoryVIBias:
    """Show the biases of variational inference in models that can be solved exactly.

    Example: unweave theory vi-bias ica --steps 2500 --animate
    """

    experiments: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="EXPERIMENT…",
            help="Experiments: rotation, over-complete, beta, ica (default: all).",
            help_behavior_hint="",
        ),
    ] = ()
    out: Folder = Path("vi-bias")
    betas: Annotated[
        tuple[float, ...] | None,
        arg(metavar="X…", help="Values of β (default: 1, 2, 5 and 10 for beta, 1 and 5 for ica)."),
    ] = None
    steps: int | None = None
    """Number of training steps for ica (default: 1,000)."""
    seed: int = 0
    """Random seed for the data of ica."""
    file_format: FileFormat = "png"
    animate: bool = False
    """Also write ica.gif, an animation of the learned components."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        import pandas as pd

        from unweave.papers.isa_vae.theory.vi_bias_results import EXPERIMENTS, ViBias
        from unweave.papers.theory import TheoryError

        chosen = list(dict.fromkeys(self.experiments or EXPERIMENTS))
        for name in chosen:
            if name not in EXPERIMENTS:
                raise UnknownNameError("experiment", name, EXPERIMENTS)
        if self.animate and "ica" not in chosen:
            raise TheoryError(
                "--animate requires the experiment ica; add it or leave out --animate",
                subject="animate",
            )
        names = [f"{name}.{end}" for name in chosen for end in (self.file_format, "csv")]
        files = _files(self.out, [*names, *["ica.gif"] * self.animate], self.overwrite)
        steps = {} if self.steps is None else {"steps": self.steps}
        settings = ViBias(betas=self.betas, seed=self.seed, animate=self.animate, **steps)
        outcomes = {name: EXPERIMENTS[name](settings) for name in chosen}
        rows = pd.concat([found.rows.assign(experiment=name) for name, found in outcomes.items()])
        print_table(rows[["experiment", *rows.columns.drop("experiment")]])
        for found in outcomes.values():
            for sentence in found.sentences:
                print_output(sentence)
        results = [part for found in outcomes.values() for part in (found.plot, found.table)]
        animations = [found.animation for found in outcomes.values() if found.animation]
        _save(files, *results, *animations)


@theory_app.add("d-separation")
@dataclass(frozen=True, kw_only=True)
class TheoryDSeparation:
    """Show with six images why a second stage that depends on Y does not change the code C.

    Example: unweave theory d-separation -o example
    """

    out: Folder = Path("d-separation")
    file_format: FileFormat = "png"
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        import pandas as pd

        from unweave.papers import find
        from unweave.papers.ms_vae.theory.d_separation import all_tables, draw_example

        files = _files(self.out, [f"example.{self.file_format}", "example.csv"], self.overwrite)
        recipe = find("ms-vae/tables-2-3")
        found = recipe.obtain(pd.DataFrame())
        cells = found[["law", "event", "fraction", "exactly"]]
        print_table(cells.set_axis(["law", "event", "published", "obtained"], axis=1))
        for sentence in recipe.verdict(found):
            print_output(sentence)
        _save(files, draw_example(), all_tables())


@theory_app.add("impossibility")
@dataclass(frozen=True, kw_only=True)
class TheoryImpossibility:
    """Entangle a code without changing its distribution, so that no data can reveal it.

    Example: unweave theory impossibility --dimensions 5 --prior laplace
    """

    model: Annotated[
        Positional[Path | None],
        arg(
            metavar="[RUN]",
            help="Folder of a saved run, which is scored together with its entangled twin.",
        ),
    ] = None
    out: Folder = Path("impossibility")
    dimensions: Annotated[int | None, arg(aliases=["-d"], metavar="N")] = None
    """Number of factors (default: 2)."""
    prior: Annotated[str | None, arg(metavar="NAME")] = None
    """Distribution of the factors: uniform (default), normal, laplace, exponential or beta."""
    alpha: float | None = None
    """Parameter α of the proof, between 0 and 1/2 (default: 1/N, or 0.15 for two factors)."""
    cosine: bool = False
    """Mix with a cosine matrix, which mixes many factors more strongly than the proof's matrix."""
    data: Annotated[
        str | None, arg(metavar="SOURCE", help="Images (default: the training data of the run).")
    ] = None
    metrics: MetricsOption = ("classic",)
    seed: int = 0
    """Random seed."""
    file_format: FileFormat = "png"
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        if self.model is None:
            if self.data is not None:
                raise DataError(
                    "--data requires a saved run; add its folder or leave out --data",
                    subject="data",
                    value=self.data,
                )
            _show_theorem(self)
            return
        if self.dimensions is not None or self.prior is not None:
            raise DataError(
                "a saved run defines its latents and prior; leave out --dimensions and --prior",
                subject="model",
                value=self.model,
            )
        _show_twin(self.model, self)


@theory_app.add("pca-alignment")
@dataclass(frozen=True, kw_only=True)
class TheoryPCAAlignment:
    """Show that linear VAEs recover principal axes and contrastive learning recovers factors.

    Example: unweave theory pca-alignment -o linear
    """

    out: Folder = Path("pca-alignment")
    seeds: int = 3
    """Number of runs of each experiment."""
    moments: int = 40_000
    """Number of time steps in the series."""
    file_format: FileFormat = "png"
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.papers.inductive_biases.theory import pca_alignment_results as results
        from unweave.papers.inductive_biases.theory.linear_pcl import MOST_MOMENTS

        check_count("seeds", self.seeds, 1, 10_000)
        check_count("moments", self.moments, 2, MOST_MOMENTS)
        names = [f"alignment.{self.file_format}", *(f"{name}.csv" for name in ALIGNMENT_TABLES)]
        files = _files(self.out, names, self.overwrite)
        tables = results.run_experiments(range(self.seeds), self.moments)
        print_table(results.summary(tables))
        chosen = [tables[name] for name in ALIGNMENT_TABLES]
        _save(files, results.draw_alignment(*chosen[1:]), *chosen)


def _files(out: Path, names: Sequence[str], overwrite: bool) -> list[Path]:
    """Return the files to write, after checking that they may be written."""
    files = [out / name for name in names]
    check_free(files, overwrite)
    return files


def _save(files: Sequence[Path], *results: Any) -> None:
    """Save tables, figures and animations, and print where."""
    import pandas as pd

    from unweave.evaluation.files import write_table

    for file, result in zip(files, results, strict=True):
        if isinstance(result, pd.DataFrame):
            write_table(result, file)
        else:
            result.save(file)
    print_output("Saved: " + ", ".join(map(str, files)))


def _show_theorem(options: TheoryImpossibility) -> None:
    """Entangle a perfect code, check that its distribution is unchanged, and print its scores."""
    from unweave.papers.common_assumptions.theory import impossibility
    from unweave.papers.common_assumptions.theory.impossibility_figures import (
        draw_collapse,
        draw_grid,
    )

    check_seed(options.seed)
    dimensions = 2 if options.dimensions is None else options.dimensions
    prior = options.prior or "uniform"
    if prior not in impossibility.PRIORS:
        raise UnknownNameError("prior", prior, impossibility.PRIORS)
    matrix = _matrix(dimensions, options)
    priors = [impossibility.PRIORS[prior]] * dimensions
    found = impossibility.entangle_with(priors, matrix)
    figures = [f"{name}.{options.file_format}" for name in ("grid", "metrics")]
    files = _files(options.out, [*figures, "metrics.csv", "check.csv"], options.overwrite)
    scores = impossibility.collapse(found, options.metrics, seed=options.seed)
    measured = impossibility.check(found, seed=options.seed)
    print_table(measured)
    print_table(scores[~scores["metric"].str.contains(".", regex=False)])
    print_output(
        "f(z) has the same distribution as z: the p-values of all KS tests are at least "
        f"{measured['ks'].min():.2g}, and the largest rank correlation is "
        f"{measured['largest_rank_correlation'].max():.2g}."
    )
    bars = draw_collapse(scores, f"{dimensions} factors, {prior}")
    _save(files, draw_grid(found, options.seed), bars, scores, measured)


def _show_twin(model: Path, options: TheoryImpossibility) -> None:
    """Score a saved model and its entangled twin, and write a figure and a table."""
    from unweave.models.model import load
    from unweave.papers.common_assumptions.theory.entangled_twin import compare
    from unweave.papers.common_assumptions.theory.impossibility_figures import draw_collapse

    check_seed(options.seed)
    files = _files(options.out, [f"twin.{options.file_format}", "twin.csv"], options.overwrite)
    trained = load(model)
    matrix = _matrix(trained.config.code_size, options)
    chosen = list(dict.fromkeys([*options.metrics, "elbo", "pixel_error"]))
    table = compare(trained, options.data, chosen, matrix=matrix, seed=options.seed)
    print_table(table)
    _save(files, draw_collapse(table, str(trained)), table)


def _matrix(dimensions: int, options: TheoryImpossibility) -> "np.ndarray":
    from unweave.papers.common_assumptions.theory import impossibility
    from unweave.papers.theory import TheoryError

    if not options.cosine:
        best = impossibility.best_alpha(dimensions)
        return impossibility.householder(
            dimensions, best if options.alpha is None else options.alpha
        )
    if options.alpha is not None:
        raise TheoryError(
            "--alpha and --cosine cannot be combined; leave out one of them",
            subject="alpha",
            value=options.alpha,
        )
    return impossibility.cosine(dimensions)
