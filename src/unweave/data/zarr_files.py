"""Zarr arrays and folders, which are untrusted: one of the codecs would load pickles."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.data.archives import reading
from unweave.data.array_files import array_name, check_stored
from unweave.errors import DataError
from unweave.io.arrays import free_memory
from unweave.io.extras import import_extra
from unweave.text import shown

if TYPE_CHECKING:
    import zarr

__all__ = ["is_zarr", "is_zarr_array", "open_zarr"]

METADATA = ("zarr.json", ".zarray", ".zgroup")
CODECS = (
    *("bytes", "transpose", "sharding_indexed", "blosc", "gzip", "zlib", "zstd", "lz4", "lzma"),
    *("bz2", "crc32c", "crc32", "adler32", "fletcher32", "shuffle", "delta", "bitround"),
    *("fixedscaleoffset", "quantize", "packbits"),
)
"""Codecs that only compress. Others decode Python objects or run code."""
MAX_ARRAYS = 1_000
ADVICE = "check that it is a complete Zarr folder"


def is_zarr(folder: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any((folder / name).is_file() for name in METADATA)


def is_zarr_array(source: Any) -> bool:
    """Whether an object is a Zarr array; the library is not imported."""
    module = type(source).__module__.partition(".")[0]
    return module == "zarr" and type(source).__name__ == "Array"


def open_zarr(folder: Path) -> "zarr.Array":
    """Open the array of images in a folder, without reading it."""
    library = import_extra("zarr", "zarr", "zarr", f"reads {folder.name}")
    with reading(folder, ADVICE):
        _refuse_links(folder)
        try:
            found = library.open(str(folder), mode="r")
        except (AttributeError, IndexError) as error:  # of broken metadata
            raise ValueError(str(error)) from error
        if not is_zarr_array(found):
            names = {}
            for count, (name, array) in enumerate(found.arrays()):
                if count == MAX_ARRAYS:
                    raise ValueError(f"it has more than {MAX_ARRAYS:,} arrays")
                names[name] = array
            images = [name for name, array in names.items() if array.ndim in (3, 4)]
            found = names[array_name(folder, sorted(names), images)]
        _check(folder, found)
    return found


def _refuse_links(folder: Path) -> None:
    """Raise an error if a folder contains a link, through which other files could be read."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (Path(place) / name).is_symlink():
                raise ValueError(f"{shown(name)} is a link; replace it with its target")


def _check(folder: Path, array: "zarr.Array") -> None:
    """Reject objects, codecs that do more than compress, huge chunks and missing data."""
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{folder} must be a numeric array, got {array.dtype}",
            subject=folder,
            value=str(array.dtype),
        )
    for codec in _codecs(array.metadata.to_dict()):
        if codec not in CODECS:
            raise DataError(
                f"{folder} uses the codec {shown(codec)}, which is not allowed; save it again "
                "with another, such as zstd",
                subject=folder,
                value=codec,
            )
    chunk = array.dtype.itemsize
    for length in getattr(array, "shards", None) or array.chunks:
        chunk *= length
    if chunk > free_memory() // 4:
        raise ValueError(f"its chunks take {chunk / 1e9:,.3g} GB each; use smaller chunks")
    check_stored(folder, array.nbytes, array.nbytes_stored())


def _codecs(plain: Any) -> Iterator[str]:
    """Yield the names of all codecs in metadata, nested ones too."""
    if isinstance(plain, Mapping):
        for key in ("codecs", "index_codecs", "filters"):
            yield from _listed(plain.get(key))
        yield from _listed([plain.get("compressor")])


def _listed(codecs: Any) -> Iterator[str]:
    for codec in codecs or ():
        if codec is not None:
            plain = codec if isinstance(codec, Mapping) else codec.get_config()
            yield str(plain.get("name", plain.get("id"))).removeprefix("numcodecs.")
            yield from _codecs(plain.get("configuration"))
