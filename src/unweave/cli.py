"""The command line: thin, each command a few lines over the rooms."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg
from tyro.extras import SubcommandApp

from unweave.errors import DataError, InterruptedTrainingError, UnweaveError

__all__ = ["main"]

DESCRIPTION = """Fleets of disentangling generative models: train, score, select, show.

Start with: unweave fit ./images, or unweave data list"""

Source = Annotated[
    Positional[str],
    arg(
        metavar="SOURCE",
        help="A name from `unweave data list`, a folder of images, or a .npy, .npz or .h5 file.",
    ),
]
PathOption = Annotated[
    Path | None,
    arg(metavar="FILE", help="The published file or folder, where you already have it."),
]
PictureOption = Annotated[
    Path | None,
    arg(metavar="FILE", help="For scream-dsprites: a picture in place of the painting."),
]
OutOption = Annotated[
    Path | None,
    arg(aliases=["-o"], metavar="FILE", help="The file to write; NAME.png or .npz here."),
]
MetricsOption = Annotated[
    tuple[str, ...],
    arg(metavar="NAME…", help="classic, all (but fid), or names such as mig and factor-vae."),
]
ScoresOption = Annotated[
    Path | None,
    arg(aliases=["-o"], metavar="FILE", help="Write all numbers into a .csv or .parquet file."),
]

FleetSize = Annotated[
    int | None, arg(metavar="N", help="How many models to train at once; measured by default.")
]

app = SubcommandApp()
data_app = SubcommandApp()
app.command(data_app, name="data", help="The data sets: list, prepare, show, export.")
study_app = SubcommandApp()
app.command(study_app, name="study", help="Grids of runs: plan, run, status, table, check.")
theory_app = SubcommandApp()
app.command(
    theory_app,
    name="theory",
    help="Small exact experiments: vi-bias, d-separation, impossibility, pca-alignment.",
)


@data_app.command(name="list")
def data_list() -> None:
    """List the data sets: what they are, where they come from, whether they are ready.

    Example: unweave data list
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from unweave.data import DATASETS

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "images", "pixels", "factors", "on disk", "where from", "ready"):
        table.add_column(heading, justify="right" if heading in ("images", "on disk") else "left")
    for name, entry in DATASETS.items():
        table.add_row(
            name.replace("_", "-"),
            f"{len(entry):,}",
            " × ".join(map(str, entry.shape)),
            ", ".join(f"{factor} {size}" for factor, size in entry.factors.items()) or "–",
            f"{entry.disk / 1e6:,.0f} MB" if entry.disk else "–",
            entry.source,
            "yes" if entry.ready else "no",
        )
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(table)
    print("Your own images: give a folder, or a .npy, .npz or .h5 file, in place of a name.")


@data_app.command(name="prepare")
def data_prepare(source: Source, path: PathOption = None, picture: PictureOption = None) -> None:
    """Render or download a data set into the cache, so that it loads at once from then on.

    Example: unweave data prepare dsprites
    """
    print(_load(source, path=path, picture=picture))


@data_app.command(name="show")
def data_show(
    source: Source,
    out: OutOption = None,
    columns: int = 10,
    seed: int = 0,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
    picture: PictureOption = None,
    overwrite: bool = False,
) -> None:
    """Draw a contact sheet: one row per factor, or random images where factors are unknown.

    Example: unweave data show dsprites -o dsprites.png

    Args:
        columns: Images per row.
        seed: For what is random in the images.
        size: For your own images: the side to which they are resized, 32, 64 or 128.
        channels: For your own images: 1 makes all grey, 3 makes all coloured.
        factors: For your own images: a CSV file of what made them.
        overwrite: Replace the file if it is already there.
    """
    from unweave.show import contact_sheet

    if columns < 1:
        raise DataError(f"a row needs at least one image, but got --columns {columns}")
    own = {"size": size, "channels": channels, "factors": factors}
    data = _load(source, path=path, picture=picture, **own)
    out = _free(out or Path(f"{data.name}.png"), overwrite)
    contact_sheet(data, columns, seed).save(out)
    print(data)
    print(f"Contact sheet: {out}")


@data_app.command(name="export")
def data_export(
    source: Source,
    out: OutOption = None,
    seed: int = 0,
    path: PathOption = None,
    picture: PictureOption = None,
    overwrite: bool = False,
) -> None:
    """Write a data set into one .npz or .h5 file that other libraries read.

    Example: unweave data export dsprites -o dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz

    Args:
        seed: For what is random in the images.
        overwrite: Replace the file if it is already there.
    """
    from unweave.data.export import export

    data = _load(source, path=path, picture=picture)
    written = export(data, out or Path(f"{data.name}.npz"), seed, overwrite)
    print(f"{len(data):,} images: {written} ({written.stat().st_size / 1e6:,.0f} MB)")


