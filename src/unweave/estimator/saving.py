"""Saving of a fitted `Unweaver`: the folder of its model, plus metadata and the ranking.

`SHA256SUMS` lists all of these files; in older folders, only those of the model.
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
from unweave.models.model import Model
from unweave.models.rows import NOTE as METADATA
from unweave.models.rows import InputError

__all__ = ["read_metadata", "read_ranking", "reading_errors", "write"]

RANKING = "ranking.parquet"


def write(folder: Path, model: Model, ranking: pd.DataFrame, metadata: Mapping[str, Any]) -> None:
    """Write a folder, which must not exist yet, atomically.

    Args:
        folder: Output folder.
        model: The chosen model.
        ranking: All models, best first.
        metadata: State of the estimator that is not part of the model.
    """
    if folder.exists():
        raise InputError(f"{folder} already exists; choose another folder", subject=folder)
    with whole_folder(folder) as temporary:
        fill(temporary, model)
        ranking.to_parquet(temporary / RANKING, index=False)
        text = json.dumps(metadata, indent=1, default=_plain)
        (temporary / METADATA).write_text(text + "\n", encoding="utf-8")
        write_sums(temporary, (*FILES, RANKING, METADATA))


def read_metadata(folder: Path, method: type[Method] | None = None) -> dict[str, Any]:
    """Return the metadata in a folder; a method saved as an object is restored.

    Args:
        folder: Folder of the saved estimator.
        method: Class of a custom method that cannot be found by name.
    """
    verify_listed(folder, [METADATA])
    metadata: dict[str, Any] = read_json(folder / METADATA)
    parameters = metadata["parameters"]
    if isinstance(parameters["method"], dict):
        name = parameters["method"].pop("name")
        custom = method is not None and name in (method.name, saved_name(method))
        kind = method if method is not None and custom else find_method(name)
        parameters["method"] = kind(**parameters["method"])
    return metadata


def read_ranking(folder: Path) -> pd.DataFrame:
    """Return the saved ranking of all models, best first."""
    verify_listed(folder, [RANKING])
    return read_table(folder / RANKING)


@contextmanager
def reading_errors(folder: Path) -> Iterator[None]:
    """Convert errors while reading a folder to an InputError."""
    try:
        yield
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise InputError(
            f"{folder} contains a model but no Unweaver ({missing} is missing); use uw.load",
            subject=missing,
        ) from error
    except (*UNREADABLE, UnknownNameError) as error:
        raise InputError(
            f"the Unweaver in {folder} is damaged ({error}); uw.load may still open its model",
            subject=folder,
        ) from error


def _plain(value: Any) -> Any:
    """Convert NumPy arrays and numbers to Python objects, and anything else to text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
