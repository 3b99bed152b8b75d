"""What the whole study would take, from what a part of it took."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools.results.kept import RESULTS
from unweave.data import DATASETS
from unweave.recipes.common_assumptions.studies import STUDIES

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
        score_seconds: Of one core, for all that was measured of a model.
        score_hours: Of one core, for all models.
        estimated: Methods and data sets whose speed was not met, and is the benchmark's.
    """

    models: int
    steps: int
    microseconds: Mapping[int, float]
    hours: float
    slower: float
    large_microseconds: Mapping[int, float]
    large_hours: float
    score_seconds: float
    score_hours: float
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


def project(run: Mapping[str, Any]) -> Projection:
    """What the published study would take.

    Args:
        run: What `benchmarks/large_study.py` has noted.
    """
    met = {(row["method"], row["channels"]): row for row in run["fleets"]}
    size = max((row["models"] for row in run["fleets"]), default=1)
    ratios = [
        row["us_per_model_step"] / benchmark(row["method"], row["channels"], row["models"])
        for row in run["fleets"]
    ]
    slower = float(np.mean(ratios)) if ratios else 1.0
    each, large, missing = {}, {}, 0
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
        rates = [benchmark(method, channels, LARGE) for method in PAPER["methods"]]
        large[channels] = slower * float(np.mean(rates))
    models = _models()
    scored = sum(call["scored"] for call in run["calls"])
    spent = sum(call["scoring_core_seconds"] for call in run["calls"])
    seconds = spent / scored if scored else float("nan")
    return Projection(
        models=sum(models.values()),
        steps=PAPER["steps"],
        microseconds=each,
        hours=_hours(models, each),
        slower=slower,
        large_microseconds=large,
        large_hours=_hours(models, large),
        score_seconds=seconds,
        score_hours=seconds * sum(models.values()) / 3600,
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
