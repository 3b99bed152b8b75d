"""Trained models that come with the package, each in a folder of its own.

Layout:
    NAME/                files of a saved model, compact (see `unweave.models.files`)
    NAME/card.yaml       model card: data, method, seed, steps, scores and the training command
"""

from pathlib import Path

from unweave.errors import UnknownNameError

__all__ = ["zoo_folder", "zoo_names"]

ZOO = Path(__file__).parent
PREFIX = "zoo:"
CARD = "card.yaml"


def zoo_names() -> list[str]:
    """Return the names of the models in the zoo."""
    return sorted(card.parent.name for card in ZOO.glob(f"*/{CARD}"))


def zoo_folder(name: object) -> Path | None:
    """Return the folder of `zoo:NAME`; None for anything else, such as the path of a folder."""
    if not isinstance(name, str | Path) or not str(name).startswith(PREFIX):
        return None
    wanted = str(name).removeprefix(PREFIX)
    if wanted not in zoo_names():
        raise UnknownNameError("zoo model", wanted, zoo_names())
    return ZOO / wanted
