"""The command `unweave fit`: from a folder of images to an encoder, figures and a report."""

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg

import unweave as uw
from unweave.cli.app import app
from unweave.cli.options import (
    Device,
    EveryImage,
    FleetSize,
    Source,
    Track,
    given,
    trackers_of,
)
from unweave.errors import UnknownNameError
from unweave.io.extensions import is_reference
from unweave.io.paths import check_folder, check_free, path_errors
from unweave.io.writing import temporary_folder, whole_file
from unweave.progress import print_output, say, silenced, track
from unweave.text import canonical_name, printable

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.fitting import Fit as Fitted
    from unweave.methods import Method
    from unweave.models.config import Config
    from unweave.models.model import Model

REPORT = "report.html"
TABLES = RANKING, CODES, LATENTS = "ranking.csv", "codes.csv", "latents.csv"
SETTINGS = (
    *("seeds", "steps", "minutes", "latents", "batch", "likelihood", "device", "fleet_size"),
    *("learning_rate", "precision"),
)
"""Options passed unchanged to `uw.fit`."""
MAX_CODES = 100_000
"""Largest number of images for which codes.csv is written (seconds of work, 10 MB)."""
PICTURES: Mapping[str, Callable[..., Any]] = {
    "what-the-latents-do.png": lambda *args, names: uw.show.traversals(*args, names=names),
    "what-the-latents-do.gif": lambda *args, names: uw.show.animate(
        *args, inactive="grey", names=names
    ),
    "reconstructions.png": lambda model, data, names: uw.show.reconstructions(  # noqa: ARG005
        model, data
    ),
    "samples.png": lambda model, _, names: uw.show.samples(model),  # noqa: ARG005
}
"""Functions of the chosen model, the data and the names of latents; lambdas because `uw.show`
imports torch."""


