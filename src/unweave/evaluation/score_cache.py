"""Cache of a saved run's scores in `scores.json`, so that no score is computed twice.

    [{"metric": "mig", "codes": "mean", "seed": 0, "data": [["load", "dsprites", {}]],
      "protocol": 1, "scores": {"mig": 0.21}, "check": "1f0c5a32"}, …]

If a metric could not score the run, `"error"` gives the reason in place of `"scores"`. `"check"`
is a checksum of the entry; an entry with a wrong checksum is ignored.
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

__all__ = ["PROTOCOL", "SCORES", "Key", "Outcome", "add_to_cache", "protocol_of", "read_cache"]

SCORES = "scores.json"
PROTOCOL = 1
"""Version of the built-in metrics, incremented whenever one of them returns different numbers, so
that old scores are recomputed."""
MAX_SCORES = 2_000
"""Largest number of scores that one metric may have."""


@dataclass(frozen=True)
class Key:
    """Cache key: everything that a score depends on besides the run, as in `scores.json`."""

    metric: str
    codes: Literal["mean", "sampled"]
    seed: int
    data: str
    protocol: int = PROTOCOL

    @classmethod
    def of(cls, metric: Metric, sampled: bool, seed: int, data: str) -> "Key | None":
        """The key of a metric, or None if the metric cannot be identified by a name."""
        name = saved_name(metric)
        codes: Literal["mean", "sampled"] = "sampled" if sampled else "mean"
        return None if name is None else cls(name, codes, seed, data, protocol_of(metric))


@dataclass(frozen=True)
class Outcome:
    """Result of a metric for one model: scores, or the reason why there are none."""

    scores: Mapping[str, float]  # scores by name
    error: str = ""  # the reason why there are no scores
    # Whether the error is temporary, such as a failed download, and not cached.
    transient: bool = False


def protocol_of(metric: Metric) -> int:
    """`PROTOCOL` for built-in metrics; for custom metrics, a checksum of the source code."""
    if METRICS.get(metric.name) is metric:
        return PROTOCOL
    try:
        return zlib.crc32(inspect.getsource(metric.function).encode())
    except (OSError, TypeError):  # defined in an interactive shell, or not a plain function
        return 0


def origin_text(origin: Sequence[Any]) -> str:
    """The origin of a data set as text, as used in `Key`."""
    return json.dumps(list(origin), sort_keys=True)


def read_cache(folder: Path | None) -> dict[Key, Outcome]:
    """Read the cached outcomes of a run; empty if the file is missing or unreadable."""
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


def add_to_cache(folder: Path, outcomes: Mapping[Key, Outcome]) -> None:
    """Add outcomes to the cache of a run.

    The file is read again just before it is replaced atomically. If two processes write at the
    same moment, one may lose its scores, which are then recomputed, but the file stays intact.
    """
    merged = {**read_cache(folder), **outcomes}
    text = ",\n".join(json.dumps(_entry(*item), allow_nan=False) for item in merged.items())
    with whole_file(folder / SCORES) as temporary:
        temporary.write_text(f"[{text}]\n")


def _entry(key: Key, outcome: Outcome) -> dict[str, Any]:
    scores = {n: s if math.isfinite(s) else None for n, s in outcome.scores.items()}
    result = {"error": outcome.error} if outcome.error else {"scores": scores}
    entry = {**asdict(key), "data": json.loads(key.data), **result}
    return {**entry, "check": _check(entry)}


def _check(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _read(entry: Any) -> tuple[Key, Outcome]:
    """Parse an entry of a file, and raise an error unless it is as `_entry` writes it.

    The checksum detects damage, not tampering, so all values are checked.
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
        and len(scores) <= MAX_SCORES
        and all(score is None or is_number(score) for score in scores.values())
    ):
        raise ValueError("an entry is not a score")
    key = Key(names[0], names[1], numbers[0], origin_text(entry["data"]), numbers[1])
    return key, Outcome({n: math.nan if s is None else float(s) for n, s in scores.items()}, error)
