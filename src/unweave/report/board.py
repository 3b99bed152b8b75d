"""Rows and columns of the leaderboard, and the data of the charts."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from unweave.report.comparison import Findings, Part, evenly, settings_of
from unweave.report.labels import label, method_name, symbol
from unweave.report.saved_runs import DIVERGED
from unweave.report.subject import ABOUT

FOUND = ("udr", "clear", "found", "front")
MAIN = ("reconstruction", "kl", *FOUND)
LOSSES = ("loss", "discriminator loss")


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard."""

    key: str  # name in the table
    label: str  # heading
    numeric: bool = True  # whether it contains numbers and can be the axis of a chart
    more: bool = False  # whether it is hidden until all columns are shown
    digits: int = 0  # number of decimal places


def columns_of(found: Findings) -> list[Column]:
    """Return the columns of the leaderboard, without the model's name."""
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
    """Return a symbol such as `β` if all strengths are values of one setting, else `strength`."""
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
    """Return the number of decimals: 3 for scores, fewer for large numbers, 0 for integers.

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
    """Format a number for the leaderboard, with a dash for missing values.

    Example:
        >>> [text_of(v, 2) for v in (0.12345, -636.1896, float("nan"), 123456.0)]
        ['0.12', '−636.19', '–', '123,456.00']
    """
    if isinstance(value, str):
        return value
    number = float(value)
    return f"{number:,.{digits}f}".replace("-", "−") if math.isfinite(number) else "–"


def shown(found: Findings, most: int) -> pd.DataFrame:
    """Return the rows of the leaderboard: chosen models, then by UDR, diverged models last."""
    table = found.table
    runs = table["run"].tolist()
    if len(runs) > most:
        others = [run for run in runs if run not in found.chosen]
        spread = evenly(table, others, max(most - len(found.chosen), 0))
        table = table[table["run"].isin([*found.chosen, *spread])]
    places = {run: k for k, part in enumerate(found.parts) for run in part.runs}
    keys = pd.DataFrame(
        {
            "part": table["run"].map(places),
            "diverged": table["state"] == DIVERGED,
            "rest": ~table["run"].isin(found.chosen),
            "udr": -table["udr"],
        }
    )
    order = keys.sort_values(["part", "diverged", "rest", "udr"], kind="stable").index
    return table.loc[order].reset_index(drop=True)


def record(
    row: Mapping[str, Any], columns: Sequence[Column], found: Findings
) -> Mapping[str, Any]:
    """Format a row of the leaderboard as text."""
    cells = []
    for column in columns:
        value = row[column.key]
        if column.key == "method":
            value = method_name(value)
        cells.append(text_of(value, column.digits))
    return {
        "name": found.names[row["run"]],
        "run": row["run"],
        "chosen": row["run"] in found.chosen,
        "diverged": row["state"] == DIVERGED,
        "cells": cells,
    }


def chart_data(
    found: Findings, board: pd.DataFrame, columns: Sequence[Column], strips: Mapping[str, Any]
) -> dict[str, Any]:
    """Return JSON data for the page's script; models are numbered as in the leaderboard.

    Args:
        found: Contents of the report.
        board: Rows of the leaderboard.
        columns: Columns of the leaderboard.
        strips: Traversals of models, by run.
    """
    groups, group_of = _groups(found, board)
    places = {run: k for k, run in enumerate(board["run"])}
    by_run = dict(zip(board["run"], group_of, strict=True))
    part_of = {run: k for k, part in enumerate(found.parts) for run in part.runs}
    methods = list(dict.fromkeys(found.table["method"]))
    return {
        "names": [found.names[run] for run in board["run"]],
        "runs": board["run"].tolist(),
        "groups": groups,
        "group": group_of,
        "part": [part_of[run] for run in board["run"]],
        "parts": [part.name for part in found.parts],
        "method": [methods.index(name) for name in board["method"]],
        "methods": [method_name(name) for name in methods],
        "diverged": [int(state == DIVERGED) for state in board["state"]],
        "chosen": [places[run] for run in found.chosen if run in places],
        "columns": [
            {
                "key": column.key,
                "label": column.label,
                "digits": column.digits,
                "values": [_plain(value) for value in board[column.key]],
            }
            for column in columns
            if column.numeric
        ],
        "heats": [_heat(part, places, by_run) for part in found.parts],
        "strips": {str(places[run]): strip for run, strip in strips.items()},
    }


def _groups(found: Findings, board: pd.DataFrame) -> tuple[list[str], list[int]]:
    """Return the names of the groups, one per method and strength, and the group of each row."""
    names = [found.names[run].rsplit(", seed ", 1)[0] for run in board["run"]]
    keys = board.assign(name=names)[["method", "strength", "name"]].drop_duplicates()
    ordered = keys.sort_values(["method", "strength", "name"], kind="stable")["name"].tolist()
    groups = list(dict.fromkeys(ordered))
    return groups, [groups.index(name) for name in names]


def _heat(part: Part, places: Mapping[str, int], groups: Mapping[str, int]) -> Any:
    """Return the agreement of all pairs of models, which are sorted by group, then by UDR."""
    if part.udr is None or part.mcc is None or part.latents is None:
        return None
    runs = [
        (groups[run], -float(np.nan_to_num(part.udr.models[k])), k)
        for k, run in enumerate(part.compared)
        if part.latents.usable[k] and run in places
    ]
    order = [k for _, _, k in sorted(runs)]
    if len(order) < 2:
        return None
    return {
        "models": [places[part.compared[k]] for k in order],
        "kinds": {
            "UDR": _hundredths(part.udr.pairs[np.ix_(order, order)]),
            "MCC": _hundredths(part.mcc[np.ix_(order, order)]),
        },
    }


def _hundredths(pairs: np.ndarray) -> str:
    return base64.b64encode(np.rint(pairs * 100).clip(0, 200).astype(np.uint8)).decode()


def _plain(value: Any) -> Any:
    """Convert a value to JSON: numbers with six significant digits, None if not finite."""
    if isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) else float(f"{number:.6g}")
