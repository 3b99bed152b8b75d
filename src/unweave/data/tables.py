"""Tables of ground-truth factors, read from a CSV file, dictionary, array or data frame."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from numbers import Real
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.data.archives import reading
from unweave.data.grid import Factor, Grid, Labels
from unweave.errors import DataError
from unweave.io.arrays import on_host
from unweave.io.paths import path_errors
from unweave.io.plain_data import read_text
from unweave.text import printable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FILE_COLUMNS", "arrange", "factor_table", "read_csv", "rows_by_name"]

FILE_COLUMNS = ("file", "filename", "path", "image")
MAX_BYTES = 1 << 30
"""Largest CSV file, in bytes; enough for tens of millions of images."""
MAX_COLUMNS = 5_000
"""Largest number of columns in a CSV file; pandas reads about 5,000 a second."""
MAX_LINE = 1 << 20
CSV_ADVICE = (
    "the table of factors must be a UTF-8 CSV file with a header line and the same number of "
    "cells in each row"
)


def factor_table(
    factors: Any, kept: np.ndarray, files: Sequence[str] = ()
) -> tuple[tuple[Factor, ...], np.ndarray]:
    """Read a table of factors and match its rows to the images.

    A column called file, filename, path or image names the image of each row; without one, rows
    are in the order of the images. Text is categorical, numbers are ordered. The class of a value
    is its position among the sorted distinct values of the column.

    Args:
        factors: Path of a CSV file with a header, mapping of names to columns, array `[N, K]`, or
            data frame.
        kept: Mask `[N]` of the images that could be read; other rows are dropped.
        files: Relative paths of all N images, if they were read from files.

    Returns:
        The factors, and the classes `[kept.sum(), K]`.

    Example:
        >>> axes, classes = factor_table({"shape": ["heart", "disc", "disc"]}, np.full(3, True))
        >>> axes[0].values, classes[:, 0]
        (('disc', 'heart'), array([1, 0, 0]))
    """
    columns = _columns(factors)
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"columns of factors must have the same length, got {lengths}",
            subject="factors",
            value=lengths,
        )
    keys = [name for name in columns if name.lower() in FILE_COLUMNS]
    if len(keys) > 1:
        raise DataError(
            f"the table of factors must have at most one column of file names, got {keys}",
            subject="factors",
            value=keys,
        )
    if keys:
        rows = rows_by_name([str(name) for name in columns.pop(keys[0])], files, kept)
    elif columns:
        rows = _rows_in_order(next(iter(lengths.values())), kept)
    if not columns:
        raise DataError(
            "the table of factors has no factors; add a column for each factor", subject="factors"
        )
    axes, classes = zip(
        *(_factor(name, values[rows], rows) for name, values in columns.items()), strict=True
    )
    return axes, np.stack(classes, -1)


def arrange(axes: tuple[Factor, ...], classes: np.ndarray) -> tuple[Grid | Labels, np.ndarray]:
    """Return a grid if the images form one, otherwise labels, and the order of the images."""
    grid = Grid(axes)
    if len(grid) == len(classes):
        index = grid.index(classes)
        order = np.argsort(index)
        if np.array_equal(index[order], np.arange(len(grid))):
            return grid, order
    return Labels(axes, classes), np.arange(len(classes))


def _columns(factors: Any) -> dict[str, np.ndarray]:
    if isinstance(factors, str | Path):
        with path_errors(Path(factors), "read"):
            path = Path(factors).expanduser()
        return _read_factors(path)
    if isinstance(factors, Mapping):
        return {str(name): _flat(str(name), values) for name, values in factors.items()}
    if hasattr(factors, "columns"):
        names = [str(name) for name in factors.columns]
        _check_names(names, "the data frame of factors")
        return {
            name: _flat(name, factors[key])
            for name, key in zip(names, factors.columns, strict=True)
        }
    array = _numpy(factors)
    if array.ndim != 2:
        raise DataError(
            f"an array of factors must have shape [N, K], one row per image and one column per "
            f"factor, got {array.shape}",
            subject="factors",
            value=array.shape,
        )
    return {f"factor_{k}": array[:, k] for k in range(array.shape[1])}


def _flat(name: str, values: Any) -> np.ndarray:
    array = _numpy(values)
    if array.ndim != 1:
        raise DataError(
            f"factor {name!r} must have one value per image, got shape {array.shape}; "
            "use one column per factor",
            subject=name,
            value=array.shape,
        )
    return array


def _numpy(values: Any) -> np.ndarray:
    if isinstance(values, list | tuple) and any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)  # NumPy would convert numbers among text to text
    return on_host(values)


def read_csv(source: Path | io.StringIO, **options: Any) -> "pd.DataFrame":
    """Read a CSV file, or its text, with pandas and these options.

    Raises ValueError for malformed files and too many columns, and OSError for unreadable ones.
    """
    import pandas as pd

    with (
        source.open(encoding="utf-8-sig", newline="")
        if isinstance(source, Path)
        else (nullcontext(source)) as lines
    ):
        # Check every line: pandas turns cells beyond the header into index levels.
        pieces = iter(partial(lines.readline, MAX_LINE), "")
        columns = max((piece.count(",") for piece in pieces), default=0) + 1
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"it has {columns:,} columns, more than the limit of {MAX_COLUMNS:,}; save it as .npy"
        )
    if isinstance(source, io.StringIO):
        source.seek(0)
    return pd.read_csv(source, **options)


def _read_factors(path: Path) -> dict[str, np.ndarray]:
    """Read the columns of a CSV file with a header line, converting numeric ones to numbers."""
    with reading(path, CSV_ADVICE):
        text = io.StringIO(read_text(path, MAX_BYTES).removeprefix("\ufeff"))
        cells = read_csv(text, header=None, dtype=str, na_filter=False).to_numpy(object)
    header = [cell.strip() for cell in cells[0]]
    _check_names(header, str(path))
    for row, line in enumerate(cells[1:], 1):
        for name, cell in zip(header, line, strict=True):
            if not cell.strip():
                raise DataError(
                    f"row {row} of {path} has an empty cell in column {name!r}; fill it in",
                    subject=name,
                    value=row,
                )
    return {
        name: cells[1:, k].astype(str)
        if name.lower() in FILE_COLUMNS
        else _typed([cell.strip() for cell in cells[1:, k]])
        for k, name in enumerate(header)
    }


def _check_names(names: list[str], source: str) -> None:
    if "" in names:
        raise DataError(
            f"column {names.index('') + 1} of {source} has no name; name it, or omit it "
            "(pandas: to_csv(..., index=False))",
            subject=source,
            value=names.index("") + 1,
        )
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(
            f"{source} has two columns called {twice!r}; rename one of them",
            subject=source,
            value=twice,
        )
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise DataError(
            f"{source} has a single column {names[0]!r}; separate columns by commas",
            subject=source,
            value=names[0],
        )


def _typed(cells: list[str]) -> np.ndarray:
    """Convert the cells of a column to integers or floats if possible, otherwise keep text."""
    if "_" in "".join(cells):  # Python parses 1_2 as the number 12; in a table it is text
        return np.array(cells)
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(cell) for cell in cells], dtype=kind)
        except (ValueError, OverflowError):
            continue
    return np.array(cells)


def _rows_in_order(count: int, kept: np.ndarray) -> np.ndarray:
    if count != len(kept):
        unread = f" ({len(kept) - kept.sum():,} of them unreadable)" if not kept.all() else ""
        raise DataError(
            f"the table of factors has {count:,} rows for {len(kept):,} images{unread}; "
            "use one row per image in the same order, or add a column 'file' with their names",
            subject="factors",
            value=count,
        )
    return np.flatnonzero(kept)


def rows_by_name(names: list[str], files: Sequence[str], kept: np.ndarray) -> np.ndarray:
    """Return the row of each kept image, matched by path or, if it is unique, by base name.

    Names are compared in printable form; see `unweave.text.printable`.
    """
    if not files:
        raise DataError(
            "the table of factors has file names, but images from an array do not; "
            "remove that column and use the order of the images",
            subject="file",
        )
    bases = [PurePosixPath(file).name for file in files]
    shared = {base for base, count in Counter(bases).items() if count > 1}
    places = {base: place for place, base in enumerate(bases) if base not in shared}
    places |= {file: place for place, file in enumerate(files)}
    rows = np.full(len(files), -1)
    for row, name in enumerate(names):
        shown = printable(PurePosixPath(name))
        place = places.get(shown, places.get(shown.strip()))
        if place is None:
            fix = "several folders have it; use its path" if name in shared else "remove the row"
            raise DataError(
                f"row {row + 1} of the factors is for {name!r}, which does not match any single "
                f"image; {fix}",
                subject="file",
                value=name,
            )
        if rows[place] >= 0:
            raise DataError(
                f"rows {rows[place] + 1} and {row + 1} of the factors are both for "
                f"{files[place]!r}; keep one of them",
                subject="file",
                value=files[place],
            )
        rows[place] = row
    missing = np.flatnonzero(kept & (rows < 0))
    if len(missing):
        raise DataError(
            f"the table of factors has no row for {len(missing):,} of the images, e.g. "
            f"{files[missing[0]]!r}; add one row per image",
            subject="file",
            value=files[missing[0]],
        )
    return rows[kept]


def _factor(name: str, values: np.ndarray, rows: np.ndarray) -> tuple[Factor, np.ndarray]:
    if values.dtype.kind == "O":
        values = _from_objects(name, values, rows)
    if values.dtype.kind not in "biufU":
        raise DataError(
            f"factor {name!r} must be numbers or text, got {values.dtype}",
            subject=name,
            value=values.dtype,
        )
    text = values.dtype.kind == "U"
    empty = np.char.strip(values) == "" if text else ~np.isfinite(values)
    if empty.any():
        first = empty.argmax()
        raise DataError(
            f"factor {name!r} is {values[first].item()!r} in row {rows[first] + 1}; "
            "fill in a number or text",
            subject=name,
            value=int(rows[first] + 1),
        )
    values = values.astype(np.int64) if values.dtype.kind == "b" else values
    found, classes = np.unique(values, return_inverse=True)
    return Factor(name, tuple(found.tolist()), categorical=text), classes


def _from_objects(name: str, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    for kind, dtype in ((str, np.str_), (Real, np.float64)):
        odd = [place for place, value in enumerate(values) if not isinstance(value, kind)]
        if not odd:
            return values.astype(dtype)
        if len(odd) < len(values):
            break
    raise DataError(
        f"factor {name!r} must be all numbers or all text, got {values[odd[0]]!r} in row "
        f"{rows[odd[0]] + 1}",
        subject=name,
        value=int(rows[odd[0]] + 1),
    )
