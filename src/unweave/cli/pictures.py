"""The commands `unweave show`, `report` and `explore`: figures and pages about models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

import unweave as uw
from unweave.cli.app import app, hide_none_defaults
from unweave.cli.options import CustomImages, Device, SavedImages, given
from unweave.errors import DataError, UnknownNameError, UnweaveError
from unweave.io.paths import check_out, path_errors
from unweave.progress import print_output

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

PICTURES, FIGURES, ANIMATIONS = "PICTURES", "FIGURES", "ANIMATIONS"
"""Names of lists of file extensions in `plots.saving`, which is slow to import."""
TRAVERSAL = ("index", "prior", "seed", "reach", "quantiles")


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    Args:
        function: Name of the function in `uw.show`.
        endings: Name of the list of supported file extensions, default first.
        options: Flags that apply to it.
        data: Whether it shows images, which must then be loaded.
        several: Whether it can show several models at once.
        names: Whether it shows the names of latents.
    """

    function: str
    endings: str
    options: tuple[str, ...]
    data: bool = True
    several: bool = False
    names: bool = False


KINDS: Mapping[str, Kind] = {
    "traversals": Kind("traversals", PICTURES, (*TRAVERSAL, "columns", "inactive"), names=True),
    "reconstructions": Kind("reconstructions", PICTURES, ("count", "columns", "seed")),
    "samples": Kind("samples", PICTURES, ("count", "columns", "seed"), data=False),
    "animation": Kind("animate", ANIMATIONS, (*TRAVERSAL, "inactive"), names=True),
    "pairwise": Kind("pairwise", PICTURES, (*TRAVERSAL, "latents", "columns")),
    "position": Kind("position_maps", FIGURES, ("axes", "inactive", "seed")),
    "members": Kind("members", PICTURES, (*TRAVERSAL, "columns", "inactive")),
    "activity": Kind("activity", FIGURES, ("by", "seed")),
    "polarised": Kind("polarised", FIGURES, ("seed",)),
    "subspaces": Kind("subspaces", FIGURES, ("seed",)),
    "exponents": Kind("exponents", FIGURES, (), data=False, several=True),
    "stages": Kind("stages", PICTURES, ("count", "seed")),
    "swaps": Kind("swaps", PICTURES, ("count", "seed")),
    "stage-traversals": Kind(
        "stage_traversals", PICTURES, ("index", "columns", "reach", "count", "seed")
    ),
    "kl": Kind("kl_over_training", FIGURES, (), data=False),
    "training": Kind("training", FIGURES, (), data=False, several=True),
}
ARGUMENTS = {"axes": "factors"}
"""Flags whose Python argument has another name."""


