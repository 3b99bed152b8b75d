"""Reading files of benchmarks/results, and formatting links and settings."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
LINKS = "../../benchmarks/results"
MISSING = "Not measured yet."


@cache
def read(name: str) -> Any:
    """Read a file of results as a dictionary or a frame."""
    path = RESULTS / name
    return pd.read_csv(path) if path.suffix == ".csv" else json.loads(path.read_text())


def link(name: str) -> str:
    """Return a link from a page to a file of results."""
    return f"[{Path(name).name}]({LINKS}/{name})"


def format_settings(names: Sequence[str], values: Sequence[Any]) -> str:
    """Format settings as Python arguments.

    Example:
        >>> format_settings(["beta", "fast"], [4.0, True])
        '`beta=4`, `fast=True`'
    """
    known = [
        f"`{name}={value if isinstance(value, bool) else format(value, 'g')}`"
        for name, value in zip(names, values, strict=False)
        if not pd.isna(value) and value is not False
    ]
    return ", ".join(known) or "default"