@app.add("fit")
@dataclass(frozen=True, kw_only=True)
class Fit:
    """Train models on your images, choose one without labels, and say how far to trust it.

    Safe to interrupt: run the same command again to resume. To train the models further, run it
    again with more --minutes or --steps.

    Example: unweave fit ./images
    """

    source: Source
    out: Annotated[
        Path | None,
        arg(aliases=["-o"], metavar="FOLDER", help="Output folder (default: NAME-fit)."),
    ] = None
    method: Annotated[
        str | None,
        arg(
            help="Method with a regularisation strength, such as beta-vae or factor-vae (default: "
            "factor-vae on CPU, several methods on GPU; each with several strengths)."
        ),
    ] = None
    strengths: Annotated[
        tuple[float, ...] | None,
        arg(
            metavar="X…",
            help="Regularisation strengths of --method to try (default: the usual one; for "
            "beta-vae 1 and 4 on CPU, 1 to 16 on GPU).",
        ),
    ] = None
    seeds: int | None = None
    """Number of random seeds per strength (default: 3 on CPU, 4 on GPU; with --method 4, 10)."""
    steps: int | None = None
    """Number of training steps (default: as many as fit into --minutes)."""
    minutes: float | None = None
    """Time limit in minutes, in total over all calls (default: 8, or none with --steps)."""
    latents: int | None = None
    """Number of latent dimensions (default: 10)."""
    batch: int | None = None
    """Batch size (default: 64, on CPU 32)."""
    likelihood: Annotated[
        Literal["bernoulli", "gaussian", "learned-gaussian"] | None,
        arg(
            help="Reconstruction likelihood (default: bernoulli for black and white images, "
            "otherwise a Gaussian with learned variance)."
        ),
    ] = None
    learning_rate: Annotated[float | None, arg(aliases=["--lr"])] = None
    """Learning rate of Adam (default: 0.001)."""
    precision: Literal["float32", "tf32", "bf16"] | None = None
    """Precision of matrix multiplications (default: bf16 where it is faster)."""
    device: Device = None
    fleet_size: FleetSize = None
    track: Track = ()
    images: Annotated[EveryImage, arg(name="")] = field(default_factory=EveryImage)

    def run(self) -> None:
        start = time.monotonic()
        trackers = trackers_of(self.track)
        method = _method(self.method, self.strengths)
        if self.out is not None:
            _check_folder(self.out, self.source)
        data = self.images.load(self.source)
        size = self._smaller_size(data)
        if size is None:
            self._fit(data, method, trackers, start)
            return
        smaller = replace(self, images=replace(self.images, size=size))
        with silenced():
            data = smaller.images.load(self.source)
        smaller._fit(data, method, trackers, start)

    def _fit(
        self, data: "Dataset", method: "Method | str | None", trackers: Any, start: float
    ) -> None:
        """Train on loaded images and write all results."""
        from unweave.cli.image_source import SOURCE, is_named, record_source
        from unweave.models.names import check_names

        print_output(data)
        out = self.out or Path(f"{data.name}-fit")
        _check_folder(out, self.source)
        check_names(out)
        check_free([out / name for name in (SOURCE, *TABLES, REPORT, *PICTURES)], True)
        settings = {name: value for name, value in given(self).items() if name in SETTINGS}
        if self.likelihood is not None:
            settings["likelihood"] = canonical_name(self.likelihood)
        found = uw.fit(data, method, out=out, callbacks=trackers, **settings)
        if not is_named(self.source):
            record_source(out, self.source, given(self.images))
        self._write_results(found, data, out)
        minutes = (time.monotonic() - start) / 60
        results = _overview(out, self.source, found.verdict.level)
        print_output(f"\n{found}\n\n{results}\nTook {minutes:.1f} min. Report: {out / REPORT}")

    def _smaller_size(self, data: "Dataset") -> int | None:
        """Return the size to which custom images are reduced on this device, if they are."""
        from unweave.cli.image_source import is_named
        from unweave.fitting.portfolio import reduced_message, smaller_size
        from unweave.nets.device import chosen_device

        if is_named(self.source) or self.images.size is not None:
            return None
        size = smaller_size(data, chosen_device(self.device))
        if size is not None:
            say(reduced_message(data, size, "--size "))
        return size

    def _write_results(self, found: "Fitted", data: "Dataset", out: Path) -> None:
        """Write the chosen model, its figures and codes, the ranking and the report.

        Results of an earlier call of the same fit are replaced.
        """
        from unweave.evaluation.files import write_table
        from unweave.models.files import BEST

        _save_best(found.best, out / BEST)
        write_table(found.ranking, out / RANKING)
        names = name_and_describe(out / BEST, found.best, data, out / LATENTS)
        for name, picture in track(PICTURES.items(), "drawing figures", len(PICTURES)):
            with whole_file(out / name) as temporary:
                picture(found.best, data, names=names).save(temporary)
        if len(data) <= MAX_CODES:
            codes = uw.encode(found.best, data, device=self.device, names=names)
            write_table(codes, out / CODES)
        say("writing the report")
        uw.show.report(
            out,
            out / REPORT,
            data,
            title=data.name,
            overwrite=True,
            device=self.device,
            command=self._command(out, found.best.config),
        )

    def _command(self, out: Path, config: "Config") -> str:
        """Return the command that repeats this fit: all options given, steps and precision."""
        args = ["unweave", "fit", self.source, "--steps", str(config.steps)]
        args += ["--precision", config.precision]
        options = {**given(self.images), **given(self)}
        for name, value in options.items():
            if name not in ("source", "out", "images", "steps", "precision", "minutes", "track"):
                values = value if isinstance(value, tuple) else (value,)
                args += [f"--{name.replace('_', '-')}", *(f"{one}" for one in values)]
        return printable(shlex.join([*args, "--out", str(out)]))


