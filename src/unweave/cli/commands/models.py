"""Models: fit, train, evaluate, score, encode, export."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.apps import app
from unweave.cli.options import (
    FleetSize,
    MetricsOption,
    PathOption,
    PictureOption,
    SavedModel,
    ScoresOption,
    Source,
)


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
            help="By default 1 and 4, on a GPU 1 to 16; of other methods the usual one.",
        ),
    ] = None,
    seeds: int | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    latents: int | None = None,
    batch: int | None = None,
    likelihood: Literal["bernoulli", "gaussian"] | None = None,
    lr: Annotated[float | None, arg(name="learning-rate", aliases=["--lr"])] = None,
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
    from unweave.cli.fit import fit_images

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
    ada-gvae, ada-ml-vae, vae-ensemble, isa-vae, isa-tc-vae, slow-vae, pcl; over models that
    are trained already: ms-vae, jacobian, ms-gan, cgan; without an encoder: infogan,
    from-factors.

    Their flags: unweave train dsprites beta-vae --help

    Example: unweave train dsprites beta-vae --beta 1 4 16 --seeds 10 --steps 20000 --out runs
    """
    from unweave.cli.train import run

    run([source, method])


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
    from unweave.cli.score import evaluate_runs

    loading = {"size": size, "channels": channels, "factors": factors, "path": path}
    evaluate_runs(
        runs,
        data,
        out,
        overwrite,
        loading,
        metrics=metrics,
        seed=seed,
        sampled=sampled,
        again=again,
        device=device,
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
    from unweave.cli.score import score_files

    score_files(codes, factors, metrics, seed, out, matrices, overwrite)


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
    from unweave.cli.encode import encode_images

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
    from unweave.cli.encode import export_model

    export_model(model, out, overwrite)
