"""The commands `unweave theory d-separation` and `impossibility`: what they draw and print."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from unweave.errors import UnknownNameError
from unweave.io.arguments import check_seed
from unweave.io.paths import check_free
from unweave.papers.theory import TheoryError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "show_d_separation",
    "show_impossibility",
    "show_twin",
]


def show_d_separation(out: Path, ending: str, overwrite: bool) -> None:
    """Compute the example of d-separation, write its figure and tables, print both fractions.

    Args:
        out: The folder for `example.<ending>` and `example.csv`.
        ending: `png` or `svg`.
        overwrite: Whether files may be there already.
    """
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.papers import find
    from unweave.papers.ms_vae.theory.d_separation import all_tables
    from unweave.papers.ms_vae.theory.d_separation_figures import draw_example

    files = [out / f"example.{ending}", out / "example.csv"]
    check_free(files, overwrite)
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
        print(sentence)
    print("Saved: " + ", ".join(map(str, files)))


def show_impossibility(
    out: Path,
    dimensions: int,
    prior: str,
    alpha: float | None,
    cosine: bool,
    metrics: Sequence[str],
    seed: int,
    ending: str,
    overwrite: bool,
) -> None:
    """Entangle a perfect code, check that its law stays, and print what metrics say.

    Args:
        out: The folder for `grid.<ending>`, `metrics.<ending>`, `metrics.csv` and `check.csv`.
        dimensions: How many factors.
        prior: The law of each, of `impossibility.PRIORS`.
        alpha: Of the proof; by default a good one.
        cosine: Whether to mix by the cosine matrix in place of the proof's.
        metrics: Names, of codes and factors.
        seed: Of the draws.
        ending: `png` or `svg`.
        overwrite: Whether files may be there already.
    """
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.papers.common_assumptions.theory import impossibility
    from unweave.papers.common_assumptions.theory.collapse import collapse
    from unweave.papers.common_assumptions.theory.impossibility_figures import (
        draw_collapse,
        draw_grid,
    )

    check_seed(seed)
    if prior not in impossibility.PRIORS:
        raise UnknownNameError("prior", prior, impossibility.PRIORS)
    matrix = _matrix(dimensions, alpha, cosine)
    priors = [impossibility.PRIORS[prior]] * dimensions
    found = impossibility.entangle_with(priors, matrix)
    files = [out / name for name in (f"grid.{ending}", f"metrics.{ending}", "metrics.csv")]
    files.append(out / "check.csv")
    check_free(files, overwrite)
    scores = collapse(found, metrics, seed=seed)
    measured = impossibility.check(found, seed=seed)
    draw_grid(found, seed).save(files[0])
    draw_collapse(scores, f"{dimensions} factors, {prior}").save(files[1])
    write_table(scores, files[2])
    write_table(measured, files[3])
    print_table(measured)
    print_table(scores[~scores["metric"].str.contains(".", regex=False)])
    print(
        "The law of f(z) is that of z: KS tests of each coordinate have p-values from "
        f"{measured['ks'].min():.2g} on, and no two are correlated by more than "
        f"{measured['largest_rank_correlation'].max():.2g}."
    )
    print("Saved: " + ", ".join(map(str, files)))


def show_twin(
    model: Path,
    source: str | None,
    out: Path,
    alpha: float | None,
    cosine: bool,
    metrics: Sequence[str],
    seed: int,
    ending: str,
    overwrite: bool,
) -> None:
    """Score a saved model and its entangled twin, print both, write `twin.<ending>` and a table.

    Args:
        model: The folder of a saved run.
        source: A data set; by default the model's own.
        out: The folder for `twin.<ending>` and `twin.csv`.
        alpha: Of the proof; by default a good one.
        cosine: Whether to mix by the cosine matrix in place of the proof's.
        metrics: Names.
        seed: Of all that metrics draw.
        ending: `png` or `svg`.
        overwrite: Whether files may be there already.
    """
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.models.model import load
    from unweave.papers.common_assumptions.theory.entangled_twin import compare
    from unweave.papers.common_assumptions.theory.impossibility_figures import draw_collapse

    check_seed(seed)
    files = [out / f"twin.{ending}", out / "twin.csv"]
    check_free(files, overwrite)
    trained = load(model)
    matrix = _matrix(trained.config.code_size, alpha, cosine)
    chosen = list(dict.fromkeys([*metrics, "elbo", "pixel_error"]))
    table = compare(trained, source, chosen, matrix=matrix, seed=seed)
    draw_collapse(table, str(trained)).save(files[0])
    write_table(table, files[1])
    print_table(table)
    print("Saved: " + ", ".join(map(str, files)))


def _matrix(dimensions: int, alpha: float | None, cosine: bool) -> "np.ndarray":
    from unweave.papers.common_assumptions.theory import impossibility

    if cosine and alpha is not None:
        raise TheoryError("--alpha belongs to the matrix of the proof; give it or --cosine")
    if cosine:
        return impossibility.cosine(dimensions)
    alpha = impossibility.best_alpha(dimensions) if alpha is None else alpha
    return impossibility.householder(dimensions, alpha)
