"""The papers: reproduce, manipulate, and small exact experiments."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.apps import app, theory_app
from unweave.cli.options import MetricsOption
from unweave.errors import DataError, UnknownNameError


@app.command(name="reproduce")
def reproduce(
    name: Annotated[
        Positional[str | None],
        arg(metavar="NAME", help="A recipe or a paper; without it, all recipes are listed."),
    ] = None,
    scale: Literal["smoke", "hour", "paper"] = "smoke",
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FOLDER", help="By default reproduce/PAPER-SCALE."),
    ] = None,
    on: str = "here",
    plan: bool = False,
    every: Annotated[bool, arg(name="all", help="All recipes of the paper NAME.")] = False,
    yes: bool = False,
) -> None:
    """Reproduce a published table or figure: published and obtained, side by side.

    Example: unweave reproduce common-assumptions/variance-explained --scale smoke

    Args:
        scale: smoke (minutes on a CPU), hour (one GPU-hour) or paper (as published).
        on: here (this process); ray (one of its own); auto or ray://host:port (a cluster).
        plan: Only say what it would take.
        yes: Train what is meant for a GPU where there is none.
    """
    from unweave.cli.reproduce import list_recipes, reproduce_paper, reproduce_recipe
    from unweave.papers import PAPERS

    if every:
        if name not in PAPERS:
            raise UnknownNameError("paper", str(name), PAPERS)
        reproduce_paper(name, scale, out, on, plan, yes)
    elif name is None or name in PAPERS:
        list_recipes(name)
    else:
        reproduce_recipe(name, scale, out, on, plan, yes)


@theory_app.command(name="vi-bias")
def theory_vi_bias(
    experiments: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="EXPERIMENT…", help="rotation, over-complete, beta or ica; by default all."),
    ] = (),
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Where figures and tables go.")
    ] = Path("vi-bias"),
    betas: Annotated[
        tuple[float, ...] | None,
        arg(metavar="X…", help="Of beta (by default 1, 2, 5, 10) and of ica (1 and 5)."),
    ] = None,
    steps: int | None = None,
    seed: int = 0,
    ending: Literal["png", "svg"] = "png",
    animate: bool = False,
    overwrite: bool = False,
) -> None:
    """Show what variational inference prefers, in models small enough to solve.

    Example: unweave theory vi-bias ica --steps 2500 --animate

    Args:
        steps: Of ica; by default 1,000.
        seed: Of the data of ica.
        ending: Of the figures.
        animate: Write ica.gif too, where components move as they are learned.
        overwrite: Replace files that are already there.
    """
    from unweave.cli.vi_bias import show_vi_bias

    show_vi_bias(experiments, out, betas, steps, seed, ending, animate, overwrite)


@theory_app.command(name="d-separation")
def theory_d_separation(
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Where the figure and the tables go.")
    ] = Path("d-separation"),
    ending: Literal["png", "svg"] = "png",
    overwrite: bool = False,
) -> None:
    """Show why a second stage that sees Y leaves C alone, in an example of six images.

    Example: unweave theory d-separation -o example

    Args:
        ending: Of the figure.
        overwrite: Replace files that are already there.
    """
    from unweave.cli.theory import show_d_separation

    show_d_separation(out, ending, overwrite)


@app.command(name="manipulate")
def manipulate(
    source: Annotated[
        Positional[str],
        arg(metavar="DATA", help="dsprites, rooms3d, shapes3d, or images with a grid of factors."),
    ],
    disentangled: Annotated[
        tuple[Path, ...],
        arg(metavar="RUN…", help="Saved runs on these images whose codes are disentangled."),
    ] = (),
    entangled: Annotated[
        tuple[Path, ...], arg(metavar="RUN…", help="The same of runs whose codes are entangled.")
    ] = (),
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="The .safetensors file to write.")
    ] = Path("m.safetensors"),
    epsilon: float | None = None,
    steps: int | None = None,
    batch: int = 64,
    draws: int | None = None,
    seed: int = 0,
    picture: Annotated[
        Path | None,
        arg(metavar="FILE", help="Draw images, what became of them, and the difference."),
    ] = None,
    precision: Literal["float32", "tf32"] = "float32",
    device: Literal["cpu", "cuda"] | None = None,
    factors: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Learn a small change of images, by their factors, that makes variational methods entangle.

    With runs it is learned from these, as published; without, from the images alone, whose
    directions of largest change it turns. Stopped or killed, the same command goes on. The result
    is a data set: unweave train dsprites-modified beta-vae --path FILE; its control with noise is
    dsprites-noise.

    Example: unweave manipulate dsprites --disentangled runs/0f3a… --entangled runs/77c1…

    Args:
        epsilon: How far a pixel moves, at most, in [0, 1]; by default 0.1, for rooms 0.175.
        steps: How often the change is improved; by default 30,000 with runs, 6,000 without.
        batch: Images per step.
        draws: Codes drawn per image, by default 5; with runs only.
        seed: Of all that is drawn.
        precision: Of products on a GPU, where tf32 is faster.
        device: By default a GPU where there is one.
        factors: For your own images: a CSV file of what made them.
        overwrite: Replace files that are already there.
    """
    from unweave.cli.manipulate import manipulate_images

    manipulate_images(
        source,
        disentangled,
        entangled,
        out,
        picture,
        overwrite,
        loading={} if factors is None else {"factors": factors},
        settings={
            "epsilon": epsilon,
            "batch": batch,
            "seed": seed,
            "precision": precision,
            "device": device,
            **({} if steps is None else {"steps": steps}),
            **({} if draws is None else {"draws": draws}),
        },
    )


