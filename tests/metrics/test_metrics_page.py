"""The metrics page agrees with the code."""

import math
from pathlib import Path

import pytest

from unweave.metrics import METRICS

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BETTER = {True: "higher", False: "lower", None: "–"}


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".").replace("-", "−")


def range_of(low, high):
    if math.isinf(low) and math.isinf(high):
        return "any number"
    if math.isinf(high):
        return f"{number(low)} and up"
    if math.isinf(low):
        return f"up to {number(high)}"
    return f"{number(low)} … {number(high)}"


def row(metric):
    cells = [
        f"[`{metric.name}`](metrics/{metric.name}.md)",
        BETTER[metric.higher_is_better],
        range_of(*metric.bounds),
        metric.needs,
        metric.cost,
        metric.failure,
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_its_row(name):
    assert row(METRICS[name]) in PAGE.read_text().splitlines()


def test_there_are_no_extra_rows():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| [`")]
    assert len(rows) == len(METRICS)
