"""The papers: reproduce, manipulate, and small exact experiments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from tyro.conf import Positional, arg

from unweave.cli.app import app, theory_app
from unweave.cli.options import Device, MetricsOption

Scale: TypeAlias = Literal["smoke", "hour", "paper"]


@app.add("reproduce")
@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Reproduce a published table or figure: published and obtained, side by side.

    Example: unweave reproduce common-assumptions/variance-explained --scale smoke
    """

    name: Annotated[
        Positional[str | None],
        arg(metavar="NAME", help="A recipe or a paper; without it, all recipes are listed."),
    ] = None
    scale: Scale = "smoke"
    """smoke (minutes on a CPU), hour (one GPU-hour) or paper (as published)."""
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FOLDER", help="Folder (default: reproduce/PAPER-SCALE)."),
    ] = None
    on: str = "here"
    """here (this process); ray (a new local cluster); auto or ray://host:port (a cluster)."""
    plan: bool = False
    """Only print what it would take."""
    every: Annotated[bool, arg(name="all", help="All recipes of the paper NAME.")] = False
    yes: bool = False
    """Train on the CPU what is meant for a GPU."""

    def run(self) -> None:
        from unweave.cli.reproduce import reproduce

        reproduce(self)


@app.add("manipulate")
@dataclass(frozen=True, kw_only=True)
class Manipulate:
    """Learn a small change of images, by their factors, that makes variational methods entangle.

    With runs it is learned from these, as published; without, from the images alone, by rotating
    their directions of largest change. Safe to interrupt: run the same command again to resume.
    The result is a data set: unweave train dsprites-modified beta-vae --path FILE; its control
    with noise is dsprites-noise.

    Example: unweave manipulate dsprites --disentangled runs/0f3a… --entangled runs/77c1…
    """

    source: Annotated[
        Positional[str],
        arg(metavar="DATA", help="dsprites, rooms3d, shapes3d, or images with a grid of factors."),
    ]
    disentangled: Annotated[
        tuple[Path, ...],
        arg(metavar="RUN…", help="Saved runs on these images with disentangled codes."),
    ] = ()
    entangled: Annotated[
        tuple[Path, ...], arg(metavar="RUN…", help="Saved runs with entangled codes.")
    ] = ()
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FILE", help="Output file (.safetensors).")
    ] = Path("m.safetensors")
    epsilon: float | None = None
    """Largest change of a pixel, in [0, 1] (default: 0.1, for rooms 0.175)."""
    steps: int | None = None
    """Training steps (default: 30,000 with runs, 6,000 without)."""
    batch: int = 64
    """Batch size."""
    draws: int | None = None
    """Codes sampled per image (default: 5); with runs only."""
    seed: int = 0
    """Random seed of everything that is drawn."""
    picture: Annotated[
        Path | None,
        arg(metavar="FILE", help="Draw original images, changed ones, and the difference."),
    ] = None
    precision: Literal["float32", "tf32"] = "float32"
    """Precision of products on a GPU; tf32 is faster."""
    device: Device = None
    factors: Path | None = None
    """For custom images: CSV of known factors."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.manipulate import manipulate_images

        manipulate_images(self)


@theory_app.add("vi-bias")
@dataclass(frozen=True, kw_only=True)
class TheoryVIBias:
    """Show what variational inference prefers, in models small enough to solve.

    Example: unweave theory vi-bias ica --steps 2500 --animate
    """

    experiments: Annotated[
        Positional[tuple[str, ...]],
        arg(metavar="EXPERIMENT…", help="rotation, over-complete, beta or ica (default: all)."),
    ] = ()
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Folder for figures and tables.")
    ] = Path("vi-bias")
    betas: Annotated[
        tuple[float, ...] | None,
        arg(metavar="X…", help="β of beta (default: 1, 2, 5, 10) and of ica (1 and 5)."),
    ] = None
    steps: int | None = None
    """Training steps of ica (default: 1,000)."""
    seed: int = 0
    """Random seed of the data of ica."""
    ending: Literal["png", "svg"] = "png"
    """File format of the figures."""
    animate: bool = False
    """Also write ica.gif, where components move as they are learned."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.vi_bias import show_vi_bias

        show_vi_bias(self)


@theory_app.add("d-separation")
@dataclass(frozen=True, kw_only=True)
class TheoryDSeparation:
    """Show why a second stage that sees Y leaves C alone, in an example of six images.

    Example: unweave theory d-separation -o example
    """

    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Folder for the figure and the tables.")
    ] = Path("d-separation")
    ending: Literal["png", "svg"] = "png"
    """File format of the figure."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.theory import show_d_separation

        show_d_separation(self)


@theory_app.add("impossibility")
@dataclass(frozen=True, kw_only=True)
class TheoryImpossibility:
    """Entangle a code without changing its distribution: why data alone do not disentangle.

    Example: unweave theory impossibility --dimensions 5 --prior laplace
    """

    model: Annotated[
        Positional[Path | None],
        arg(metavar="[RUN]", help="Folder of a saved run, to score it and its entangled twin."),
    ] = None
    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Folder for figures and tables.")
    ] = Path("impossibility")
    dimensions: Annotated[int | None, arg(aliases=["-d"], metavar="N")] = None
    """Number of factors (default: 2)."""
    prior: Annotated[str | None, arg(metavar="NAME")] = None
    """Their distribution: uniform (default), normal, laplace, exponential or beta."""
    alpha: float | None = None
    """α of the proof, between 0 and 1/2 (default: 1/N, and 0.15 for two)."""
    cosine: bool = False
    """Mix by a cosine matrix instead of the proof's, which mixes many factors more."""
    data: Annotated[
        str | None, arg(metavar="SOURCE", help="Images (default: those of the run).")
    ] = None
    metrics: MetricsOption = ("classic",)
    seed: int = 0
    """Random seed of everything that is drawn."""
    ending: Literal["png", "svg"] = "png"
    """File format of the figures."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.theory import show_impossibility

        show_impossibility(self)


@theory_app.add("pca-alignment")
@dataclass(frozen=True, kw_only=True)
class TheoryPCAAlignment:
    """Show that linear VAEs find principal axes, and contrastive learning finds factors.

    Example: unweave theory pca-alignment -o linear
    """

    out: Annotated[
        Path, arg(aliases=["-o"], metavar="FOLDER", help="Folder for the figure and the tables.")
    ] = Path("pca-alignment")
    seeds: int = 3
    """Runs of each experiment."""
    moments: int = 40_000
    """Length of the time series."""
    ending: Literal["png", "svg"] = "png"
    """File format of the figure."""
    overwrite: bool = False
    """Replace existing files."""

    def run(self) -> None:
        from unweave.cli.pca_alignment import show_pca_alignment

        show_pca_alignment(self)