def _load(source: str, **options: object) -> Any:
    from unweave.data import load

    return load(source, **{name: value for name, value in options.items() if value is not None})


def _free(path: Path, overwrite: bool) -> Path:
    if path.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise DataError(f"a picture is a .png, .jpg or .webp file, but got {path.name!r}")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise DataError(
            f"{path} is already there; choose another name with -o, or add --overwrite"
        )
    return path


@app.command(name="fit")
def fit(
    source: Source,
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FOLDER", help="Where all goes; by default NAME-fit here."),
    ] = None,
    method: str = "beta-vae",
    strengths: Annotated[
        tuple[float, ...] | None,
        arg(
            metavar="X…",
            help="By default 1 and 4, on a GPU 1, 2, 4, 8 and 16; other methods have one.",
        ),
    ] = None,
    seeds: int | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    latents: int | None = None,
    batch: int | None = None,
    likelihood: Literal["bernoulli", "gaussian"] | None = None,
    lr: float | None = None,
    device: Literal["cpu", "cuda"] | None = None,
    fleet_size: FleetSize = None,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
    picture: PictureOption = None,
) -> None:
    """Train a fleet on your images, choose a model without labels, show what its latents do.

    Stopped or killed, the same command goes on.

    Example: unweave fit ./images

    Args:
        method: One with a strength: beta-vae, beta-tc-vae, factor-vae, ….
        seeds: How many models of each strength; by default 4, on a GPU 10.
        steps: Updates of the parameters; by default as many as fit into --minutes.
        minutes: That training may take, about; by default 8.
        latents: Size of the code; by default 10.
        batch: Images per step; by default 64.
        likelihood: How images are compared; by default bernoulli.
        lr: Learning rate of Adam; by default 0.001.
        device: By default a GPU where there is one.
        size: The side to which your own images are resized: 32, 64 (the default) or 128.
        channels: 1 makes all images grey, 3 makes all coloured.
        factors: A CSV file of what made the images, to name latents by.
    """
    from unweave.cli_fit import fit_images

    fit_images(
        source,
        out,
        method=method,
        strengths=strengths,
        lr=lr,
        loading={
            "size": size,
            "channels": channels,
            "factors": factors,
            "path": path,
            "picture": picture,
        },
        settings={
            "seeds": seeds,
            "steps": steps,
            "minutes": minutes,
            "latents": latents,
            "batch": batch,
            "likelihood": likelihood,
            "device": device,
            "fleet_size": fleet_size,
        },
    )


@app.command(name="train")
def train(
    source: Source,
    method: Annotated[Positional[str], arg(metavar="METHOD", help="For example beta-vae.")],
) -> None:
    """Train a fleet: every value of the method's flags, with every seed, side by side.

    Methods: vae, beta-vae, annealed-vae, factor-vae, beta-tc-vae, dip-vae-i, dip-vae-ii, ae,
        ada-gvae, ada-ml-vae, vae-ensemble.
    Their flags: unweave train dsprites beta-vae --help

    Example: unweave train dsprites beta-vae --beta 1 4 16 --seeds 10 --steps 20000 --out runs
    """
    _train([source, method])


def _train(args: list[str]) -> None:
    from unweave.cli_train import run

    run(args)


@app.command(name="evaluate")
def evaluate(
    runs: Annotated[
        Positional[tuple[Path, ...]],
        arg(metavar="RUN…", help="Folders of saved runs, or folders of such folders."),
    ],
    metrics: MetricsOption = ("classic",),
    data: Annotated[
        str | None,
        arg(metavar="SOURCE", help="By default what each model was trained on."),
    ] = None,
    seed: int = 0,
    sampled: bool = False,
    again: bool = False,
    out: ScoresOption = None,
    overwrite: bool = False,
    device: Literal["cpu", "cuda"] | None = None,
    size: int | None = None,
    channels: int | None = None,
    factors: Path | None = None,
    path: PathOption = None,
) -> None:
    """Score trained models: a row for each; scores are kept beside the runs.

    Example: unweave evaluate runs --metrics classic irs --out scores.csv

    Args:
        seed: Of all that is drawn.
        sampled: Score codes drawn from the posteriors instead of their means.
        again: Compute also what is kept beside the runs.
        overwrite: Replace the file if it is already there.
        device: By default a GPU where there is one.
        size: For your own images: the side to which they are resized, 32, 64 or 128.
        channels: For your own images: 1 makes all grey, 3 makes all coloured.
        factors: For your own images: a CSV file of what made them.
    """
    from unweave.cli_score import evaluate_runs

    options = {"size": size, "channels": channels, "factors": factors, "path": path}
    evaluate_runs(
        runs,
        data,
        out,
        overwrite,
        metrics=metrics,
        seed=seed,
        sampled=sampled,
        again=again,
        device=device,
        **options,
    )


