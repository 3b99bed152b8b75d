"""The command `unweave theory pca-alignment`: four linear experiments, computed and printed."""

import pandas as pd

from unweave.cli.commands.papers import TheoryPCAAlignment
from unweave.io.arguments import check_count
from unweave.io.paths import check_free
from unweave.progress import tell

__all__ = ["show_pca_alignment"]


def show_pca_alignment(asked: TheoryPCAAlignment) -> None:
    """Run the four linear experiments, write figure and tables, print prediction and outcome."""
    from unweave.cli.reproduce import print_table
    from unweave.evaluation.files import write_table
    from unweave.papers.inductive_biases.theory import linear_pcl, pca_alignment
    from unweave.papers.inductive_biases.theory.pca_alignment_figures import draw_alignment

    check_count("seeds", asked.seeds, 1, 10_000)
    check_count("moments", asked.moments, 2, linear_pcl.MOST_MOMENTS)
    names = ("rotations", "autoencoders", "modified-data", "contrastive")
    files = [asked.out / f"alignment.{asked.ending}"]
    files += [asked.out / f"{name}.csv" for name in names]
    check_free(files, asked.overwrite)
    runs = range(asked.seeds)
    turned = [
        pca_alignment.rotations(runs, fixed=fixed).assign(fixed=fixed) for fixed in (False, True)
    ]
    tables = [
        pd.concat(turned, ignore_index=True),
        pca_alignment.linear_autoencoders(runs),
        pca_alignment.modified_data(seeds=runs),
        linear_pcl.contrastive(seeds=runs, count=asked.moments),
    ]
    draw_alignment(*tables[1:]).save(files[0])
    for table, file in zip(tables, files[1:], strict=True):
        write_table(table, file)
    print_table(pd.DataFrame(_alignments(*tables)))
    tell("Saved: " + ", ".join(map(str, files)))


def _alignments(
    turned: pd.DataFrame,
    autoencoders: pd.DataFrame,
    modified: pd.DataFrame,
    contrasted: pd.DataFrame,
) -> list[dict[str, str]]:
    """What theory says and what came out: the smallest match of each run, as a range."""
    from math import cos

    from unweave.papers.inductive_biases.theory.pca_alignment import predicted_rotation

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
