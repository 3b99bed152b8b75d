"""The metrics page agrees with the code."""

import json
import math
import re
from pathlib import Path

import pytest

from unweave.metrics import METRICS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"
CHOICE = ROOT / "docs" / "choosing-a-metric.md"
KNOWN = ROOT / "benchmarks" / "results" / "known_codes.json"
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


def test_scores_of_known_codes_are_those_of_the_file():
    scores = json.loads(KNOWN.read_text())["metrics"]
    pattern = r"^\| \[`(\w+)`\]\(metrics/\w+\.md\) ((?:\| -?\d\.\d\d )+)\|$"
    rows = re.findall(pattern, CHOICE.read_text(), re.MULTILINE)
    assert len(rows) > 10
    for name, cells in rows:
        found = [f"{scores[name][kind]:.2f}" for kind in scores[name]]
        assert [cell.strip() for cell in cells.split("|")[1:]] == found


def test_metrics_without_a_question_are_variants_of_others():
    """Every metric is the answer to a question, or explained on another one's page."""
    named = set(re.findall(r"metrics/(\w+)\.md", CHOICE.read_text()))
    variants = {"mig_density", "z_diff", "z_min_var", "z_max_var", "elbo", "reduced_downstream"}
    variants |= {"gaussian_wasserstein_correlation"}
    assert named | variants == set(METRICS)
    assert not named & variants
