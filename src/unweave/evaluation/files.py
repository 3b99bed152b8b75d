"""Tables of codes, factors and scores in files: `.npy`, `.npz`, `.csv`, `.parquet`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from unweave.data.array_files import UNREADABLE, read_numpy
from unweave.data.tables import FILE_COLUMNS, read_csv, rows_by_name
from unweave.errors import DataError
from unweave.io.paths import check_file, check_out
from unweave.io.tables import read_table
from unweave.io.writing import whole_file
from unweave.text import readable

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
    readers = {".npy": _numpy, ".npz": _numpy, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{what} are a .npy, .npz, .csv or .parquet file, but got {path.name!r}")
    check_file(path, what)
    try:
        found = reader(path, what)
        if isinstance(found, pd.DataFrame):
            return _numbers(found, path, what)
    except UNREADABLE as error:  # pandas' and pyarrow's errors are among them
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"cannot read {what} from {path}: {reason}") from error
    return Columns(found[:, None] if found.ndim == 1 else found, None)


def _numpy(path: Path, what: str) -> np.ndarray:
    def pick(names: Sequence[str]) -> str:
        if what in names:
            return what
        if len(names) != 1:
            raise DataError(
                f"{path} has {len(names)} arrays ({', '.join(names[:10])}), none of which is "
                f"called {what!r}; name one so"
            )
        return names[0]

    return read_numpy(path, pick)


def _csv(path: Path, what: str) -> pd.DataFrame:  # noqa: ARG001 - all readers take both
    (first,) = read_csv(path, header=None, nrows=1, dtype=str, na_filter=False).to_numpy()
    named = not all(map(_is_number, first))
    return read_csv(path, header=0 if named else None)


def _parquet(path: Path, what: str) -> pd.DataFrame:  # noqa: ARG001 - as above
    return read_table(path, more_types=True)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(frame: pd.DataFrame, path: Path, what: str) -> Columns:
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{path} has two columns called {twice!r}; rename one of them")
    files = None
    for name in frame:
        words = not pd.api.types.is_numeric_dtype(frame[name])
        if str(name).lower() in FILE_COLUMNS and words and frame[name].notna().all():
            files = tuple(map(readable, frame.pop(name).astype(str)))
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


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write `.csv` or `.parquet`, whole or not at all."""
    # Opened here, since not every writer takes paths that are not UTF-8.
    with whole_file(path) as temporary, temporary.open("wb") as file:
        if path.suffix.lower() == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False)
