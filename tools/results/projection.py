"""Projected cost of the full study, from the measured cost of a part of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.results.study_results import RESULTS
from unweave.data import DATASETS
from unweave.papers import find

PAPER = find("common-assumptions/transfer").studies["paper"]
BENCHMARKS = {1: "fleet_h200.json", 3: "fleet_h200_colour.json"}
LARGE = 256
"""Fleet size of the full study, which has enough models of each kind."""


@dataclass(frozen=True)
class Projection:
    """Projected hours for all 12,600 models on one device like the one used here.

    Args:
        models: Number of models.
        steps: Training steps per model.
        microseconds: Mean time per model-step over methods, by image channels.
        hours: Training hours at that speed.
        slower: Measured time per step relative to the benchmark with the same fleet size.
        large_microseconds: Benchmark time in fleets of 256 times `slower`, by image channels.
        large_hours: Training hours at that speed.
        start_seconds: Measured extra time per model compared with the benchmark.
        start_hours: Hours in fleets of 256 at benchmark speed, plus `start_seconds` per model.
        score_seconds: Core-seconds for all scores of a model.
        score_hours: Core-hours for the scores of all models.
        measured: Number of fleets that had the device to themselves.
        estimated: Number of fleet kinds without a usable measurement, taken from the benchmark.
    """

    models: int
    steps: int
    microseconds: Mapping[int, float]
    hours: float
    slower: float
    large_microseconds: Mapping[int, float]
    large_hours: float
    start_seconds: float
    start_hours: float
    score_seconds: float
    score_hours: float
    measured: int
    estimated: int


def benchmark(method: str, channels: int, size: float) -> float:
    """Interpolate the time per model-step on an H200 between measured fleet sizes, in µs.

    Example:
        >>> round(benchmark("beta_vae", 1, 8), 1), round(benchmark("beta_vae", 1, 256), 1)
        (89.9, 44.5)
    """
    rows = json.loads((RESULTS / BENCHMARKS[channels]).read_text())["fleet"]
    rows = [row for row in rows if row["method"] == method]
    sizes = [row["models"] for row in rows]
    fleets = [row["models"] * row["us_per_model_step"] for row in rows]
    return float(np.interp(size, sizes, fleets) / size)


def project(run: Mapping[str, Any], steps: int) -> Projection:
    """Project the cost of the published study.

    Args:
        run: Content of `run.json` of `benchmarks/large_study.py`. Fleets that shared the device
            with other work must be marked by hand with `"alone": false`; only their scoring time
            is used.
        steps: Training steps per model.
    """
    alone = [row for row in run["fleets"] if row.get("alone", True)]
    measured = {(row["method"], row["channels"]): row for row in alone}
    size = max((row["models"] for row in run["fleets"]), default=1)
    rates = np.array([row["us_per_model_step"] for row in alone])
    usual = np.array([benchmark(row["method"], row["channels"], row["models"]) for row in alone])
    slower = float((rates / usual).mean()) if alone else 1.0
    start = float((rates - usual).mean()) * 1e-6 * steps if alone else 0.0
    each, usual_large, missing = {}, {}, 0
    for channels in BENCHMARKS:
        of_methods = []
        for method in PAPER["methods"]:
            known = measured.get((method, channels))
            missing += known is None
            of_methods.append(
                slower * benchmark(method, channels, size)
                if known is None
                else known["us_per_model_step"]
            )
        each[channels] = float(np.mean(of_methods))
        large = [benchmark(method, channels, LARGE) for method in PAPER["methods"]]
        usual_large[channels] = float(np.mean(large))
    models = _models()
    large_hours = _hours(models, usual_large)
    scored = sum(call["scored"] for call in run["calls"])
    spent = sum(call["scoring_core_seconds"] for call in run["calls"])
    seconds = spent / scored if scored else float("nan")
    return Projection(
        models=sum(models.values()),
        steps=PAPER["steps"],
        microseconds=each,
        hours=_hours(models, each),
        slower=slower,
        large_microseconds={c: slower * rate for c, rate in usual_large.items()},
        large_hours=slower * large_hours,
        start_seconds=start,
        start_hours=large_hours + start * sum(models.values()) / 3600,
        score_seconds=seconds,
        score_hours=seconds * sum(models.values()) / 3600,
        measured=len(alone),
        estimated=missing,
    )


def _models() -> dict[int, int]:
    """Return the number of models in the paper, by image channels."""
    strengths = sum(
        len(values)
        for grid in PAPER["methods"].values()
        for values in grid.values()
        if isinstance(values, list)
    )
    found: dict[int, int] = {}
    for data in PAPER["data"]:
        channels = DATASETS[data].shape[2]
        found[channels] = found.get(channels, 0) + strengths * PAPER["seeds"]
    return found


def _hours(models: Mapping[int, int], microseconds: Mapping[int, float]) -> float:
    return sum(n * PAPER["steps"] * 1e-6 * microseconds[c] for c, n in models.items()) / 3600
