"""What the charts of a report read: columns of numbers, groups, and agreement of every pair."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from unweave.report.agreement import Findings, Part
from unweave.report.board import Column
from unweave.report.labels import method_name
from unweave.report.saved_runs import DIVERGED

__all__ = ["chart_data"]


def chart_data(
    found: Findings, board: pd.DataFrame, columns: Sequence[Column], strips: Mapping[str, Any]
) -> dict[str, Any]:
    """Plain data for the page's script; models are counted as in the leader board.

    Args:
        found: What there is to say.
        board: The rows of the leader board.
        columns: Its columns.
        strips: The traversals of models, by their runs.
    """
    groups, group_of = _groups(found, board)
    places = {run: k for k, run in enumerate(board["run"])}
    by_run = dict(zip(board["run"], group_of, strict=True))
    part_of = {run: k for k, part in enumerate(found.parts) for run in part.runs}
    methods = list(dict.fromkeys(found.table["method"]))
    chosen = [part.chosen for part in found.parts]
    return {
        "names": [found.names[run] for run in board["run"]],
        "runs": board["run"].tolist(),
        "groups": groups,
        "group": group_of,
        "part": [part_of[run] for run in board["run"]],
        "parts": [part.name for part in found.parts],
        "method": [methods.index(name) for name in board["method"]],
        "methods": [method_name(name) for name in methods],
        "lost": [int(state == DIVERGED) for state in board["state"]],
        "chosen": [places[run] for run in chosen if run in places],
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
    """What models of one method and strength are called, and the group of each row."""
    names = [found.names[run].rsplit(", seed ", 1)[0] for run in board["run"]]
    keys = board.assign(name=names)[["method", "strength", "name"]].drop_duplicates()
    ordered = keys.sort_values(["method", "strength", "name"], kind="stable")["name"].tolist()
    groups = list(dict.fromkeys(ordered))
    return groups, [groups.index(name) for name in names]


def _heat(part: Part, places: Mapping[str, int], groups: Mapping[str, int]) -> Any:
    """Agreement of every two models in hundredths, models sorted by group, then by UDR."""
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
    """A value for JSON: numbers to six digits, nothing that is not finite."""
    if isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number == int(number) else float(f"{number:.6g}")
