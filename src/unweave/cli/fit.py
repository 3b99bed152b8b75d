"""The command `unweave fit`: from a folder of pictures to an encoder, pictures and a report."""

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from unweave.cli.commands.models import Fit
from unweave.cli.noted import SOURCE, is_named, write_source
from unweave.cli.options import given
from unweave.data.dataset import Dataset
from unweave.errors import UnknownNameError
from unweave.evaluation.files import write_table
from unweave.fitting import NOTE, FitError, fit
from unweave.fitting import Fit as Fitted
from unweave.io.extensions import is_reference
from unweave.io.paths import check_folder, check_free, path_errors
from unweave.io.writing import temporary_folder, whole_file
from unweave.methods import EVERY, METHODS, Method, Pairs, find_method, known_method
from unweave.models.encoding import encode
from unweave.models.files import BEST, intact
from unweave.models.model import Model
from unweave.models.model import load as load_model
from unweave.plots import animate, reconstructions, samples, traversals
from unweave.progress import say, tell, track
from unweave.report import report
from unweave.text import readable, spelled

__all__ = ["fit_images"]

REPORT, RANKING, CODES = "report.html", "ranking.csv", "codes.csv"
SETTINGS = (
    *("seeds", "steps", "minutes", "latents", "batch", "likelihood", "device", "fleet_size"),
    "learning_rate",
)
"""Options that `uw.fit` takes as they are."""
MOST_CODES = 100_000
"""Images whose codes are written without being asked for: seconds of work, and 10 MB."""
PICTURES: Mapping[str, Callable[..., Any]] = {
    "what-the-latents-do.png": traversals,
    "what-the-latents-do.gif": partial(animate, inactive="grey"),
    "reconstructions.png": reconstructions,
    "samples.png": lambda model, data: samples(model),  # noqa: ARG005 - as the others are called
}


def fit_images(asked: Fit) -> None:
    """Fit models to images, and leave all results in one folder."""
    start = time.monotonic()
    method = _method(asked.method, asked.strengths)
    if asked.out is not None:
        _check_folder(asked.out, asked.source)
    data = asked.images.load(asked.source)
    tell(data)
    out = asked.out or Path(f"{data.name}-fit")
    _check_folder(out, asked.source)
    check_free([out / name for name in (SOURCE, RANKING, CODES, REPORT, *PICTURES)], True)
    settings = {name: value for name, value in given(asked).items() if name in SETTINGS}
    found = fit(data, method, out=out, **settings)
    if not is_named(asked.source):
        write_source(out, asked.source, given(asked.images))
    deliver(found, data, out, _command(asked, out, found.best.config.steps), asked.device)
    minutes = (time.monotonic() - start) / 60
    where = _where(out, asked.source)
    tell(f"\n{found}\n\n{where}\nTook {minutes:.1f} min. Report: {out / REPORT}")


def deliver(found: Fitted, data: Dataset, out: Path, command: str, device: str | None) -> None:
    """Write the chosen model, its pictures and codes, the ranking and the report into a folder.

    What an earlier call of the same fit left there is replaced.
    """
    _keep_best(found.best, out / BEST)
    write_table(found.ranking, out / RANKING)
    for name, picture in track(PICTURES.items(), "drawing", len(PICTURES)):
        with whole_file(out / name) as temporary:
            picture(found.best, data).save(temporary)
    if len(data) <= MOST_CODES:
        write_table(encode(found.best, data, device=device), out / CODES)
    say("writing the report")
    report(
        out,
        out / REPORT,
        data,
        title=data.name,
        overwrite=True,
        device=device,
        command=command,
    )


def _check_folder(out: Path, source: str) -> None:
    """Whether nothing of anybody else's lies where all goes, and none of it among the images."""
    check_folder(out)
    with path_errors(Path(source), "read"):
        images = Path(source).expanduser().resolve()
        among = images.is_dir() and out.resolve().is_relative_to(images)
    if among and not is_named(source):
        raise FitError(
            f"{out} is among the images of {source}, which pictures of models must not join; "
            "choose another folder with --out"
        )
    others = [path.name for path in out.glob("[!.]*")] if out.is_dir() else []
    if others and not os.path.lexists(out / NOTE):
        raise FitError(
            f"{out} holds other things than a fit, such as {min(others)}; choose another folder "
            "with --out"
        )


def _keep_best(model: Model, best: Path) -> None:
    """Save the chosen model, in place of one that is damaged or that an earlier call chose."""
    damaged = best.exists() and not intact(best)
    if damaged:
        say(f"{best} was damaged and is replaced")
    if best.exists() and (damaged or load_model(best).config.hash != model.config.hash):
        with temporary_folder(best) as aside:
            best.rename(aside / BEST)
    if not best.exists():
        model.save(best)


def _method(name: str, strengths: Sequence[float] | None) -> Method | None:
    """The method with the strengths asked for; None where nothing was asked for."""
    key = spelled(name)
    weighed = {
        n: kind for n, kind in METHODS.items() if kind.strengths() and not issubclass(kind, Pairs)
    }
    kind = find_method(key) if is_reference(key) or known_method(key) else None
    plain = kind is not None and (key in weighed or key not in EVERY)
    if kind is None or not plain or not kind.strengths() or issubclass(kind, Pairs):
        raise UnknownNameError("method with a strength", name, weighed)
    if strengths is None and key == "beta_vae":
        return None
    field = kind.strengths()[0]
    return kind() if strengths is None else kind(**{field: list(strengths)})


def _command(asked: Fit, out: Path, steps: int) -> str:
    """The command that fits the same again: all options given, and the number of steps."""
    words = ["unweave", "fit", asked.source, "--steps", str(steps)]
    settings = given(asked)
    method = settings.pop("method")
    options = {**given(asked.images), **settings, "method": method}
    for name, value in options.items():
        if name not in ("source", "out", "images", "steps", "minutes"):
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *(f"{one}" for one in values)]
    return readable(shlex.join([*words, "--out", str(out)]))


def _where(out: Path, source: str) -> str:
    codes: Any = out / CODES
    if not codes.exists():
        codes = shlex.join(["unweave", "encode", str(out / BEST), source, "-o", CODES])
    return "\n".join(
        f"{what:<28}{where}"
        for what, where in (
            ("The encoder:", f'uw.load("{out / BEST}")'),
            ("Its codes of your images:", codes),
            ("What its latents do:", out / "what-the-latents-do.png"),
            ("Play with it:", f"unweave explore {out}"),
            ("Encode other images:", f"unweave encode {out / BEST} FOLDER -o codes.csv"),
        )
    )