@hide_none_defaults
@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Options of figures; each kind supports some of them."""

    index: int | None = None
    """Index of the image to start from (default: middle of the grid, or the first image)."""
    prior: Literal["mean", "draw"] | None = None
    """Start from the mean of the prior or a sample from it (default: start from an image)."""
    seed: int | None = None
    """Random seed (default: 0)."""
    columns: int | None = None
    """Number of images per row (default: 9 for traversals and pairs, otherwise 10)."""
    count: int | None = None
    """Number of images to show (default: 10 reconstructions, 40 samples, 8 stages, 5 swaps)."""
    reach: float | None = None
    """Range of a traversal, in standard deviations of the prior (default: 2.5)."""
    quantiles: tuple[float, float] | None = None
    """Range of a traversal as quantiles of the codes, such as 0.01 0.99 (default: --reach)."""
    inactive: Literal["grey", "hide"] | None = None
    """Display of inactive latents (default: hide in animations and maps, otherwise grey)."""
    latents: tuple[int, int] | None = None
    """Two latents for --kind pairwise (default: the two most informative)."""
    axes: tuple[str, str] | None = None
    """Two factors for --kind position (default: the positions)."""
    by: int | str | None = None
    """Factor or number of image clusters to group --kind activity by (default: no groups)."""


@app.add("show")
@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw a figure of a trained model: its latents, its reconstructions or its training.

    Example: unweave show zoo:rooms3d -o latents.gif --kind animation
    """

    model: Annotated[
        Positional[Path], arg(metavar="MODEL", help="Folder of a saved model, or zoo:NAME.")
    ]
    kind: Annotated[
        str,
        arg(
            metavar="KIND",
            help="Kind of figure: traversals, reconstructions, samples, animation, pairwise, "
            "position, polarised, members, activity, subspaces, exponents, stages, swaps, "
            "stage-traversals, kl or training.",
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
        from unweave.io.arguments import check_seed
        from unweave.models.finding import one_run
        from unweave.plots import saving

        if self.kind not in KINDS:
            raise UnknownNameError("kind of figure", self.kind, KINDS)
        chosen = KINDS[self.kind]
        options = given(self.options)
        for name in options:
            if name not in chosen.options:
                raise DataError(f"--{name} does not apply to --kind {self.kind}; leave it out")
        if "seed" in options:
            check_seed(options["seed"])
        endings = getattr(saving, chosen.endings)
        out = self.out or Path(self.kind + endings[0])
        check_out(out, endings, self.overwrite)
        run = None if chosen.several else one_run(self.model)
        subject: list[Any] = [self.model] if run is None else [run.model]
        if chosen.data:
            subject.append(self._data(subject[0]))
        elif self.data is not None:
            raise DataError(f"--data does not apply to --kind {self.kind}; leave it out")
        settings = {ARGUMENTS.get(name, name): value for name, value in options.items()}
        if run is not None and chosen.names:
            settings["names"] = run.names
        getattr(uw.show, chosen.function)(*subject, **settings).save(out)
        print_output(f"{self.kind.capitalize()}: {out}")

    def _data(self, model: "Model") -> "Dataset":
        from unweave.cli.image_source import recorded_source
        from unweave.data.origin import load_training_data

        return self.images.load_optional(self.data) or load_training_data(
            model.config.data, "pass them with --data", recorded_source(self.model)
        )


@app.add("report")
@dataclass(frozen=True, kw_only=True)
class Report:
    """Write an HTML report on trained models: shared factors, scores and ranking.

    Example: unweave report sprites -o sprites.html
    """

    source: Annotated[
        Positional[str],
        arg(metavar="RUNS_OR_STUDY", help="Folder of a study, or folder of trained models."),
    ]
    out: Annotated[Path, arg(aliases=["-o"], metavar="FILE", help="Output file (.html).")] = Path(
        "report.html"
    )
    data: SavedImages = None
    title: str | None = None
    """Title of the page (default: name of the study or folder)."""
    rows: int | None = None
    """Number of images for comparing models (default: 3,000, fewer for many models)."""
    seed: int = 0
    """Random seed for sampling these images."""
    overwrite: bool = False
    """Replace an existing file."""
    device: Device = None
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        written = uw.show.report(
            self.source,
            self.out,
            self.data,
            options=given(self.images),
            title=self.title,
            rows=self.rows,
            seed=self.seed,
            overwrite=self.overwrite,
            device=self.device,
        )
        print_output(f"Report: {written} ({written.stat().st_size / 1e6:.1f} MB)")


@app.add("explore")
@dataclass(frozen=True, kw_only=True)
class Explore:
    """Open a local page with a slider for each latent, decoded live. Press Ctrl-C to stop.

    Example: unweave explore zoo:rooms3d
    """

    folder: Annotated[
        Positional[Path],
        arg(
            metavar="FOLDER",
            help="Folder of a saved model, of several models, or of a study; or zoo:NAME.",
        ),
    ]
    data: SavedImages = None
    port: int | None = None
    """Port (default: any free port)."""
    open_browser: Annotated[bool, arg(name="open")] = True
    """Open the page in a browser."""
    images: Annotated[CustomImages, arg(name="")] = field(default_factory=CustomImages)

    def run(self) -> None:
        from unweave.models.zoo import zoo_folder

        folder = self.folder
        with path_errors(folder, "read"):
            if zoo_folder(folder) is None and not folder.is_dir():
                raise UnweaveError(f"folder {folder} not found; pass a folder of trained models")
        data = self.images.load_optional(self.data) or images_of_folder(folder)
        uw.show.explore(folder, data, self.port, self.open_browser)


def images_of_folder(folder: Path) -> "Dataset | None":
    """Load the images recorded in a folder, if its models were trained on them.

    The folder is untrusted and could name any images on this machine.
    """
    from unweave.cli.image_source import recorded_source
    from unweave.data.origin import load_matching
    from unweave.explorer.model_index import entries_of

    recorded = recorded_source(folder)
    if recorded is None:
        return None
    configs = [entry.config for entry in entries_of(folder) if entry.config is not None]
    trained_on = [list(config.data[0]) for config in configs if config.data]
    data = load_matching(*recorded, trained_on)
    return data if list(data.origin[0]) in trained_on else None
