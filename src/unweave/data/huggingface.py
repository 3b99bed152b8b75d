"""Hugging Face data sets: in memory, or folders written by `Dataset.save_to_disk`.

Images are decoded as those of a folder. Folders are untrusted: types of columns are checked before
the library creates them, data files must lie in the folder, and images must be stored in them.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from unweave.data.archives import reading
from unweave.data.picture_sources import Outcome, Preprocessing, Source, attempted, check_regular
from unweave.data.pictures import read_picture
from unweave.errors import DataError, UnknownNameError
from unweave.io.extras import import_extra
from unweave.io.plain_data import read_json
from unweave.text import printable, shown

if TYPE_CHECKING:
    import datasets

__all__ = [
    "arrays_of",
    "columns_as_factors",
    "image_column",
    "is_hugging_face",
    "is_saved",
    "one_split",
    "open_saved",
    "rows",
]

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
FEATURES = (
    *("Array2D", "Array3D", "Array4D", "Array5D", "Audio", "ClassLabel", "Image", "LargeList"),
    *("List", "Nifti", "Pdf", "Sequence", "Translation", "TranslationVariableLanguages"),
    *("Value", "Video"),
)
"""Types of columns. The library looks a type up by the name in the file."""
CLASSES = (
    "datasets.arrow_dataset.Dataset",
    "datasets.dataset_dict.DatasetDict",
    "datasets.dataset_dict.IterableDatasetDict",
    "datasets.iterable_dataset.IterableDataset",
)
COLUMNS = ("image", "img")
"""Names by which the column of images is found among several."""
ADVICE = "save it again with Dataset.save_to_disk"


def is_hugging_face(source: Any) -> bool:
    """Whether an object is a data set of the library, which is not imported."""
    return any(f"{cls.__module__}.{cls.__name__}" in CLASSES for cls in type(source).__mro__)


def is_saved(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return (folder / SPLITS).is_file() or (
        (folder / STATE).is_file() and (folder / INFO).is_file()
    )


def open_saved(folder: Path) -> "datasets.Dataset":
    """Open a folder written by `Dataset.save_to_disk`, without reading its images."""
    library = import_extra("datasets", "datasets", "huggingface", f"reads {folder.name}")
    with reading(folder, ADVICE):
        if (folder / SPLITS).is_file():
            names = _strings(read_json(folder / SPLITS)["splits"])
            if len(names) != 1 or Path(names[0]).name != names[0]:
                raise _several(names, f"load one of the folders in {folder}")
            folder /= names[0]
        files = [part["filename"] for part in read_json(folder / STATE)["_data_files"]]
        _check_types(read_json(folder / INFO))
        for name in _strings(files):
            if Path(name).name != name:
                raise ValueError(f"its data is in {shown(name)}, outside the folder")
            check_regular(folder / name)
            with pa.memory_map(str(folder / name)) as file:
                metadata = pa.ipc.open_stream(file).schema.metadata or {}
            _check_types(json.loads(metadata.get(b"huggingface", b"{}")))
        try:
            return library.Dataset.load_from_disk(str(folder))
        except AttributeError as error:  # of entries of another kind than expected
            raise ValueError(str(error)) from error


def one_split(source: Any) -> "datasets.Dataset":
    """Return the data set itself, or the only split of a dictionary of them."""
    if isinstance(source, Mapping):
        if len(source) != 1:
            raise _several(list(source), "pass one of them, such as dataset['train']")
        (source,) = source.values()
    if not hasattr(source, "__len__"):
        raise DataError(
            f"a streamed data set has no order or length, got {type(source).__name__}; load it "
            "without streaming=True",
            subject="source",
            value=type(source).__name__,
        )
    return source


def image_column(dataset: "datasets.Dataset") -> str:
    """Return the name of the column of images."""
    kinds = {name: type(feature).__name__ for name, feature in dataset.features.items()}
    for wanted in (("Image",), ("Array2D", "Array3D")):
        found = [name for name, kind in kinds.items() if kind in wanted]
        named = [name for name in COLUMNS if name in found]
        if len(found) == 1 or named:
            return (named or found)[0]
        if found:
            raise DataError(
                f"the data set must have one column of images, got {', '.join(found)}; choose "
                "one with dataset.select_columns, or call it image",
                subject="source",
                value=found,
            )
    raise DataError(
        "the data set must have a column of type Image, Array2D or Array3D, got "
        f"{shown(kinds)}; cast the column of images with dataset.cast_column",
        subject="source",
        value=kinds,
    )


def arrays_of(dataset: "datasets.Dataset", column: str) -> np.ndarray | None:
    """Return the images of a column of arrays; None for a column of encoded images."""
    if type(dataset.features[column]).__name__ == "Image":
        return None
    return np.asarray(dataset.with_format("numpy", columns=[column])[:][column])


def rows(dataset: "datasets.Dataset", column: str, name: str, saved: bool) -> list[Source]:
    """Return the sources of the images in a column, `name[0]`, `name[1]` ….

    Args:
        dataset: Data set.
        column: Column of images.
        name: Name of the data set.
        saved: Whether it was read from a folder, so that it must not name other files.
    """
    encoded = type(dataset.features[column])(decode=False)
    plain = dataset.with_format(None).select_columns([column]).cast_column(column, encoded)
    read = partial(_read_row, plain, column, saved)
    return [Source((f"{name}[{row}]",), partial(read, row)) for row in range(len(dataset))]


def _read_row(
    dataset: "datasets.Dataset", column: str, saved: bool, row: int, options: Preprocessing
) -> list[Outcome]:
    def read() -> Any:
        cell = dataset[row][column]
        if cell is None:
            raise ValueError("there is no image")
        if cell["bytes"] is not None:
            return read_picture(io.BytesIO(cell["bytes"]), *options)
        path = Path(cell["path"])
        if saved:
            raise ValueError("only the path of its file is stored, not the image")
        check_regular(path)
        return read_picture(path, *options)

    return [attempted(read)]


def columns_as_factors(dataset: "datasets.Dataset", factors: Any) -> Any:
    """Return the columns of the given names as factors, and other tables as they are.

    Names are one text, separated by commas, or a list. Class labels become their names.
    """
    if isinstance(factors, str | Path):
        names = [str(factors)] if str(factors) in dataset.column_names else str(factors).split(",")
        if not set(names) <= set(dataset.column_names):
            return factors
        factors = names
    several = isinstance(factors, Sequence) and len(factors) > 0
    if not several or not all(isinstance(name, str) for name in factors):
        return factors
    return {name: _values(dataset, name) for name in factors}


def _values(dataset: "datasets.Dataset", name: str) -> list[Any]:
    if name not in dataset.column_names:
        raise UnknownNameError("column", name, dataset.column_names)
    values = dataset.with_format(None).select_columns([name])[:][name]
    names = getattr(dataset.features[name], "names", None)
    missing = [
        row
        for row, value in enumerate(values)
        if value is None or (names and value not in range(len(names)))
    ]
    if missing:
        raise DataError(
            f"column {name!r} has no value in row {missing[0]}; fill it in, or leave out the row",
            subject=name,
            value=missing[0],
        )
    return [names[value] for value in values] if names else list(values)


def _several(names: Sequence[str], advice: str) -> DataError:
    return DataError(
        f"the data set has the splits {', '.join(map(printable, names)) or 'none'}; {advice}",
        subject="source",
        value=list(names),
    )


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"it must list names, got {shown(values)}")
    return values


def _check_types(plain: Any) -> None:
    """Reject types of features other than those of the library, at any depth."""
    for value in _types_in(plain):
        if value not in FEATURES:
            raise ValueError(f"it has a column of unknown type {shown(value)}")


def _types_in(plain: Any) -> Iterator[Any]:
    if isinstance(plain, Mapping):
        if "_type" in plain and not isinstance(plain["_type"], Mapping):
            yield plain["_type"]
        for value in plain.values():
            yield from _types_in(value)
    elif isinstance(plain, list):
        for value in plain:
            yield from _types_in(value)
