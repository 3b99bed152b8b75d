"""The command `unweave train`: its flags are those of the method that is named.

It stands apart from `commands` because it must import the methods, and with them torch, to know
their flags.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import docstring_parser
import tyro
from tyro.conf import arg

from unweave.cli.app import quiet
from unweave.cli.noted import is_named, write_source
from unweave.cli.options import EveryImage, given
from unweave.cli.plugins import typed_references
from unweave.errors import UnweaveError
from unweave.fleet.train import all_runs, train_runs
from unweave.io.arguments import check_seed
from unweave.io.paths import check_folder
from unweave.methods import Method, SecondStage, find_method
from unweave.methods.settings import settings_of
from unweave.models.finding import models_of
from unweave.models.join import join
from unweave.models.model import Fleet
from unweave.models.size import check_disk
from unweave.nets.adam import Adam
from unweave.plots import traversals
from unweave.text import spelled

__all__ = ["train_method"]

SEVERAL = {
    float: tuple[float, ...],
    int: tuple[int, ...],
    str: tuple[str, ...],
    bool: tuple[bool, ...],
}


@quiet
@dataclass(frozen=True, kw_only=True)
class Options:
    """What every method can be trained with."""

    seeds: int = 1
    """How many seeds to train each setting with."""
    first_seed: int = 0
    """The first of them."""
    steps: int = 300_000
    """Updates of the parameters."""
    out: Path = Path("runs")
    """The folder for the models; what it has already is not trained again."""
    batch: int = 64
    """Images per step."""
    latents: int = 10
    """Size of the code."""
    likelihood: Literal["bernoulli", "gaussian"] = "bernoulli"
    """How images are compared."""
    init: Literal["glorot", "torch", "normal"] = "glorot"
    """How weights begin."""
    learning_rate: Annotated[float, arg(aliases=["--lr"])] = 1e-4
    """Learning rate of Adam."""
    adam: Literal["torch", "tensorflow"] = "torch"
    """Where Adam adds its epsilon."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Digits of the products, on a GPU."""
    fleet_size: Literal["auto"] | int = "auto"
    """How many models to train at once; auto measures how many fit."""
    device: Literal["cpu", "cuda"] | None = None
    """By default a GPU where there is one."""
    pictures: bool = True
    """Draw what the latents of each model do."""
    first: Path | None = None
    """For a second stage: the folder of the models that it builds on, or of one of them."""
    images: Annotated[EveryImage, arg(name="")] = field(default_factory=EveryImage)


def train_method(words: Sequence[str]) -> None:
    """Train what `unweave train SOURCE METHOD --flags` says."""
    source, name, *flags = words
    kind = find_method(spelled(name))
    chosen: Any = tyro.cli(
        _options_of(kind, typed_references(flags)),
        prog=f"unweave train {source} {name}",
        args=flags,
        description=_help(kind),
    )
    settings = {
        field.name: list(getattr(chosen, field.name)) for field in dataclasses.fields(kind)
    }
    check_folder(chosen.out)
    data = chosen.images.load(source)
    print(data)
    first = _models_in(chosen.first, kind)
    runs = all_runs(
        kind(**settings),
        data,
        range(check_seed(chosen.first_seed), chosen.first_seed + chosen.seeds),
        chosen.steps,
        first,
        batch=chosen.batch,
        latents=chosen.latents,
        architecture=chosen.architecture,
        likelihood=chosen.likelihood,
        init=chosen.init,
        optimiser=Adam(lr=chosen.learning_rate, variant=chosen.adam),
        precision=chosen.precision,
    )
    check_disk(runs, data.shape, chosen.out)
    fleet = train_runs(
        runs,
        data,
        first=first,
        out=chosen.out,
        device=chosen.device,
        fleet_size=None if chosen.fleet_size == "auto" else chosen.fleet_size,
    )
    for model in fleet:
        if not is_named(source):
            write_source(chosen.out / model.config.hash, source, given(chosen.images))
        line = f"{chosen.out / model.config.hash}  {model!r}"
        if chosen.pictures and model.config.method.decodes and model.diverged_at[0] < 0:
            picture = chosen.out / f"{model.config.hash}.png"
            traversals(model, data).save(picture)
            line += f"  {picture}"
        print(line)
    print(fleet)


def _models_in(folder: Path | None, kind: type[Method]) -> Fleet | None:
    """The models that a second stage builds on, in one fleet."""
    if not issubclass(kind, SecondStage):
        if folder is not None:
            raise UnweaveError(f"{kind.name} builds on no other models; leave out --first")
        return None
    if folder is None:
        raise UnweaveError(
            f"{kind.name} builds on trained models; say where they are: --first runs"
        )
    models = models_of(folder, chosen=True)
    below = [model for model in models if not isinstance(model.config.method, SecondStage)]
    # A folder may hold what was trained over others of its models before.
    return join(below or models)


def _options_of(kind: type[Method], architectures: Sequence[str] = ()) -> type:
    """The options of all methods and those of this one, which take one value or several.

    Args:
        kind: The method.
        architectures: The user's own that may be chosen besides the method's.
    """
    about = {
        item.arg_name: item.description for item in docstring_parser.parse(kind.__doc__).params
    }
    own = [
        (
            field.name,
            Annotated[
                SEVERAL[settings_of(kind)[field.name].kind], arg(help=about.get(field.name))
            ],
            dataclasses.field(default=(field.default,)),
        )
        for field in dataclasses.fields(kind)
    ]
    networks = (*kind.architectures, *architectures)
    shared = (
        "architecture",
        Annotated[Literal[networks], arg(help="The networks.")],
        dataclasses.field(default=networks[0]),
    )
    return dataclasses.make_dataclass(
        "Options", [*own, shared], bases=(Options,), kw_only=True, frozen=True
    )


def _help(kind: type[Method]) -> str:
    first = (kind.__doc__ or "").strip().splitlines()[0]
    word = kind.name.replace("_", "-")
    names = [field.name.replace("_", "-") for field in dataclasses.fields(kind)]
    flag = f" --{names[0]} 1 4 16" if names and kind.strengths() else ""
    more = "--first runs --latents 5" if issubclass(kind, SecondStage) else "--seeds 10"
    example = f"unweave train dsprites {word}{flag} {more} --steps 20000 --out runs"
    return f"{first}\n\nExample: {example}"
