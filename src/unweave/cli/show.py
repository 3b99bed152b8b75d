"""The command `unweave show`: a picture of a trained model in a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.cli.loading import named_data, said
from unweave.cli.noted import noted_source
from unweave.errors import DataError, UnknownNameError
from unweave.io.arguments import check_seed
from unweave.io.paths import check_out
from unweave.plots.saving import ANIMATIONS, FIGURES, PICTURES

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


def show_model(
    folder: Path,
    kind: str,
    out: Path | None,
    source: str | None,
    overwrite: bool,
    loading: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    """Draw a saved model.

    Args:
        folder: Of its run.
        kind: Of `KINDS`.
        out: The file; by default the kind with its usual ending, here.
        source: The data; by default what the model was trained on.
        overwrite: Whether the file may be there already.
        loading: How to load the source.
        options: What was said about the picture; None where nothing was.
    """
    from unweave import plots as show
    from unweave.models.finding import one_model

    if kind not in KINDS:
        raise UnknownNameError("picture", kind, KINDS)
    chosen = KINDS[kind]
    given = said(options)
    for name in given:
        if name not in chosen.options:
            raise DataError(f"--{name} says nothing about {kind}; leave it out")
    if "seed" in given:
        check_seed(given["seed"])
    out = out or Path(kind + chosen.endings[0])
    check_out(out, chosen.endings, overwrite)
    what: list[Any] = [folder] if chosen.several else [one_model(folder)]
    if chosen.data:
        what.append(_data(what[0], folder, source, loading))
    elif source is not None:
        raise DataError(f"--data says nothing about {kind}; leave it out")
    settings = {ARGUMENTS.get(name, name): value for name, value in given.items()}
    getattr(show, chosen.function)(*what, **settings).save(out)
    print(f"{kind.capitalize()}: {out}")


def _data(
    model: "Model", folder: Path, source: str | None, loading: Mapping[str, Any]
) -> "Dataset":
    from unweave.data.origin import own_data

    named = named_data(source, loading)
    if named is None:
        noted = noted_source(folder)
        return own_data(model.config.data, "name them with --data", noted)
    return named
