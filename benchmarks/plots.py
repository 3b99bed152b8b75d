"""Plots of the results of `benchmarks/fleet.py`: time by kernel, and scaling.

python benchmarks/plots.py benchmarks/results/fleet_h200.json docs/images
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#999999")
"""Colour-blind safe colours of Okabe and Ito."""


def stacked_bar(result: dict[str, Any]) -> Figure:
    """Draw the microseconds of a model-step by kind of kernel."""
    parts = result["profile"]["us_by_category"]
    figure = Figure(figsize=(7, 1.7), layout="constrained")
    axes = figure.subplots()
    left = 0.0
    for (name, each), colour in zip(parts.items(), COLOURS, strict=True):
        axes.barh(0, each, left=left, color=colour, label=f"{name} {each:.1f}")
        left += each
    axes.set_yticks([])
    axes.set_xlabel(f"µs per model-step, β-VAE, M = {result['profile']['models']}, sum {left:.1f}")
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def growth(result: dict[str, Any]) -> Figure:
    """Draw time and memory against models for each method, and against steps for one model."""
    steps = result["steps"]
    figure = Figure(figsize=(10, 2.8), layout="constrained")
    of_models, of_memory, of_steps, memory_of_steps = figure.subplots(1, 4)
    methods = dict.fromkeys(row["method"] for row in result["fleet"])
    for method, colour in zip(methods, COLOURS, strict=False):
        rows = [row for row in result["fleet"] if row["method"] == method]
        models = [row["models"] for row in rows]
        milliseconds = [row["us_per_model_step"] * row["models"] / 1e3 for row in rows]
        gigabytes = [row["megabytes"] / 1e3 for row in rows]
        of_models.plot(models, milliseconds, "o-", color=colour, label=method, markersize=3)
        of_memory.plot(models, gigabytes, "o-", color=colour, markersize=3)
    figure.legend(loc="outside upper center", ncols=6, frameon=False)
    of_models.set(xlabel="models", ylabel="ms per step", xlim=0, ylim=0)
    of_memory.set(xlabel="models", ylabel="GB", xlim=0, ylim=0)
    taken = [row["steps"] for row in steps]
    of_steps.plot(taken, [row["seconds"] for row in steps], "o-", color=COLOURS[3])
    of_steps.set(xlabel="steps, one model", ylabel="seconds", xlim=0, ylim=0)
    memory_of_steps.plot(taken, [row["megabytes"] for row in steps], "o-", color=COLOURS[3])
    memory_of_steps.set(xlabel="steps, one model", ylabel="MB", xlim=0, ylim=0)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="Result of benchmarks/fleet.py.")
    parser.add_argument("folder", type=Path, help="Output folder.")
    args = parser.parse_args()
    result = json.loads(args.result.read_text())
    args.folder.mkdir(parents=True, exist_ok=True)
    stacked_bar(result).savefig(args.folder / "where-the-time-goes.svg")
    growth(result).savefig(args.folder / "growth.svg")


if __name__ == "__main__":
    main()
