"""Tables of codes, factors and scores in files: `.npy`, `.npz`, `.csv`, `.parquet`."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from unweave.data.cache import whole_file
from unweave.data.tables import FILE_COLUMNS, rows_by_name
from unweave.errors import DataError

__all__ = ["Columns", "check_out", "in_order", "read_columns", "write_table"]

LOGVAR = re.compile(r"logvar\d+")
"""What `unweave encode --logvar` calls the columns that are no codes."""


class Columns(NamedTuple):
    """A table `[n, columns]`, the columns' names and the rows' files, where the file has them."""

    values: np.ndarray
    names: tuple[str, ...] | None
    files: tuple[str, ...] | None = None


def read_columns(path: Path, what: str) -> Columns:
    """Read codes or factors.

    Args:
        path: `.npy`; `.npz` with one array, or one that is called as `what`; `.csv`, with or
            without a line of names; `.parquet`. A column of files (`file`, `path`, …) is for
            `in_order`, and log-variances that `unweave encode` wrote are left out.
        what: `"codes"` or `"factors"`. Words in factors count as classes.
    """
    readers = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{what} are a .npy, .npz, .csv or .parquet file, but got {path.name!r}")
    if not path.is_file():
        raise DataError(f"there is no file {path}; name the file that has the {what}")
    try:
        found = reader(path, what)
    except (OSError, ValueError, UnicodeDecodeError, pd.errors.ParserError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"cannot read {what} from {path}: {reason}") from error
    if isinstance(found, pd.DataFrame):
        return _numbers(found, path, what)
    return Columns(found[:, None] if found.ndim == 1 else found, None)


def _npy(path: Path, what: str) -> np.ndarray:  # noqa: ARG001 - all readers take both
    return np.load(path, allow_pickle=False)


def _npz(path: Path, what: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as file:
        names = list(file)
        if what in names:
            return file[what]
        if len(names) != 1:
            raise DataError(
                f"{path} has {len(names)} arrays ({', '.join(names)}), none of which is called "
                f"{what!r}; name one so"
            )
        return file[names[0]]


def _csv(path: Path, what: str) -> pd.DataFrame:  # noqa: ARG001 - as above
    first = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0]
    named = not first.map(_is_number).all()
    return pd.read_csv(path, header=0 if named else None)


def _parquet(path: Path, what: str) -> pd.DataFrame:  # noqa: ARG001 - as above
    return pd.read_parquet(path)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(frame: pd.DataFrame, path: Path, what: str) -> Columns:
    files = None
    for name in frame:
        words = not pd.api.types.is_numeric_dtype(frame[name])
        if str(name).lower() in FILE_COLUMNS and words and frame[name].notna().all():
            files = tuple(frame.pop(name).astype(str))
            break
    if what == "codes":
        frame = frame[[name for name in frame if not LOGVAR.fullmatch(str(name))]]
    columns = []
    for name in frame:
        column = frame[name]
        if column.isna().any():
            raise DataError(
                f"{what} must be complete, but {path} has none in row "
                f"{int(column.isna().argmax())} of column {name!r}"
            )
        if not pd.api.types.is_numeric_dtype(column):
            if what != "factors":
                raise DataError(f"{what} must be numbers, but column {name!r} of {path} has words")
            column = pd.Series(pd.factorize(column, sort=True)[0])
        columns.append(column.to_numpy())
    named = all(isinstance(name, str) for name in frame)
    names = tuple(frame) if named else None
    if not columns:
        raise DataError(f"{path} has no column of {what}; add one for each")
    return Columns(np.stack(columns, 1), names, files)


def in_order(factors: Columns, codes: Columns) -> np.ndarray:
    """The factors of each row of codes: by its file where both have them, or row by row."""
    if factors.files is None or codes.files is None:
        return factors.values
    every = np.ones(len(codes.files), dtype=bool)
    return factors.values[rows_by_name(list(factors.files), codes.files, every)]


def check_out(path: Path | None, endings: tuple[str, ...], overwrite: bool) -> None:
    """Whether a file may be written, better known before an hour's work than after."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        listed = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise DataError(f"the file to write ends in {listed}, but got {path.name!r}")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise DataError(f"{path} is already there; choose another name, or add --overwrite")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write `.csv` or `.parquet`, whole or not at all."""
    with whole_file(path) as temporary:
        if path.suffix.lower() == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)
