"""What the whole study would take, from what a part of it took."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.results.kept import RESULTS
from unweave.data import DATASETS
from unweave.papers.common_assumptions.studies import STUDIES

PAPER = STUDIES["paper"]
BENCHMARKS = {1: "fleet_h200.json", 3: "fleet_h200_colour.json"}
LARGE = 256
"""Models at once in a study that has so many of each kind."""


@dataclass(frozen=True)
class Projection:
    """Hours for all 12,600 models on one device like the one that was met.

    Args:
        models: How many models.
        steps: Of each.
        microseconds: By channels of the images, the mean over methods per model and step.
        hours: Of training at that speed.
        slower: How many times as long a step took as in the benchmark of fleets of that size.
        large_microseconds: By channels, in fleets of 256: the benchmark's, so many times.
        large_hours: Of training at that speed.
        start_seconds: What the fleets took longer than the benchmark, for each of their models.
        start_hours: In fleets of 256 at the benchmark's speed, and so many seconds per model.
        score_seconds: Of one core, for all that was measured of a model.
        score_hours: Of one core, for all models.
        met: How many fleets had the device to themselves.
        estimated: Methods and data sets whose speed was not met so, and is the benchmark's.
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
    met: int
    estimated: int


def benchmark(method: str, channels: int, size: float) -> float:
    """Microseconds per model-step on an H200, between the sizes of fleets that were measured.

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
    """What the published study would take.

    Args:
        run: What `benchmarks/large_study.py` has noted. Fleets that shared the device with other
            work, of which it cannot know, are marked by hand with `"alone": false`; only what they
            scored counts.
        steps: Of every model that was trained.
    """
    alone = [row for row in run["fleets"] if row.get("alone", True)]
    met = {(row["method"], row["channels"]): row for row in alone}
    size = max((row["models"] for row in run["fleets"]), default=1)
    rates = np.array([row["us_per_model_step"] for row in alone])
    usual = np.array([benchmark(row["method"], row["channels"], row["models"]) for row in alone])
    slower = float((rates / usual).mean()) if alone else 1.0
    start = float((rates - usual).mean()) * 1e-6 * steps if alone else 0.0
    each, usual_large, missing = {}, {}, 0
    for channels in BENCHMARKS:
        of_methods = []
        for method in PAPER["methods"]:
            known = met.get((method, channels))
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
        met=len(alone),
        estimated=missing,
    )


def _models() -> dict[int, int]:
    """By channels, how many models the paper has."""
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
