"""A fitted `Unweaver` in a folder: that of its model, with a note and the ranking beside it.

`SHA256SUMS` lists all of these files; in older folders only those of the model.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from unweave.errors import UnknownNameError
from unweave.io.checksums import verify_listed, write_sums
from unweave.io.plain_data import read_json
from unweave.io.tables import read_table
from unweave.io.writing import whole_folder
from unweave.methods import Method, find_method, saved_name
from unweave.models.files import FILES, UNREADABLE, fill
from unweave.models.model import Model, saved_form
from unweave.models.rows import NOTE, InputError

__all__ = ["damage", "read_note", "read_ranking", "write"]

RANKING = "ranking.parquet"


def write(folder: Path, model: Model, ranking: pd.DataFrame, note: Mapping[str, Any]) -> None:
    """Write a folder, which must not exist yet, whole or not at all.

    Args:
        folder: Where it goes.
        model: The model that was chosen.
        ranking: All models, best first.
        note: All that the model does not know of the estimator.
    """
    if folder.exists():
        raise InputError(f"{folder} is already there; choose another folder")
    with whole_folder(folder) as temporary:
        fill(temporary, saved_form(model))
        ranking.to_parquet(temporary / RANKING, index=False)
        text = json.dumps(note, indent=1, default=_plain)
        (temporary / NOTE).write_text(text + "\n", encoding="utf-8")
        write_sums(temporary, (*FILES, RANKING, NOTE))


def read_note(folder: Path, method: type[Method] | None = None) -> dict[str, Any]:
    """The note in a folder, with its method as an object where it was one.

    Args:
        folder: Where it was saved.
        method: The class of the method, where it can be found by no name.
    """
    verify_listed(folder, [NOTE])
    note: dict[str, Any] = read_json(folder / NOTE)
    parameters = note["parameters"]
    if isinstance(parameters["method"], dict):
        name = parameters["method"].pop("name")
        own = method is not None and name in (method.name, saved_name(method))
        kind = method if method is not None and own else find_method(name)
        parameters["method"] = kind(**parameters["method"])
    return note


def read_ranking(folder: Path) -> pd.DataFrame:
    """All models, best first."""
    verify_listed(folder, [RANKING])
    return read_table(folder / RANKING)


@contextmanager
def damage(folder: Path) -> Iterator[None]:
    """What goes wrong while a folder is read, as a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise InputError(
            f"{folder} holds a model, but no Unweaver: {missing} is missing; take uw.load"
        ) from error
    except (*UNREADABLE, UnknownNameError) as error:
        raise InputError(
            f"the Unweaver in {folder} is damaged ({error}); uw.load may still open its model"
        ) from error


def _plain(value: Any) -> Any:
    """NumPy's arrays and numbers as Python's; anything else by its name."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