@app.command(name="score")
def score(
    codes: Annotated[
        Positional[Path],
        arg(metavar="CODES", help="A .npy, .npz, .csv or .parquet file, a row per image."),
    ],
    factors: Annotated[
        Positional[Path | None],
        arg(metavar="FACTORS", help="The same of what made the images; words are classes."),
    ] = None,
    metrics: MetricsOption = ("classic",),
    seed: int = 0,
    out: ScoresOption = None,
    matrices: Annotated[
        Path | None,
        arg(metavar="FILE", help="Draw what codes know of factors: a .png or .svg file."),
    ] = None,
    overwrite: bool = False,
) -> None:
    """Score codes of any origin, from files.

    Example: unweave score codes.npy factors.npy --metrics mig dci --matrices matrices.png

    Args:
        seed: Of all that is drawn.
        overwrite: Replace files that are already there.
    """
    from unweave.cli_score import score_files

    score_files(codes, factors, metrics, seed, out, matrices, overwrite)


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
    from unweave.cli_show import show_model

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


SavedModel = Annotated[
    Positional[Path],
    arg(metavar="MODEL", help="The folder of a saved model, or one with best/ in it."),
]


@app.command(name="encode")
def encode(
    model: SavedModel,
    source: Source,
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="A .csv, .parquet or .npy file to write.")
    ] = Path("codes.csv"),
    member: Annotated[
        int | Literal["mean"],
        arg(
            metavar="N|mean",
            help="Of an ensemble: which member encodes, or the mean of all, brought into the "
            "order of the first; how far they agree is then said, and written beside the codes.",
        ),
    ] = 0,
    logvar: bool = False,
    spread: bool = False,
    seed: int = 0,
    device: Literal["cpu", "cuda"] | None = None,
    path: PathOption = None,
    overwrite: bool = False,
) -> None:
    """Encode images with a trained model: a row for each, with its file's name and its codes.

    Your own images are resized, and made grey or coloured, as the model needs them.

    Example: unweave encode fit/best ./images -o codes.csv

    Args:
        logvar: Add the log-variances of the codes.
        spread: Add how far the codes of members lie apart; with --member mean.
        seed: For what is random in the images.
        device: By default a GPU where there is one.
        overwrite: Replace the file if it is already there.
    """
    from unweave.cli_encode import encode_images

    encode_images(
        model,
        source,
        out,
        overwrite,
        member=member,
        logvar=logvar,
        spread=spread,
        seed=seed,
        device=device,
        path=path,
    )


@app.command(name="export")
def export(
    model: SavedModel,
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Where the files go; made if need be.")
    ] = Path("onnx"),
    overwrite: bool = False,
) -> None:
    """Write encoder and decoder as ONNX files, for other languages; checked against the model.

    Example: unweave export fit/best -o onnx

    Args:
        overwrite: Replace such files if they are already there.
    """
    from unweave.cli_encode import export_model

    export_model(model, out, overwrite)


StudyFile = Annotated[
    Positional[Path], arg(metavar="FILE", help="A study: a .yaml, .json or .py file.")
]
StudyFolder = Annotated[Positional[str], arg(metavar="FOLDER", help="Where a study is kept.")]
StudyOut = Annotated[
    str | None,
    arg(
        aliases=["-o"],
        metavar="FOLDER",
        help="Where it is kept, a folder or a URL; by default under its name.",
    ),
]


@study_app.command(name="plan")
def study_plan(
    file: StudyFile,
    out: StudyOut = None,
    device: Literal["cpu", "cuda"] | None = None,
    fleet_size: FleetSize = None,
) -> None:
    """Say what a study would take: fleets, models, hours and disk; nothing is trained.

    Example: unweave study plan sprites.yaml

    Args:
        device: By default a GPU where there is one.
    """
    from unweave.cli_study import show_plan

    show_plan(file, out, device, fleet_size)


