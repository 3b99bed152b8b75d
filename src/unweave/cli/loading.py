"""What was said on the command line, and the data set that it names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unweave.errors import DataError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["named_data", "said"]


def said(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that somebody gave."""
    return {name: value for name, value in options.items() if value is not None}


def named_data(source: str | None, options: Mapping[str, Any]) -> "Dataset | None":
    """The data set of `--data`, loaded as the options say; None where it is not given."""
    from unweave.data import load

    given = said(options)
    if source is not None:
        return load(source, **given)
    if given:
        raise DataError(f"--{next(iter(given))} says how to load --data, but that is not given")
    return None
