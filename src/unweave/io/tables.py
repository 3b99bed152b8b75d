"""Safe reading of untrusted Parquet tables: plain columns, bounded in size."""

import stat
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unweave.io.plain_data import parse_json

__all__ = ["read_attributes", "read_table"]

MAX_BYTES = 1 << 30
MAX_COLUMNS = 10_000
MAX_VALUES = 100_000_000


def read_table(path: Path, extended_types: bool = False) -> pd.DataFrame:
    """Return a table of numbers and text, as written by `DataFrame.to_parquet(index=False)`.

    The size is checked before reading, because a thousand bytes of compressed or
    dictionary-encoded data may expand to terabytes.

    Args:
        path: Parquet file.
        extended_types: Whether categories, dates, bytes and lists of numbers are allowed too, and
            an index is dropped.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: The file is damaged, too large, or has columns of other types.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    if status.st_size > MAX_BYTES:
        raise ValueError(
            f"{path.name} has {status.st_size:,} bytes; at most {MAX_BYTES:,} are allowed"
        )
    try:
        return _read(path, extended_types)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, RuntimeError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"cannot read {path.name}: {reason}") from error


def read_attributes(path: Path) -> dict[str, Any]:
    """Return the `DataFrame.attrs` saved with a table; raises as `read_table` does."""
    read_table(path, extended_types=True)
    found = _pandas_metadata(pq.read_schema(path)).get("attributes")
    return found if isinstance(found, dict) else {}


def _read(path: Path, extended_types: bool) -> pd.DataFrame:
    with pq.ParquetFile(path) as file:
        metadata, fields = file.metadata, list(file.schema_arrow)
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    in_lists = sum(
        group.column(k).num_values for group in groups for k in range(group.num_columns)
    )
    values = max(metadata.num_rows * max(1, len(fields)), in_lists)
    size = sum(group.total_byte_size for group in groups)
    if len(fields) > MAX_COLUMNS or values > MAX_VALUES or size > MAX_BYTES:
        raise ValueError(
            f"{path.name} is too large: {len(fields):,} columns, {values:,} values, {size:,} bytes"
        )
    fits = _is_common if extended_types else _is_plain
    other = [field for field in fields if not fits(field.type)]
    if other:
        raise ValueError(
            f"column {other[0].name!r} of {path.name} has the unsupported type {other[0].type}"
        )
    text_columns = [
        field.name for field in fields if _is_text(field.type) or _is_bytes(field.type)
    ]
    # Dictionary encoding stores repeated text once, so that its size can be checked first.
    with pq.ParquetFile(path, read_dictionary=text_columns) as file:
        table = file.read()
    if len(set(table.column_names)) != len(table.column_names):
        raise ValueError(f"{path.name} has two columns with the same name")
    text_bytes = sum(_expanded_bytes(table[name]) for name in text_columns)
    if text_bytes > MAX_BYTES:
        raise ValueError(f"{path.name} is too large: it has {text_bytes:,} bytes of text")
    frame: pd.DataFrame = table.cast(pa.schema(fields)).to_pandas(ignore_metadata=True)
    return frame.drop(columns=_index_columns(table.schema, frame)) if extended_types else frame


def _index_columns(schema: pa.Schema, frame: pd.DataFrame) -> list[str]:
    """Return the columns of a table that were the index of a data frame."""
    named = _pandas_metadata(schema).get("index_columns")
    columns = named if isinstance(named, list) else []
    return [name for name in columns if isinstance(name, str) and name in frame]


def _pandas_metadata(schema: pa.Schema) -> dict[str, Any]:
    metadata = parse_json((schema.metadata or {}).get(b"pandas", b"{}"))
    return metadata if isinstance(metadata, dict) else {}


def _is_common(kind: pa.DataType) -> bool:
    category = pa.types.is_dictionary(kind) and _is_plain(kind.value_type)
    numbers = pa.types.is_list(kind) and pa.types.is_primitive(kind.value_type)
    return _is_plain(kind) or category or numbers or pa.types.is_temporal(kind) or _is_bytes(kind)


def _is_plain(kind: pa.DataType) -> bool:
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return _is_text(kind) or any(test(kind) for test in numbers)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _expanded_bytes(column: pa.ChunkedArray) -> int:
    """Return an upper bound on the size of a text column without dictionary encoding."""
    longest = [pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0 for chunk in column.chunks]
    return sum(len(chunk) * most for chunk, most in zip(column.chunks, longest, strict=True))
