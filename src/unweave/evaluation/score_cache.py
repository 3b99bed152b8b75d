"""Scores kept beside a saved run, in `scores.json`, so that nothing is computed twice.

    [{"metric": "mig", "codes": "mean", "seed": 0, "data": [["load", "dsprites", {}]],
      "protocol": 1, "scores": {"mig": 0.21}, "check": "1f0c5a32"}, …]

A metric that could not score the run has `"error"`, the reason, in place of `"scores"`. `"check"`
is a checksum of the entry; an entry that does not match its own counts as missing.
"""

import hashlib
import inspect
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from unweave.io.plain_data import is_number, read_json
from unweave.io.writing import whole_file
from unweave.metrics import METRICS, Metric, saved_name

__all__ = ["PROTOCOL", "SCORES", "Key", "Outcome", "keep", "kept", "protocol_of"]

SCORES = "scores.json"
PROTOCOL = 1
"""Raised whenever some metric of unweave gives other numbers than before, so that old ones do not
count."""
MOST_SCORES = 2_000
"""Of one metric."""


@dataclass(frozen=True)
class Key:
    """All that a score of a run depends on, as text: its fields are those of `scores.json`."""

    metric: str
    codes: Literal["mean", "sampled"]
    seed: int
    data: str
    protocol: int = PROTOCOL

    @classmethod
    def of(cls, metric: Metric, sampled: bool, seed: int, data: str) -> "Key | None":
        """The key of a metric; None for one that cannot be found again by a name."""
        name = saved_name(metric)
        codes: Literal["mean", "sampled"] = "sampled" if sampled else "mean"
        return None if name is None else cls(name, codes, seed, data, protocol_of(metric))


@dataclass(frozen=True)
class Outcome:
    """What a metric said of a model: scores, or why there are none.

    Args:
        scores: By name.
        error: Why there are none.
        passing: Whether the reason is not the model's, as a download that failed: not to be kept.
    """

    scores: Mapping[str, float]
    error: str = ""
    passing: bool = False


def protocol_of(metric: Metric) -> int:
    """`PROTOCOL`, or for a user's metric a number that changes with the text of its function."""
    if METRICS.get(metric.name) is metric:
        return PROTOCOL
    try:
        return zlib.crc32(inspect.getsource(metric.function).encode())
    except (OSError, TypeError):  # typed into a shell, or not a plain function
        return 0


def origin_text(origin: Sequence[Any]) -> str:
    """The origin of a data set, as `Key` has it."""
    return json.dumps(list(origin), sort_keys=True)


def kept(folder: Path | None) -> dict[Key, Outcome]:
    """The outcomes beside a run; none where there is no file, or one that cannot be read."""
    if folder is None:
        return {}
    try:
        entries = read_json(folder / SCORES)
    except (OSError, ValueError):
        return {}
    found: dict[Key, Outcome] = {}
    for entry in entries if isinstance(entries, list) else ():
        with suppress(ValueError, KeyError):
            found |= [_read(entry)]
    return found


def keep(folder: Path, outcomes: Mapping[Key, Outcome]) -> None:
    """Add outcomes to those beside a run.

    The file is read again just before it is replaced as a whole: of two processes that write in
    the same instant one may lose its scores, which are then computed again, but never the file.
    """
    merged = {**kept(folder), **outcomes}
    text = ",\n".join(json.dumps(_entry(*item), allow_nan=False) for item in merged.items())
    with whole_file(folder / SCORES) as temporary:
        temporary.write_text(f"[{text}]\n")


def _entry(key: Key, outcome: Outcome) -> dict[str, Any]:
    scores = {n: s if math.isfinite(s) else None for n, s in outcome.scores.items()}
    said = {"error": outcome.error} if outcome.error else {"scores": scores}
    entry = {**asdict(key), "data": json.loads(key.data), **said}
    return {**entry, "check": _check(entry)}


def _check(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _read(entry: Any) -> tuple[Key, Outcome]:
    """An entry of a file, which may hold anything; one that is not as `_entry` writes is an error.

    The checksum keeps accidents out, not strangers.
    """
    if not isinstance(entry, dict) or entry.pop("check") != _check(entry):
        raise ValueError("an entry does not match its checksum")
    names, numbers = (entry["metric"], entry["codes"]), (entry["seed"], entry["protocol"])
    scores, error = entry.get("scores", {}), entry.get("error", "")
    if not (
        all(isinstance(name, str) for name in (*names, error))
        and all(type(number) is int for number in numbers)
        and isinstance(entry["data"], list)
        and isinstance(scores, dict)
        and len(scores) <= MOST_SCORES
        and all(score is None or is_number(score) for score in scores.values())
    ):
        raise ValueError("an entry is not a score")
    key = Key(names[0], names[1], numbers[0], origin_text(entry["data"]), numbers[1])
    return key, Outcome({n: math.nan if s is None else float(s) for n, s in scores.items()}, error)
