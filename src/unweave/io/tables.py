"""Read small Parquet tables that a stranger may have written: plain columns, bounded in size."""

import stat
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["read_table"]

MOST_BYTES = 1 << 30
MOST_COLUMNS = 10_000
MOST_VALUES = 100_000_000


def read_table(path: Path) -> pd.DataFrame:
    """A table of numbers and words, as `DataFrame.to_parquet(index=False)` wrote it.

    How large it will be is known before it is read: compressed or dictionary-encoded, a thousand
    bytes may stand for terabytes.

    Raises:
        OSError: It is missing or cannot be read.
        ValueError: It is damaged, too large, or holds other things than numbers and words.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    if status.st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has {status.st_size:,} bytes, more than {MOST_BYTES:,}")
    try:
        return _read(path)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, RuntimeError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path.name} cannot be read: {reason}") from error


def _read(path: Path) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        about, fields = file.metadata, list(file.schema_arrow)
    groups = [about.row_group(place) for place in range(about.num_row_groups)]
    values = about.num_rows * max(1, len(fields))
    size = sum(group.total_byte_size for group in groups)
    if len(fields) > MOST_COLUMNS or values > MOST_VALUES or size > MOST_BYTES:
        raise ValueError(f"{path.name} claims {values:,} values, more than expected")
    other = [field for field in fields if not _is_plain(field.type)]
    if other:
        raise ValueError(f"{path.name} has a column of type {other[0].type}")
    words = [field.name for field in fields if _is_text(field.type)]
    # As dictionaries, so that words that occur often are still held once when they are counted.
    with pq.ParquetFile(path, read_dictionary=words) as file:
        table = file.read()
    if len(set(table.column_names)) != len(table.column_names):
        raise ValueError(f"{path.name} has two columns of one name")
    letters = sum(_letters(table[name]) for name in words)
    if letters > MOST_BYTES:
        raise ValueError(f"{path.name} claims {letters:,} letters, more than expected")
    return table.cast(pa.schema(fields)).to_pandas(ignore_metadata=True)


def _is_plain(kind: pa.DataType) -> bool:
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return _is_text(kind) or any(test(kind) for test in numbers)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _letters(column: pa.ChunkedArray) -> int:
    """How many bytes a column of words has when every word is written out; at most, about."""
    longest = [pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in column.chunks]
    return sum(len(chunk) * most for chunk, most in zip(column.chunks, longest, strict=True))
