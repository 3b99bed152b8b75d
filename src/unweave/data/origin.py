"""How a data set came about, as plain data, and how to make it again from that.

    [["load", "dsprites", {}], ["slice", {"shape": [0, 2]}], ["correlate", "posX", "posY", 0.5]]

Your own images are remembered with a digest of their pixels, so that a model knows its data even
when files change under the same path.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.catalog import DATASETS
from unweave.data.dataset import Dataset
from unweave.data.stores import Store
from unweave.errors import DataError

__all__ = ["rebuild", "remember"]


def remember(data: Dataset, source: Any, options: Mapping[str, Any]) -> Dataset:
    """The data set with the first step of its origin: how it was loaded."""
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in sorted(options.items())}
    if isinstance(source, str) and source in DATASETS:
        return replace(data, origin=(["load", source, plain],))
    kept = {name: plain[name] for name in ("size", "channels") if name in plain}
    where = str(Path(source).resolve()) if isinstance(source, str | Path) else None
    return replace(data, origin=(["own", where, kept, digest(data.store)],))


def rebuild(origin: Sequence[Sequence[Any]]) -> Dataset:
    """Make a data set again from its origin."""
    from unweave.data import load

    if not origin:
        raise DataError(
            "this model does not say what data it was trained on; load the data yourself"
        )
    first, *rest = origin
    if first[0] == "load":
        data = load(first[1], **first[2])
    elif first[1] is None:
        raise DataError(
            "this model was trained on an array, which is not kept; pass the data yourself"
        )
    else:
        data = load(first[1], **first[2])
        if digest(data.store) != first[3]:
            raise DataError(
                f"the images in {first[1]} are not those that the model was trained on"
            )
    for step, *arguments in rest:
        options = arguments.pop() if isinstance(arguments[-1], Mapping) else {}
        data = getattr(data, step)(*arguments, **options)
    return data


def digest(store: Store) -> str:
    """A short hash of all pixels."""
    sha = hashlib.sha256()
    for field in fields(store):  # type: ignore[arg-type]
        value = getattr(store, field.name)
        sha.update(
            np.ascontiguousarray(value).data
            if isinstance(value, np.ndarray)
            else repr(value).encode()
        )
    return sha.hexdigest()[:16]