@theory_app.command(name="impossibility")
def theory_impossibility(
    model: Annotated[
        Positional[Path | None],
        arg(metavar="[RUN]", help="The folder of a saved run, to score it and its twin."),
    ] = None,
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Where figures and tables go.")
    ] = Path("impossibility"),
    dimensions: Annotated[int | None, arg(aliases=["-d"], metavar="N")] = None,
    prior: Annotated[str | None, arg(metavar="NAME")] = None,
    alpha: float | None = None,
    cosine: bool = False,
    data: Annotated[
        str | None, arg(metavar="SOURCE", help="Of a run; by default what it was trained on.")
    ] = None,
    metrics: MetricsOption = ("classic",),
    seed: int = 0,
    ending: Literal["png", "svg"] = "png",
    overwrite: bool = False,
) -> None:
    """Entangle a code without changing its law: why data alone do not disentangle.

    Example: unweave theory impossibility --dimensions 5 --prior laplace

    Args:
        dimensions: How many factors; by default 2.
        prior: Their law: uniform (by default), normal, laplace, exponential or beta.
        alpha: Of the proof, between 0 and 1/2; by default 1/N, and 0.15 for two.
        cosine: Mix by a cosine matrix in place of the proof's, which mixes many factors more.
        seed: Of all that is drawn.
        ending: Of the figures.
        overwrite: Replace files that are already there.
    """
    from unweave.cli.theory import show_impossibility, show_twin

    if model is not None:
        if dimensions is not None or prior is not None:
            raise DataError(
                "a model has its own latents and a normal prior; leave out --dimensions, --prior"
            )
        show_twin(model, data, out, alpha, cosine, metrics, seed, ending, overwrite)
        return
    if data is not None:
        raise DataError("--data is for a saved run; name the folder of one")
    size, law = 2 if dimensions is None else dimensions, prior or "uniform"
    show_impossibility(out, size, law, alpha, cosine, metrics, seed, ending, overwrite)


@theory_app.command(name="pca-alignment")
def theory_pca_alignment(
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Where the figure and the tables go.")
    ] = Path("pca-alignment"),
    seeds: int = 3,
    moments: int = 40_000,
    ending: Literal["png", "svg"] = "png",
    overwrite: bool = False,
) -> None:
    """Show that linear VAEs find principal axes, and contrastive learning factors.

    Example: unweave theory pca-alignment -o linear

    Args:
        seeds: Runs of each experiment.
        moments: Of the sources in time.
        ending: Of the figure.
        overwrite: Replace files that are already there.
    """
    from unweave.cli.pca_alignment import show_pca_alignment

    show_pca_alignment(out, seeds, moments, ending, overwrite)
