"""The commands `unweave theory d-separation` and `impossibility`: what they draw and print."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.cli.commands.papers import TheoryDSeparation, TheoryImpossibility
from unweave.errors import DataError, UnknownNameError
from unweave.io.arguments import check_seed
from unweave.io.paths import check_free
from unweave.papers.theory import TheoryError
from unweave.progress import tell

if TYPE_CHECKING:
    import numpy as np

__all__ = ["show_d_separation", "show_impossibility"]


def show_d_separation(asked: TheoryDSeparation) -> None:
    """Compute the example of d-separation, write its figure and tables, print both fractions."""
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.papers import find
    from unweave.papers.ms_vae.theory.d_separation import all_tables
    from unweave.papers.ms_vae.theory.d_separation_figures import draw_example

    files = [asked.out / f"example.{asked.ending}", asked.out / "example.csv"]
    check_free(files, asked.overwrite)
    draw_example().save(files[0])
    write_table(all_tables(), files[1])
    recipe = find("ms-vae/tables-2-3")
    assert recipe.obtain is not None
    assert recipe.verdict is not None
    found = recipe.obtain(pd.DataFrame())
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
    for sentence in recipe.verdict(found):
        tell(sentence)
    tell("Saved: " + ", ".join(map(str, files)))


def show_impossibility(asked: TheoryImpossibility) -> None:
    """Show the theorem for a perfect code, or the entangled twin of a saved model."""
    if asked.model is None:
        if asked.data is not None:
            raise DataError("--data is for a saved run; name the folder of one")
        _show_theorem(asked)
        return
    if asked.dimensions is not None or asked.prior is not None:
        raise DataError(
            "a model has its own latents and a normal prior; leave out --dimensions, --prior"
        )
    _show_twin(asked.model, asked)


def _show_theorem(asked: TheoryImpossibility) -> None:
    """Entangle a perfect code, check that its distribution stays, and print what metrics say."""
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.papers.common_assumptions.theory import impossibility
    from unweave.papers.common_assumptions.theory.collapse import collapse
    from unweave.papers.common_assumptions.theory.impossibility_figures import (
        draw_collapse,
        draw_grid,
    )

    check_seed(asked.seed)
    dimensions = 2 if asked.dimensions is None else asked.dimensions
    prior = asked.prior or "uniform"
    if prior not in impossibility.PRIORS:
        raise UnknownNameError("prior", prior, impossibility.PRIORS)
    matrix = _matrix(dimensions, asked)
    priors = [impossibility.PRIORS[prior]] * dimensions
    found = impossibility.entangle_with(priors, matrix)
    figures = [f"{name}.{asked.ending}" for name in ("grid", "metrics")]
    files = [asked.out / name for name in (*figures, "metrics.csv", "check.csv")]
    check_free(files, asked.overwrite)
    scores = collapse(found, asked.metrics, seed=asked.seed)
    measured = impossibility.check(found, seed=asked.seed)
    draw_grid(found, asked.seed).save(files[0])
    draw_collapse(scores, f"{dimensions} factors, {prior}").save(files[1])
    write_table(scores, files[2])
    write_table(measured, files[3])
    print_table(measured)
    print_table(scores[~scores["metric"].str.contains(".", regex=False)])
    tell(
        "The law of f(z) is that of z: KS tests of each coordinate have p-values from "
        f"{measured['ks'].min():.2g} on, and no two are correlated by more than "
        f"{measured['largest_rank_correlation'].max():.2g}."
    )
    tell("Saved: " + ", ".join(map(str, files)))


def _show_twin(model: Path, asked: TheoryImpossibility) -> None:
    """Score a saved model and its entangled twin, print both, write a figure and a table."""
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.models.model import load
    from unweave.papers.common_assumptions.theory.entangled_twin import compare
    from unweave.papers.common_assumptions.theory.impossibility_figures import draw_collapse

    check_seed(asked.seed)
    files = [asked.out / f"twin.{asked.ending}", asked.out / "twin.csv"]
    check_free(files, asked.overwrite)
    trained = load(model)
    matrix = _matrix(trained.config.code_size, asked)
    chosen = list(dict.fromkeys([*asked.metrics, "elbo", "pixel_error"]))
    table = compare(trained, asked.data, chosen, matrix=matrix, seed=asked.seed)
    draw_collapse(table, str(trained)).save(files[0])
    write_table(table, files[1])
    print_table(table)
    tell("Saved: " + ", ".join(map(str, files)))


def _matrix(dimensions: int, asked: TheoryImpossibility) -> "np.ndarray":
    from unweave.papers.common_assumptions.theory import impossibility

    if not asked.cosine:
        best = impossibility.best_alpha(dimensions)
        return impossibility.householder(dimensions, best if asked.alpha is None else asked.alpha)
    if asked.alpha is not None:
        raise TheoryError("--alpha belongs to the matrix of the proof; give it or --cosine")
    return impossibility.cosine(dimensions)
