"""The command `unweave train`, whose flags depend on the method."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import docstring_parser
import tyro
from tyro.conf import Positional, arg

from unweave.cli.app import app, hide_none_defaults
from unweave.cli.options import EveryImage, Source, Track, given, trackers_of
from unweave.cli.plugins import references_in_args
from unweave.cli.renamed_flags import with_new_flags
from unweave.errors import UnweaveError
from unweave.io.paths import check_folder
from unweave.text import canonical_name

if TYPE_CHECKING:
    from unweave.methods import Method
    from unweave.models.model import Fleet
    from unweave.nets.adam import Adam

__all__ = ["options_of", "train_method"]

LISTS = {kind: tuple[kind, ...] for kind in (float, int, str, bool)}  # type: ignore[valid-type]


@app.add("train")
@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a fleet of models: all values of the method's flags with all seeds, in parallel.

    Methods: vae, beta-vae, annealed-vae, factor-vae, beta-tc-vae, dip-vae-i, dip-vae-ii, ae,
    bio-ae, ada-gvae, ada-ml-vae, vae-ensemble, isa-vae, isa-tc-vae, slow-vae, pcl, dava. With
    quantised latents: qlae, tripod. With a penalty on top of another method: hfs, jacobian-l1.
    With a known factor: ivae. Second stages on top of trained models: ms-vae, jacobian, ms-gan,
    cgan. Without an encoder: infogan, from-factors.

    For the flags of a method: unweave train dsprites beta-vae --help

    Example: unweave train dsprites beta-vae --beta 1 4 16 --seeds 10 --steps 20000 --out runs
    """

    source: Source
    method: Annotated[Positional[str], arg(metavar="METHOD", help="Method, for example beta-vae.")]

    def run(self) -> None:
        train_method([self.source, self.method])


@hide_none_defaults
@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of all methods."""

    seeds: int = 1
    """Number of random seeds per setting."""
    first_seed: int = 0
    """First random seed."""
    steps: int = 300_000
    """Number of training steps; shorter runs with saved optimiser states are continued."""
    minutes: float | None = None
    """Time limit in minutes; models that do not reach --steps in time are saved as they are, with
    their optimiser state."""
    keep_optimiser: bool = False
    """Save optimiser states, so that models can be trained further (always with --minutes)."""
    out: Path = Path("runs")
    """Output folder; models that are already in it are not trained again."""
    batch: int = 64
    """Batch size."""
    latents: int = 10
    """Number of latent dimensions."""
    likelihood: Literal["bernoulli", "gaussian", "learned-gaussian"] = "bernoulli"
    """Reconstruction likelihood."""
    init: Literal["glorot", "he", "torch", "normal"] = "glorot"
    """Weight initialisation."""
    learning_rate: Annotated[float, arg(aliases=["--lr"])] = 1e-4
    """Learning rate of Adam."""
    adam: Literal["torch", "tensorflow"] = "torch"
    """Variant of Adam; torch and tensorflow add epsilon in different places."""
    weight_decay: float = 0.0
    """Decoupled weight decay, as in AdamW."""
    clip: float = 0.0
    """Largest absolute value of an element of the gradient; 0 turns clipping off."""
    clip_norm: float = 0.0
    """Largest norm of a model's gradient; 0 turns clipping off."""
    warm_up: int = 0
    """Number of steps over which the learning rate rises linearly."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """Schedule of the learning rate."""
    lr_floor: float = 0.0
    """Learning rate at the end of a cosine schedule, as a fraction of --learning-rate."""
    decay_every: int = 0
    """Number of steps between decays of a step schedule."""
    decay_factor: float = 0.1
    """Factor of each decay of a step schedule."""
    ema: float = 0.0
    """Decay rate of the moving average of weights that becomes the model; 0 turns it off."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Precision of matrix multiplications; on a CPU, bf16 needs a recent processor to be fast."""
    fleet_size: Literal["auto"] | int = "auto"
    """Number of models to train at once; auto uses as many as fit in memory."""
    device: Literal["cpu", "cuda"] | None = None
    """Device (default: a GPU if available)."""
    pictures: bool = True
    """Save a figure of the latent traversals of each model."""
    first: Path | None = None
    """For a second stage: folder of one or more first-stage models."""
    track: Track = ()
    images: Annotated[EveryImage, arg(name="")] = field(default_factory=EveryImage)