def _method(name: str | None, strengths: Sequence[float] | None) -> "Method | str | None":
    """Return the method with the given strengths; None for the default of `uw.fit`."""
    from unweave.fitting import FitError
    from unweave.methods import EVERY, METHODS, Pairs, find_method, known_method

    if name is None and strengths is not None:
        raise FitError(
            "--strengths applies to a single method; pass --method too", subject="strengths"
        )
    if name is None:
        return None
    key = canonical_name(name)
    valid = {
        n: kind for n, kind in METHODS.items() if kind.strengths() and not issubclass(kind, Pairs)
    }
    kind = find_method(key) if is_reference(key) or known_method(key) else None
    plain = kind is not None and (key in valid or key not in EVERY)
    if kind is None or not plain or not kind.strengths() or issubclass(kind, Pairs):
        raise UnknownNameError("method with a regularisation strength", name, valid)
    if strengths is None and key == "beta_vae":
        return key
    first = kind.strengths()[0]
    return kind() if strengths is None else kind(**{first: list(strengths)})


def _check_folder(out: Path, source: str) -> None:
    """Refuse an output folder that holds other files, or that is inside the image folder."""
    from unweave.cli.image_source import is_named
    from unweave.fitting import MANIFEST, FitError

    check_folder(out)
    with path_errors(Path(source), "read"):
        images = Path(source).expanduser().resolve()
        inside = images.is_dir() and out.resolve().is_relative_to(images)
    if inside and not is_named(source):
        raise FitError(
            f"the output folder {out} must not be inside the image folder {source}; choose "
            "another one with --out"
        )
    others = [path.name for path in out.glob("[!.]*")] if out.is_dir() else []
    if others and not os.path.lexists(out / MANIFEST):
        raise FitError(
            f"{out} is not empty and is not the folder of a fit (it contains {min(others)}); "
            "choose another folder with --out"
        )


def _save_best(model: "Model", best: Path) -> None:
    """Save the chosen model, replacing a damaged one or the choice of an earlier call."""
    from unweave.models.files import intact

    damaged = best.exists() and not intact(best)
    if damaged:
        say(f"{best} was damaged and will be replaced")
    if best.exists() and (damaged or uw.load(best).config.hash != model.config.hash):
        with temporary_folder(best) as trash:
            best.rename(trash / best.name)
    if not best.exists():
        model.save(best)


def name_and_describe(best: Path, model: "Model", data: "Dataset", out: Path) -> Mapping[int, str]:
    """Name the latents of a saved model after known factors, and write a table about them.

    Latents that have a name keep it.

    Args:
        best: Folder of the model.
        model: The model.
        data: Images, whose factors need not be known.
        out: Table with a row per column of codes.

    Returns:
        The names of the latents.
    """
    from unweave.evaluation.files import write_table
    from unweave.models.names import column_name, read_names, write_names
    from unweave.select.naming import latents_table, named_after

    table = latents_table(model, data)
    before = read_names(best, model.config)
    names = {**named_after(table), **before}
    if names != before:
        write_names(best, model.config, names)
    table["name"] = [names.get(latent, "") for latent in table["latent"]]
    columns = [column_name("z", latent, names) for latent in table["latent"]]
    table.insert(1, "column", columns)
    write_table(table.round({"amount": 4, "association": 4}), out)
    return names


def _overview(out: Path, source: str, level: str) -> str:
    """Return a list of the results and of commands to try next.

    A failed fit has no encoder that is worth loading.
    """
    from unweave.models.files import BEST

    codes: Any = out / CODES
    if not codes.exists():
        codes = shlex.join(["unweave", "encode", str(out / BEST), source, "-o", CODES])
    rows: list[tuple[str, object]] = [
        ("Load the encoder:", f'uw.load("{out / BEST}")'),
        ("Codes of your images:", codes),
        ("What the latents do:", out / "what-the-latents-do.png"),
        ("Explore interactively:", f"unweave explore {out}"),
        ("Encode other images:", f"unweave encode {out / BEST} FOLDER -o codes.csv"),
    ]
    if level == "failed":
        rows = [("See what went wrong:", out / REPORT), rows[3], rows[1]]
    return "\n".join(f"{label:<28}{value}" for label, value in rows)
