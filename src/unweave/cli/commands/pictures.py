"""Pictures and pages of models: show, report, explore."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.apps import app
from unweave.cli.options import (
    PathOption,
)


@app.command(name="show")
def show(
    model: Annotated[Positional[Path], arg(metavar="MODEL", help="The folder of a saved run.")],
    kind: Annotated[
        str,
        arg(
            metavar="KIND",
            help="traversals, reconstructions, samples, animation, pairwise, position, polarised, "
            "members, activity, subspaces, exponents, stages, swaps, stage-traversals, kl or "
            "training.",
        ),
    ] = "traversals",
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FILE", help="The file to write; KIND.png or .gif here."),
    ] = None,
    data: Annotated[
        str | None, arg(metavar="SOURCE", help="By default what the model was trained on.")
    ] = None,
    index: int | None = None,
    prior: Literal["mean", "draw"] | None = None,
    seed: int | None = None,
    columns: int | None = None,
    count: int | None = None,
    reach: float | None = None,
    quantiles: tuple[float, float] | None = None,
    inactive: Literal["grey", "hide"] | None = None,
    latents: tuple[int, int] | None = None,
    over: tuple[str, str] | None = None,
    by: int | str | None = None,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
    overwrite: bool = False,
) -> None:
    """Draw a trained model: what its latents do, what it makes of images, how it was trained.

    Example: unweave show runs/0f3a… -o latents.gif --kind animation

    Args:
        index: The image that traversals, animations and pairs start from.
        prior: Start from the mean of the prior, or from a draw of it, instead.
        seed: Of all that is drawn.
        columns: Images per row.
        count: How many reconstructions or samples.
        reach: How far a latent goes, in standard deviations of the prior.
        quantiles: Let it go from one quantile of its codes to another instead: 0.01 0.99.
        inactive: Draw latents that say nothing in grey, or hide them.
        latents: The two of a pair; by default those that say most.
        over: The two factors of position maps; by default the positions.
        by: Show activity for each value of a factor, or for so many groups of similar images.
        size: For your own images: the side to which they are resized, 32, 64 or 128.
        channels: For your own images: 1 makes all grey, 3 makes all coloured.
        factors: For your own images: a CSV file of what made them.
        overwrite: Replace the file if it is already there.
    """
    from unweave.cli.show import show_model

    loading = {"size": size, "channels": channels, "factors": factors, "path": path}
    options = {
        "index": index,
        "prior": prior,
        "seed": seed,
        "columns": columns,
        "count": count,
        "reach": reach,
        "quantiles": quantiles,
        "inactive": inactive,
        "latents": latents,
        "over": over,
        "by": by,
    }
    show_model(model, kind, out, data, overwrite, loading, options)


@app.command(name="report")
def report(
    source: Annotated[
        Positional[str],
        arg(metavar="RUNS_OR_STUDY", help="The folder of a study, or of trained models."),
    ],
    out: Annotated[Path, arg(aliases=["-o"], metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    data: Annotated[
        str | None,
        arg(metavar="SOURCE", help="Your own images, where they are; others are found again."),
    ] = None,
    title: str | None = None,
    rows: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    device: Literal["cpu", "cuda"] | None = None,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
) -> None:
    """Write one HTML file about trained models: what they found, how they score, which to keep.

    Example: unweave report sprites -o sprites.html

    Args:
        title: The heading; by default the name of the study or folder.
        rows: How many images models are compared on; by default 3000, fewer for many models.
        seed: Of the draw of these images.
        overwrite: Replace the file if it is already there.
        device: By default a GPU where there is one.
        size: For your own images: the side to which they are resized, 32, 64 or 128.
        channels: For your own images: 1 makes all grey, 3 makes all coloured.
        factors: For your own images: a CSV file of what made them.
    """
    from unweave.cli.report import write_report

    options = {"size": size, "channels": channels, "factors": factors, "path": path}
    write_report(
        source,
        out,
        data,
        options,
        title=title,
        rows=rows,
        seed=seed,
        overwrite=overwrite,
        device=device,
    )


@app.command(name="explore")
def explore(
    folder: Annotated[
        Positional[Path],
        arg(metavar="FOLDER", help="A saved run, a folder of runs, or a study."),
    ],
    data: Annotated[
        str | None,
        arg(metavar="SOURCE", help="By default what each model was trained on."),
    ] = None,
    port: int | None = None,
    open_browser: Annotated[bool, arg(name="open")] = True,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
) -> None:
    """Open a local page with a slider for every latent, decoding live; Ctrl-C ends it.

    Example: unweave explore runs

    Args:
        port: By default one that is free.
        open_browser: Open the page in a browser.
        size: For your own images: the side to which they are resized, 32, 64 or 128.
        channels: For your own images: 1 makes all grey, 3 makes all coloured.
        factors: For your own images: a CSV file of what made them.
    """
    from unweave.cli.explore import explore_folder

    options = {"size": size, "channels": channels, "factors": factors, "path": path}
    explore_folder(folder, data, port, open_browser, **options)