def train_method(args: Sequence[str]) -> None:
    """Run `unweave train SOURCE METHOD --flags`."""
    from unweave.cli.image_source import is_named, record_source
    from unweave.fleet.callbacks import Callbacks
    from unweave.fleet.train import all_runs, check_minutes, train_runs
    from unweave.io.arguments import check_seed
    from unweave.methods import find_method
    from unweave.models.networks import check_disk
    from unweave.plots import traversals

    source, name, *flags = args
    kind = find_method(canonical_name(name))
    renamed = {_flag(old): _flag(new) for new, old in kind.saved_as.items()}
    flags = with_new_flags(flags, renamed)
    chosen: Any = tyro.cli(
        options_of(kind, references_in_args(flags)),
        prog=f"unweave train {source} {name}",
        args=flags,
        description=_help(kind),
    )
    settings = {
        field.name: list(getattr(chosen, field.name)) for field in dataclasses.fields(kind)
    }
    check_folder(chosen.out)
    trackers = trackers_of(chosen.track)
    data = chosen.images.load(source)
    print(data)
    first = _base_models(chosen.first, kind)
    runs = all_runs(
        kind(**settings),
        data,
        range(check_seed(chosen.first_seed), chosen.first_seed + chosen.seeds),
        chosen.steps,
        first,
        batch=chosen.batch,
        latents=chosen.latents,
        architecture=chosen.architecture,
        likelihood=canonical_name(chosen.likelihood),
        init=chosen.init,
        optimiser=_optimiser(chosen),
        precision=chosen.precision,
    )
    if chosen.minutes is not None:
        check_minutes(chosen.minutes)
    check_disk(runs, data.shape, chosen.out, chosen.keep_optimiser or chosen.minutes is not None)
    with Callbacks(trackers) as calls:
        calls.result = fleet = train_runs(
            runs,
            data,
            first=first,
            out=chosen.out,
            device=chosen.device,
            fleet_size=None if chosen.fleet_size == "auto" else chosen.fleet_size,
            minutes=chosen.minutes,
            keep_optimiser=chosen.keep_optimiser,
            callbacks=calls,
        )
    for model in fleet:
        if not is_named(source):
            record_source(chosen.out / model.config.hash, source, given(chosen.images))
        line = f"{chosen.out / model.config.hash}  {model!r}"
        if chosen.pictures and model.config.method.decodes and model.diverged_at[0] < 0:
            picture = chosen.out / f"{model.config.hash}.png"
            traversals(model, data).save(picture)
            line += f"  {picture}"
        print(line)
    print(fleet)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _optimiser(chosen: Any) -> "Adam":
    """Return the optimiser that the options describe; most names are those of `uw.Adam`."""
    from unweave.nets.adam import Adam

    names = {field.name for field in dataclasses.fields(Adam)}
    own = {name: getattr(chosen, name) for name in names if hasattr(chosen, name)}
    return Adam(lr=chosen.learning_rate, variant=chosen.adam, **own)


def _base_models(folder: Path | None, kind: "type[Method]") -> "Fleet | None":
    """Return the first-stage models of a second stage as one fleet."""
    from unweave.methods import SecondStage
    from unweave.models.finding import models_of
    from unweave.models.model import join

    if not issubclass(kind, SecondStage):
        if folder is not None:
            raise UnweaveError(f"{kind.name} is not a second stage; leave out --first")
        return None
    if folder is None:
        raise UnweaveError(
            f"{kind.name} requires trained first-stage models; pass their folder, "
            "e.g. --first runs"
        )
    models = models_of(folder, chosen=True)
    base = [model for model in models if not isinstance(model.config.method, SecondStage)]
    # The folder may also hold second stages that were trained on its other models.
    return join(base or models)


def options_of(kind: "type[Method]", architectures: Sequence[str] = ()) -> type:
    """Return the options of a method, whose hyperparameters take one or several values.

    Args:
        kind: Class of the method.
        architectures: Custom architectures that may be chosen in addition to its own.
    """
    from unweave.methods.settings import settings_of

    # Descriptions are wrapped in the docstring, and backticks are its markup.
    descriptions = {
        item.arg_name: " ".join((item.description or "").replace("`", "").split())
        for item in docstring_parser.parse(kind.__doc__).params
    }
    own = [
        (
            field.name,
            Annotated[
                LISTS[settings_of(kind)[field.name].kind],
                arg(
                    help=descriptions.get(field.name),
                    metavar=f"{settings_of(kind)[field.name].kind.__name__.upper()}…",
                    help_behavior_hint=None if field.default != "" else "",
                ),
            ],
            dataclasses.field(default=(field.default,)),
        )
        for field in dataclasses.fields(kind)
    ]
    networks = (*kind.architectures, *architectures)
    shared = (
        "architecture",
        Annotated[Literal[networks], arg(help="Network architecture.")],
        dataclasses.field(default=networks[0]),
    )
    return dataclasses.make_dataclass(
        "Options", [*own, shared], bases=(Options,), kw_only=True, frozen=True
    )


def _help(kind: "type[Method]") -> str:
    from unweave.methods import IVAE, FromFactors, SecondStage

    first = (kind.__doc__ or "").strip().splitlines()[0]
    word = kind.name.replace("_", "-")
    strengths = [name.replace("_", "-") for name in kind.strengths()]
    flag = f" --{strengths[0]} 1 4 16" if strengths else ""
    other = "--first runs --latents 5" if issubclass(kind, SecondStage) else "--seeds 10"
    if issubclass(kind, FromFactors):
        other = "--known-factors posX,posY --latents 2"
    if issubclass(kind, IVAE):
        other = "--factor shape --classes 3 --seeds 10"
    example = f"unweave train dsprites {word}{flag} {other} --steps 20000 --out runs"
    return f"{first}\n\nExample: {example}"
