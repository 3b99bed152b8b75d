"""The command `unweave show`: a picture of a trained model in a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.cli.commands.pictures import Show
from unweave.cli.noted import noted_source
from unweave.cli.options import given
from unweave.errors import DataError, UnknownNameError
from unweave.io.arguments import check_seed
from unweave.io.paths import check_out
from unweave.plots.saving import ANIMATIONS, FIGURES, PICTURES
from unweave.progress import tell

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["KINDS", "show_model"]

START = frozenset({"index", "prior", "seed", "reach", "quantiles"})


@dataclass(frozen=True)
class Kind:
    """A kind of picture.

    Args:
        function: Its name in `uw.show`.
        endings: Of its file, the usual one first.
        options: The flags that say something about it.
        data: Whether it shows data, which are loaded then.
        several: Whether it shows several models at once.
    """

    function: str
    endings: tuple[str, ...]
    options: frozenset[str]
    data: bool = True
    several: bool = False


KINDS: Mapping[str, Kind] = {
    "traversals": Kind("traversals", PICTURES, START | {"columns", "inactive"}),
    "reconstructions": Kind("reconstructions", PICTURES, frozenset({"count", "columns", "seed"})),
    "samples": Kind("samples", PICTURES, frozenset({"count", "columns", "seed"}), data=False),
    "animation": Kind("animate", ANIMATIONS, START | {"inactive"}),
    "pairwise": Kind("pairwise", PICTURES, START | {"latents", "columns"}),
    "position": Kind("position_maps", FIGURES, frozenset({"over", "inactive", "seed"})),
    "members": Kind("members", PICTURES, START | {"columns", "inactive"}),
    "activity": Kind("activity", FIGURES, frozenset({"by", "seed"})),
    "polarised": Kind("polarised", FIGURES, frozenset({"seed"})),
    "subspaces": Kind("subspaces", FIGURES, frozenset({"seed"})),
    "exponents": Kind("exponents", FIGURES, frozenset(), data=False, several=True),
    "stages": Kind("stages", PICTURES, frozenset({"count", "seed"})),
    "swaps": Kind("swaps", PICTURES, frozenset({"count", "seed"})),
    "stage-traversals": Kind(
        "stage_traversals", PICTURES, frozenset({"index", "columns", "reach", "count", "seed"})
    ),
    "kl": Kind("kl_over_training", FIGURES, frozenset(), data=False),
    "training": Kind("training", FIGURES, frozenset(), data=False, several=True),
}
ARGUMENTS = {"over": "factors"}
"""Flags that are called differently in Python, where nothing else has that name."""


def show_model(asked: Show) -> None:
    """Draw a saved model."""
    from unweave import plots
    from unweave.models.finding import one_model

    if asked.kind not in KINDS:
        raise UnknownNameError("picture", asked.kind, KINDS)
    chosen = KINDS[asked.kind]
    options = given(asked.options)
    for name in options:
        if name not in chosen.options:
            raise DataError(f"--{name} says nothing about {asked.kind}; leave it out")
    if "seed" in options:
        check_seed(options["seed"])
    out = asked.out or Path(asked.kind + chosen.endings[0])
    check_out(out, chosen.endings, asked.overwrite)
    what: list[Any] = [asked.model] if chosen.several else [one_model(asked.model)]
    if chosen.data:
        what.append(_data(what[0], asked))
    elif asked.data is not None:
        raise DataError(f"--data says nothing about {asked.kind}; leave it out")
    settings = {ARGUMENTS.get(name, name): value for name, value in options.items()}
    getattr(plots, chosen.function)(*what, **settings).save(out)
    tell(f"{asked.kind.capitalize()}: {out}")


def _data(model: "Model", asked: Show) -> "Dataset":
    from unweave.data.origin import own_data

    named = asked.images.named(asked.data)
    if named is None:
        return own_data(model.config.data, "name them with --data", noted_source(asked.model))
    return named
