"""Models: fit, train, evaluate, score, encode, export."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.app import app
from unweave.cli.options import (
    CustomImages,
    Device,
    EveryImage,
    FleetSize,
    MetricsOption,
    PublishedFile,
    SavedImages,
    SavedModel,
    ScoresOption,
    Source,
)


@app.add("fit")
@dataclass(frozen=True, kw_only=True)
class Fit:
    """Train a fleet on your images, choose a model without labels, show what its latents do.

    Safe to interrupt: run the same command again to resume.

    Example: unweave fit ./images
    """

    source: Source
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FOLDER", help="Output folder (default: NAME-fit)."),
    ] = None
    method: str = "beta-vae"
    """A method with a regularisation strength: beta-vae, beta-tc-vae, factor-vae, …."""
    strengths: Annotated[
        tuple[float, ...] | None,
        arg(
            metavar="X…",
            help="Regularisation strengths to try (default: 1 and 4 on CPU, 1 to 16 on GPU; for "
            "other methods their usual one).",
        ),
    ] = None
    seeds: int | None = None
    """Random seeds for each strength (default: 4 on CPU, 10 on GPU)."""
    steps: int | None = None
    """Training steps (default: as many as fit into --minutes)."""
    minutes: float | None = None
    """Time budget for training, in minutes (default: 8)."""
    latents: int | None = None
    """Number of latent dimensions (default: 10)."""
    batch: int | None = None
    """Batch size (default: 64)."""
    likelihood: Literal["bernoulli", "gaussian"] | None = None
    """Reconstruction likelihood (default: bernoulli)."""
    learning_rate: Annotated[float | None, arg(aliases=["--lr"])] = None
    """Learning rate of Adam (default: 0.001)."""
    device: Device = None
    fleet_size: FleetSize = None
    images: Annotated[EveryImage, arg(name="")] = field(default_factory=EveryImage)

    def run(self) -> None:
        from unweave.cli.fit import fit_images

        fit_images(self)


@app.add("train")
@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a fleet: every value of the method's flags, with every seed, side by side.

    Methods: vae, beta-vae, annealed-vae, factor-vae, beta-tc-vae, dip-vae-i, dip-vae-ii, ae,
    ada-gvae, ada-ml-vae, vae-ensemble, isa-vae, isa-tc-vae, slow-vae, pcl; second stages over
    trained models: ms-vae, jacobian, ms-gan, cgan; without an encoder: infogan, from-factors.

    Flags of a method: unweave train dsprites beta-vae --help

    Example: unweave train dsprites beta-vae --beta 1 4 16 --seeds 10 --steps 20000 --out runs
    """

    source: Source
    method: Annotated[Positional[str], arg(metavar="METHOD", help="For example beta-vae.")]

    def run(self) -> None:
        from unweave.cli.train import train_method

        train_method([self.source, self.method])


@app.add("evaluate")
@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Score trained models, one row each. Scores are cached beside the runs.

    Example: unweave evaluate runs --metrics classic irs --out scores.csv
    """

    runs: Annotated[
        Positional[tuple[Path, ...]],
        arg(metavar="RUN…", help="Folders of saved runs, or folders of such folders."),
    ]
    metrics: MetricsOption = ("classic",)
    data: SavedImages = None
    seed: int = 0
    """Random seed of everything that is drawn."""
    sampled: bool = False
    """Score codes sampled from the posteriors instead of their means."""
    again: bool = False
    """Recompute scores that are cached."""
    out: ScoresOption = None
    overwrite: bool = False
    """Replace an existing file."""
    device: Device = None
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.cli.score import evaluate_runs

        evaluate_runs(self)


@app.add("score")
@dataclass(frozen=True, kw_only=True)
class Score:
    """Score codes of any origin, from files.

    Example: unweave score codes.npy factors.npy --metrics mig dci --matrices matrices.png
    """

    codes: Annotated[
        Positional[Path],
        arg(metavar="CODES", help="A .npy, .npz, .csv or .parquet file, one row per image."),
    ]
    factors: Annotated[
        Positional[Path | None],
        arg(metavar="FACTORS", help="Ground-truth factors in the same order; words are classes."),
    ] = None
    metrics: MetricsOption = ("classic",)
    seed: int = 0
    """Random seed of everything that is drawn."""
    out: ScoresOption = None
    matrices: Annotated[
        Path | None,
        arg(metavar="FILE", help="Draw the matrices of codes × factors: a .png or .svg file."),
    ] = None
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.score import score_files

        score_files(self)


@app.add("encode")
@dataclass(frozen=True, kw_only=True)
class Encode:
    """Encode images with a trained model: one row per image, with its file name and its code.

    Custom images are resized and converted to grey or colour as the model needs them.

    Example: unweave encode fit/best ./images -o codes.csv
    """

    model: SavedModel
    source: Source
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="Output file: .csv, .parquet or .npy.")
    ] = Path("codes.csv")
    member: Annotated[
        int | Literal["mean"],
        arg(
            metavar="N|mean",
            help="For an ensemble: the member that encodes, or the mean over all members, aligned "
            "with the first; their agreement is then printed and written beside the codes.",
        ),
    ] = 0
    logvar: bool = False
    """Add the log-variances of the codes."""
    spread: bool = False
    """Add the standard deviation of codes over members; with --member mean."""
    seed: int = 0
    """Random seed of images that are random."""
    device: Device = None
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[PublishedFile, arg(name="")] = field(default_factory=PublishedFile)

    def run(self) -> None:
        from unweave.cli.encode import encode_images

        encode_images(self)


@app.add("export")
@dataclass(frozen=True, kw_only=True)
class Export:
    """Write encoder and decoder as ONNX files for other languages, verified against the model.

    Example: unweave export fit/best -o onnx
    """

    model: SavedModel
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Output folder, created if missing.")
    ] = Path("onnx")
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.encode import export_model

        export_model(self)
