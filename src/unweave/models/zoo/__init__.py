"""Trained models that come with the package, each in a folder of its own.

Layout:
    NAME/                files of a saved model, compact (see `unweave.models.files`)
    NAME/card.yaml       model card: data, training, scores and the command that trained it
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unweave.errors import UnknownNameError
from unweave.io.plain_data import parse_yaml

__all__ = ["CARD", "PREFIX", "ZOO", "card", "zoo_folder", "zoo_names"]

ZOO = Path(__file__).parent
PREFIX = "zoo:"
CARD = "card.yaml"


def zoo_names() -> list[str]:
    """Return the names of the models in the zoo."""
    return sorted(file.parent.name for file in ZOO.glob(f"*/{CARD}"))


def zoo_folder(name: object) -> Path | None:
    """Return the folder of `zoo:NAME`; None for anything else, such as the path of a folder."""
    if not isinstance(name, str | Path) or not str(name).startswith(PREFIX):
        return None
    wanted = str(name).removeprefix(PREFIX)
    if wanted not in zoo_names():
        raise UnknownNameError("zoo model", wanted, zoo_names())
    return ZOO / wanted


def card(name: str) -> Mapping[str, Any]:
    """Return the model card of a model in the zoo."""
    folder = zoo_folder(PREFIX + name)
    assert folder is not None, "the name has the prefix"
    about: Mapping[str, Any] = parse_yaml((folder / CARD).read_text(encoding="utf-8"))
    return about
