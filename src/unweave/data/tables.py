"""Tables of factors: a CSV file, a dictionary, an array or a data frame, as classes."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from numbers import Real
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.data.grid import Factor, Grid, Labels
from unweave.errors import DataError
from unweave.io.arrays import on_host
from unweave.io.paths import path_errors
from unweave.io.plain_data import read_text
from unweave.text import readable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FILE_COLUMNS", "arrange", "factor_table", "read_csv", "rows_by_name"]

FILE_COLUMNS = ("file", "filename", "path", "image")
MOST_BYTES = 1 << 30
"""Of a CSV file: tens of millions of images."""
MOST_COLUMNS = 5_000
"""Of a CSV file; pandas reads about 5,000 a second."""
LONGEST_LINE = 1 << 20


def factor_table(
    factors: Any, kept: np.ndarray, files: Sequence[str] = ()
) -> tuple[tuple[Factor, ...], np.ndarray]:
    """Read a table of factors and match its rows to the images.

    A column called file, filename, path or image says which image a row belongs to; without one,
    rows are in the order of the images. Text is a category, numbers are ordered; a class is a
    value's position among the sorted distinct values of its column.

    Args:
        factors: The path of a CSV file with a header, a mapping of names to columns, an array
            `[N, K]`, or a data frame.
        kept: `[N]`, which of the images could be read; the rows of the others are dropped.
        files: The relative paths of all N images, where they have any.

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
        raise DataError(f"the columns of factors differ in length ({lengths}); give all N values")
    keys = [name for name in columns if name.lower() in FILE_COLUMNS]
    if len(keys) > 1:
        raise DataError(f"the factors name files in the columns {keys}; keep only one of them")
    if keys:
        rows = rows_by_name([str(name) for name in columns.pop(keys[0])], files, kept)
    elif columns:
        rows = _rows_in_order(next(iter(lengths.values())), kept)
    if not columns:
        raise DataError("the table of factors has no factor; add a column for each")
    axes, classes = zip(
        *(_factor(name, values[rows], rows) for name, values in columns.items()), strict=True
    )
    return axes, np.stack(classes, -1)


def arrange(axes: tuple[Factor, ...], classes: np.ndarray) -> tuple[Grid | Labels, np.ndarray]:
    """A grid, where the images are one, or else labels; and the order to put the images in."""
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
            f"an array of factors has one row per image and one column per factor, "
            f"but its shape is {array.shape}; make it [N, K]"
        )
    return {f"factor_{k}": array[:, k] for k in range(array.shape[1])}


def _flat(name: str, values: Any) -> np.ndarray:
    array = _numpy(values)
    if array.ndim != 1:
        raise DataError(
            f"the factor {name!r} needs one value per image, but its shape is {array.shape}; "
            "give a column for each factor"
        )
    return array


def _numpy(values: Any) -> np.ndarray:
    if isinstance(values, list | tuple) and any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)  # NumPy would turn numbers among text into text
    return on_host(values)


def read_csv(source: Path | io.StringIO, **options: Any) -> "pd.DataFrame":
    """A CSV file as pandas reads it, or the text of one.

    Args:
        source: The file, or its text.
        options: Of `pandas.read_csv`.

    Raises:
        ValueError: It is damaged, as pandas says, or has too many columns.
        OSError: It cannot be read.
    """
    import pandas as pd

    with (
        source.open(encoding="utf-8-sig", newline="")
        if isinstance(source, Path)
        else (nullcontext(source)) as lines
    ):
        # Of every line: pandas takes cells beyond the header for an index, one level for each.
        pieces = iter(partial(lines.readline, LONGEST_LINE), "")
        columns = max((piece.count(",") for piece in pieces), default=0) + 1
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"it has {columns:,} columns, more than {MOST_COLUMNS:,}; save it as .npy"
        )
    if isinstance(source, io.StringIO):
        source.seek(0)
    return pd.read_csv(source, **options)


