"""Reading and writing codes, factors and scores as `.npy`, `.npz`, `.csv` or `.parquet`."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from unweave.data.archives import READ_ERRORS
from unweave.data.array_files import read_numpy
from unweave.data.tables import FILE_COLUMNS, read_csv, rows_by_name
from unweave.errors import DataError
from unweave.io.paths import check_file, check_out
from unweave.io.tables import read_table
from unweave.io.writing import whole_file
from unweave.text import printable

__all__ = ["Columns", "check_out", "in_order", "read_columns", "write_table"]

LOGVAR = re.compile(r"logvar\d+")
"""Column names of log-variances written by `unweave encode --logvar`."""


class Columns(NamedTuple):
    """A table `[n, columns]` with optional column names and one optional file name per row."""

    values: np.ndarray
    names: tuple[str, ...] | None
    files: tuple[str, ...] | None = None


def read_columns(path: Path, what: str) -> Columns:
    """Read codes or factors from a file.

    Args:
        path: `.npy`; `.npz` with one array, or with an array named `what`; `.csv` with or
            without a header; or `.parquet`. A column of file names (`file`, `path`, …) is used by
            `in_order`. Log-variances written by `unweave encode` are ignored.
        what: `"codes"` or `"factors"`. Text columns of factors are read as classes.
    """
    readers = {".npy": _numpy, ".npz": _numpy, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError.must(what, "be a .npy, .npz, .csv or .parquet file", path)
    check_file(path, what)
    try:
        found = reader(path, what)
        if isinstance(found, pd.DataFrame):
            return _numbers(found, path, what)
    except READ_ERRORS as error:  # includes the errors of pandas and pyarrow
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"cannot read {what} from {path}: {reason}", subject=path, value=reason
        ) from error
    return Columns(found[:, None] if found.ndim == 1 else found, None)


def _numpy(path: Path, what: str) -> np.ndarray:
    def pick(names: Sequence[str]) -> str:
        if what in names:
            return what
        if len(names) != 1:
            raise DataError(
                f"{path} has {len(names)} arrays ({', '.join(names[:10])}), but none named "
                f"{what!r}; rename one to {what!r}",
                subject=what,
                value=list(names),
            )
        return names[0]

    return read_numpy(path, pick)


def _csv(path: Path, what: str) -> pd.DataFrame:  # noqa: ARG001 - all readers take both
    (first,) = read_csv(path, header=None, nrows=1, dtype=str, na_filter=False).to_numpy()
    named = not all(map(_is_number, first))
    return read_csv(path, header=0 if named else None)


def _parquet(path: Path, what: str) -> pd.DataFrame:  # noqa: ARG001 - as above
    return read_table(path, extended_types=True)


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(frame: pd.DataFrame, path: Path, what: str) -> Columns:
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(
            f"{path} has two columns named {twice!r}; rename one of them",
            subject=path,
            value=twice,
        )
    files = None
    for name in frame:
        is_text = not pd.api.types.is_numeric_dtype(frame[name])
        if str(name).lower() in FILE_COLUMNS and is_text and frame[name].notna().all():
            files = tuple(map(printable, frame.pop(name).astype(str)))
            break
    if what == "codes":
        frame = frame[[name for name in frame if not LOGVAR.fullmatch(str(name))]]
    columns = []
    for name in frame:
        column = frame[name]
        if column.isna().any():
            row = int(column.isna().argmax())
            raise DataError(
                f"{what} must not have missing values, but row {row} of column {name!r} in {path} "
                "is empty; fill it in or remove the row",
                subject=name,
                value=row,
            )
        if not pd.api.types.is_numeric_dtype(column):
            if what != "factors":
                raise DataError(
                    f"{what} must be numbers, but column {name!r} of {path} contains text; "
                    "remove it or encode it as numbers",
                    subject=name,
                )
            column = pd.Series(pd.factorize(column, sort=True)[0])
        columns.append(column.to_numpy())
    named = all(isinstance(name, str) for name in frame)
    names = tuple(frame) if named else None
    if not columns:
        raise DataError(f"{path} has no columns of {what}; check the file", subject=what)
    return Columns(np.stack(columns, 1), names, files)


def in_order(factors: Columns, codes: Columns) -> np.ndarray:
    """Return the factors in the order of the codes: matched by file name if both have one."""
    if factors.files is None or codes.files is None:
        return factors.values
    every = np.ones(len(codes.files), dtype=bool)
    return factors.values[rows_by_name(list(factors.files), codes.files, every)]


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a `.csv` or `.parquet` file atomically."""
    # The file is opened here because not every writer accepts paths that are not UTF-8.
    with whole_file(path) as temporary, temporary.open("wb") as file:
        if path.suffix.lower() == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False)