@study_app.command(name="run")
def study_run(
    file: StudyFile,
    out: StudyOut = None,
    on: str = "here",
    device: Literal["cpu", "cuda"] | None = None,
    fleet_size: FleetSize = None,
    scorers: int | None = None,
) -> None:
    """Train and score what is not done yet; stopped or killed, the same command goes on.

    Example: unweave study run sprites.yaml --out sprites

    Args:
        on: here (this process); ray (one of its own); auto or ray://host:port (a cluster).
        device: By default a GPU where there is one.
        scorers: How many processes compute scores; by default by the number of cores.
    """
    from unweave.cli_study import run_study

    run_study(file, out, on, device=device, fleet_size=fleet_size, scorers=scorers)


@study_app.command(name="status")
def study_status(folder: StudyFolder, watch: bool = False) -> None:
    """Say how far a study is, who works on it, and what went wrong.

    Example: unweave study status sprites --watch

    Args:
        watch: Stay, and say it anew every two seconds.
    """
    from unweave.cli_study import show_status

    show_status(folder, watch)


@study_app.command(name="table")
def study_table(folder: StudyFolder, out: ScoresOption = None, overwrite: bool = False) -> None:
    """Write the table of a study, one row per model, and say where it is.

    Example: unweave study table sprites -o sprites.csv

    Args:
        overwrite: Replace the file if it is already there.
    """
    from unweave.cli_study import write_study_table

    write_study_table(folder, out, overwrite)


@study_app.command(name="check")
def study_check(folder: StudyFolder, repair: bool = False) -> None:
    """Verify the checksums of all runs; with --repair, make the ledger again from the folders.

    Example: unweave study check sprites --repair

    Args:
        repair: Put damaged runs aside, to be trained again, and write the ledger anew.
    """
    from unweave.cli_study import check_study

    check_study(folder, repair)


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
    from unweave.cli_report import write_report

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
    from unweave.cli_explore import explore_folder

    options = {"size": size, "channels": channels, "factors": factors, "path": path}
    explore_folder(folder, data, port, open_browser, **options)


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
    from unweave.cli_reproduce import list_recipes, reproduce_recipe
    from unweave.recipes import PAPERS

    if name is None or name in PAPERS:
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
    from unweave.cli_theory import show_vi_bias

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
    from unweave.cli_theory import show_d_separation

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
    ],
    entangled: Annotated[
        tuple[Path, ...], arg(metavar="RUN…", help="The same of runs whose codes are entangled.")
    ],
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="The .safetensors file to write.")
    ] = Path("m.safetensors"),
    epsilon: float | None = None,
    steps: int = 30_000,
    batch: int = 64,
    draws: int = 5,
    seed: int = 0,
    picture: Annotated[
        Path | None,
        arg(metavar="FILE", help="Draw images, what became of them, and the difference."),
    ] = None,
    device: Literal["cpu", "cuda"] | None = None,
    factors: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Learn a small change of images, by their factors, that makes variational methods entangle.

    Stopped or killed, the same command goes on. The result is a data set: unweave train
    dsprites-modified beta-vae --path FILE; its control with noise is dsprites-noise.

    Example: unweave manipulate dsprites --disentangled runs/0f3a… --entangled runs/77c1…

    Args:
        epsilon: How far a pixel moves, at most, in [0, 1]; by default 0.1, for rooms 0.175.
        steps: How often the change is improved; decoders are three times as often.
        batch: Images per step.
        draws: Codes drawn per image.
        seed: Of all that is drawn.
        device: By default a GPU where there is one.
        factors: For your own images: a CSV file of what made them.
        overwrite: Replace files that are already there.
    """
    from unweave.cli_manipulate import manipulate_images

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
            "steps": steps,
            "batch": batch,
            "draws": draws,
            "seed": seed,
            "device": device,
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
    from unweave.cli_theory import show_impossibility, show_twin

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
    from unweave.cli_pca_alignment import show_pca_alignment

    show_pca_alignment(out, seeds, moments, ending, overwrite)


def main(args: list[str] | None = None) -> None:
    """Run the command line; errors that a user can put right are one sentence and exit code 2."""
    words = sys.argv[1:] if args is None else args
    try:
        # The flags of `train` depend on the method, so once that is named they are read elsewhere.
        if words[:1] == ["train"] and len(words) > 2:
            if words[1].startswith("-") or words[2].startswith("-"):
                raise DataError(
                    "say first what to train on and how: unweave train SOURCE METHOD …"
                )
            _train(words[1:])
        else:
            app.cli(prog="unweave", description=DESCRIPTION, args=words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read, as `head` does, has read enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnweaveError as error:
        print(f"unweave: {error}", file=sys.stderr)
        sys.exit(130 if isinstance(error, InterruptedTrainingError) else 2)
    except KeyboardInterrupt:
        print("unweave: stopped; nothing is half-written", file=sys.stderr)
        sys.exit(130)