def _read_factors(path: Path) -> dict[str, np.ndarray]:
    """The columns of a CSV file whose first line has their names, each cell as it is written."""
    from pandas.errors import EmptyDataError

    try:
        text = io.StringIO(read_text(path, MOST_BYTES).removeprefix("\ufeff"))
        cells = read_csv(text, header=None, dtype=str, na_filter=False).to_numpy(object)
    except EmptyDataError as error:
        raise DataError(
            f"the table of factors {path} is empty; begin it with a line of names"
        ) from error
    except (OSError, ValueError) as error:  # pandas' errors are among them
        reason = " ".join(str(error).split())
        raise DataError(
            f"cannot read the table of factors {path} ({reason}); give a CSV file in UTF-8 with "
            "as many cells in each row as the header has"
        ) from error
    header = [cell.strip() for cell in cells[0]]
    _check_names(header, str(path))
    for row, line in enumerate(cells[1:], 1):
        for name, cell in zip(header, line, strict=True):
            if not cell.strip():
                raise DataError(
                    f"row {row} of {path} has an empty cell under {name!r}; fill it in"
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
            f"column {names.index('') + 1} of {source} has no name; name it, or leave it out "
            "(pandas: to_csv(..., index=False))"
        )
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"{source} has two columns called {twice!r}; rename one of them")
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise DataError(
            f"{source} has the single column {names[0]!r}; separate the columns by commas"
        )


def _typed(cells: list[str]) -> np.ndarray:
    """The cells of a column as whole numbers or floats, if they all are, and otherwise as text."""
    if "_" in "".join(cells):  # Python reads 1_2 as the number 12; in a table it is a name
        return np.array(cells)
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(cell) for cell in cells], dtype=kind)
        except (ValueError, OverflowError):
            continue
    return np.array(cells)


def _rows_in_order(count: int, kept: np.ndarray) -> np.ndarray:
    if count != len(kept):
        lost = f" ({len(kept) - kept.sum():,} of them unreadable)" if not kept.all() else ""
        raise DataError(
            f"the table of factors has {count:,} rows, but there are {len(kept):,} images{lost}; "
            "give one row per image, in their order, or name them in a column called 'file'"
        )
    return np.flatnonzero(kept)


def rows_by_name(names: list[str], files: Sequence[str], kept: np.ndarray) -> np.ndarray:
    """The row of each kept image, by its path or, where only one image has it, its base name.

    Names of both are compared as they are shown; see `unweave.text.readable`.
    """
    if not files:
        raise DataError(
            "the table of factors names files, but an array of images has none; "
            "leave that column out and give the rows in the order of the images"
        )
    bases = [PurePosixPath(file).name for file in files]
    shared = {base for base, count in Counter(bases).items() if count > 1}
    places = {base: place for place, base in enumerate(bases) if base not in shared}
    places |= {file: place for place, file in enumerate(files)}
    rows = np.full(len(files), -1)
    for row, name in enumerate(names):
        shown = readable(PurePosixPath(name))
        place = places.get(shown, places.get(shown.strip()))
        if place is None:
            why = "several folders have it; give its path" if name in shared else "remove the row"
            raise DataError(
                f"row {row + 1} of the factors is for {name!r}, which is not the path of an "
                f"image that was found; {why}"
            )
        if rows[place] >= 0:
            raise DataError(
                f"rows {rows[place] + 1} and {row + 1} of the factors are both for "
                f"{files[place]!r}; keep one of them"
            )
        rows[place] = row
    missing = np.flatnonzero(kept & (rows < 0))
    if len(missing):
        raise DataError(
            f"the table of factors has no row for {len(missing):,} of the images, the first "
            f"{files[missing[0]]!r}; give one row per image"
        )
    return rows[kept]


def _factor(name: str, values: np.ndarray, rows: np.ndarray) -> tuple[Factor, np.ndarray]:
    if values.dtype.kind == "O":
        values = _from_objects(name, values, rows)
    if values.dtype.kind not in "biufU":
        raise DataError(
            f"the factor {name!r} is of type {values.dtype}; give numbers or text instead"
        )
    text = values.dtype.kind == "U"
    empty = np.char.strip(values) == "" if text else ~np.isfinite(values)
    if empty.any():
        first = empty.argmax()
        raise DataError(
            f"the factor {name!r} is {values[first].item()!r} in row {rows[first] + 1}; "
            "fill in a number or a name"
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
        f"the factor {name!r} is {values[odd[0]]!r} in row {rows[odd[0]] + 1}, unlike the others; "
        "give only numbers or only text"
    )
