"""The leader board: which models and columns it shows, and how it writes numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unweave.report.agreement import Findings, settings_of
from unweave.report.comparison import evenly
from unweave.report.labels import label, method_name, symbol
from unweave.report.saved_runs import DIVERGED
from unweave.report.subject import ABOUT

__all__ = ["Column", "columns_of", "digits_of", "record", "shown", "text_of"]

FOUND = ("udr", "active", "found", "front")
MAIN = ("reconstruction", "kl", *FOUND)
LOSSES = ("loss", "discriminator loss")


@dataclass(frozen=True)
class Column:
    """A column of the leader board.

    Args:
        key: Its name in the table.
        label: Its heading.
        numeric: Whether it holds numbers, and so can be an axis.
        more: Whether it is hidden until it is asked for.
        digits: How many its numbers have after the point.
    """

    key: str
    label: str
    numeric: bool = True
    more: bool = False
    digits: int = 0


def columns_of(found: Findings) -> list[Column]:
    """The columns of the leader board after the model's name."""
    table = found.table
    same, varied = settings_of(found.given)
    own = [name for name in (*same, *varied) if name.startswith("method.")]
    own += [name.removeprefix("method.") for name in own]
    columns = [Column("data", "data", numeric=False)] if table["data"].nunique() > 1 else []
    columns += [Column("method", "method", numeric=False)]
    numbers = [
        name
        for name in table.columns
        if name not in ABOUT and name not in own and pd.api.types.is_numeric_dtype(table[name])
    ]
    main = [name for name in MAIN if name in numbers and table[name].notna().any()]
    rest = [name for name in numbers if name not in MAIN]
    headline = [name for name in rest if "." not in name.removeprefix("sampled.")]
    further = [name for name in rest if name not in headline]
    hidden = {*LOSSES, *further}
    labels = {"strength": _strength_label(found)} if table["strength"].notna().any() else {}
    labels |= {name: label(name) for name in ("seed", *main, *headline, *further)}
    return columns + [
        Column(name, heading, more=name in hidden, digits=digits_of(table[name]))
        for name, heading in labels.items()
    ]


def _strength_label(found: Findings) -> str:
    """`β` where every strength is that of one setting, else `strength`."""
    table, names = found.table, set()
    for method, rows in table.groupby("method"):
        config = found.given.configs[rows["run"].iloc[0]]["method"]
        strength = rows["strength"].iloc[0]
        names.add(
            next((n for n, v in config.items() if n != "name" and v == strength), str(method))
        )
    name = names.pop() if len(names) == 1 else "strength"
    return symbol(name, {config["method"]["name"] for config in found.given.configs.values()})


def digits_of(values: pd.Series) -> int:
    """Digits after the point: three for scores, fewer for large numbers, none for whole ones.

    Example:
        >>> [digits_of(pd.Series(v)) for v in ([1.0, 7.0], [0.1, -0.9], [6.7, 12.1], [1e-3, 2e-4])]
        [0, 3, 2, 4]
    """
    numbers = values[np.isfinite(values.astype(float))].astype(float)
    if numbers.empty or (numbers == numbers.round()).all():
        return 0
    power = math.floor(math.log10(max(float(numbers.abs().max()), 1e-9)))
    return max(3 - power, 0) if power >= 0 else min(max(1 - power, 3), 9)


def text_of(value: Any, digits: int) -> str:
    """A number as the leader board shows it; a dash for none.

    Example:
        >>> [text_of(v, 2) for v in (0.12345, -636.1896, float("nan"), 123456.0)]
        ['0.12', '−636.19', '–', '123,456.00']
    """
    if isinstance(value, str):
        return value
    number = float(value)
    return f"{number:,.{digits}f}".replace("-", "−") if math.isfinite(number) else "–"


def shown(found: Findings, most: int) -> pd.DataFrame:
    """The rows of the leader board: the chosen models first, then by UDR, diverged ones last."""
    table = found.table
    runs = table["run"].tolist()
    if len(runs) > most:
        kept = [part.chosen for part in found.parts if part.chosen is not None]
        spread = evenly(table, [run for run in runs if run not in kept], max(most - len(kept), 0))
        table = table[table["run"].isin([*kept, *spread])]
    places = {run: k for k, part in enumerate(found.parts) for run in part.runs}
    chosen = [part.chosen for part in found.parts]
    keys = pd.DataFrame(
        {
            "part": table["run"].map(places),
            "lost": table["state"] == DIVERGED,
            "rest": ~table["run"].isin(chosen),
            "udr": -table["udr"],
        }
    )
    order = keys.sort_values(["part", "lost", "rest", "udr"], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def record(
    row: Mapping[str, Any], columns: Sequence[Column], found: Findings
) -> Mapping[str, Any]:
    """A row of the leader board as text."""
    cells = []
    for column in columns:
        value = row[column.key]
        if column.key == "method":
            value = method_name(value)
        cells.append(text_of(value, column.digits))
    chosen = any(part.chosen == row["run"] for part in found.parts)
    return {
        "name": found.names[row["run"]],
        "run": row["run"],
        "chosen": chosen,
        "lost": row["state"] == DIVERGED,
        "cells": cells,
    }
