"""Pictures and pages of models: show, report, explore."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from unweave.cli.app import app, quiet
from unweave.cli.options import CustomImages, Device, SavedImages


@quiet
@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """What a picture shows; each kind takes some of these."""

    index: int | None = None
    """Image that traversals, animations and pairs start from."""
    prior: Literal["mean", "draw"] | None = None
    """Start from the mean of the prior, or from a sample of it, instead."""
    seed: int | None = None
    """Random seed of everything that is drawn."""
    columns: int | None = None
    """Images per row."""
    count: int | None = None
    """Number of reconstructions or samples."""
    reach: float | None = None
    """Range of a traversal, in standard deviations of the prior."""
    quantiles: tuple[float, float] | None = None
    """Range of a traversal, as quantiles of the codes: 0.01 0.99."""
    inactive: Literal["grey", "hide"] | None = None
    """Draw inactive latents in grey, or hide them."""
    latents: tuple[int, int] | None = None
    """The two latents of a pair (default: the two most informative)."""
    over: tuple[str, str] | None = None
    """The two factors of position maps (default: the positions)."""
    by: int | str | None = None
    """Show activity by the values of a factor, or for this many groups of similar images."""


@app.add("show")
@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw a trained model: what its latents do, how it reconstructs images, how it was trained.

    Example: unweave show runs/0f3a… -o latents.gif --kind animation
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL", help="Folder of a saved run.")]
    kind: Annotated[
        str,
        arg(
            metavar="KIND",
            help="traversals, reconstructions, samples, animation, pairwise, position, polarised, "
            "members, activity, subspaces, exponents, stages, swaps, stage-traversals, kl or "
            "training.",
        ),
    ] = "traversals"
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FILE", help="Output file (default: KIND.png or KIND.gif)."),
    ] = None
    data: SavedImages = None
    options: Annotated[PictureOptions, arg(name="")] = field(default_factory=PictureOptions)
    overwrite: bool = False
    """Replace an existing file."""
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.cli.show import show_model

        show_model(self)


@app.add("report")
@dataclass(frozen=True, kw_only=True)
class Report:
    """Write one HTML file about trained models: what they found, their scores, which to keep.

    Example: unweave report sprites -o sprites.html
    """

    source: Annotated[
        Positional[str],
        arg(metavar="RUNS_OR_STUDY", help="Folder of a study, or of trained models."),
    ]
    out: Annotated[Path, arg(aliases=["-o"], metavar="FILE", help="Output file.")] = Path(
        "report.html"
    )
    data: SavedImages = None
    title: str | None = None
    """Heading (default: the name of the study or folder)."""
    rows: int | None = None
    """Number of images to compare models on (default: 3000, fewer for many models)."""
    seed: int = 0
    """Random seed of the choice of these images."""
    overwrite: bool = False
    """Replace an existing file."""
    device: Device = None
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.cli.report import write_report

        write_report(self)


@app.add("explore")
@dataclass(frozen=True, kw_only=True)
class Explore:
    """Open a local page with a slider for every latent, decoding live. Press Ctrl-C to stop.

    Example: unweave explore runs
    """

    folder: Annotated[
        Positional[Path],
        arg(metavar="FOLDER", help="A saved run, a folder of runs, or a study."),
    ]
    data: SavedImages = None
    port: int | None = None
    """Port (default: any free one)."""
    open_browser: Annotated[bool, arg(name="open")] = True
    """Open the page in a browser."""
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.cli.explore import explore_folder

        explore_folder(self)
