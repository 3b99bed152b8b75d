"""The page of the large study: setup, differences, scores and projected cost."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from tools.markdown import mean
from tools.markdown import table as markdown
from tools.results.projection import LARGE, PAPER, Projection, project
from tools.results.study_results import StudyResults
from unweave.analysis.study_table import METHOD
from unweave.metrics import CLASSIC

CHANCE = 35 / 1_799
"""Variance that 36 cells explain by chance among the paper's 1,800 models per data set."""
ALWAYS = (
    "FactorVAE updates both of its networks at every step; the published 300,000 steps were "
    "150,000 updates of each.",
    "Boosted trees use the fast engine of [the metrics](../metrics.md).",
    "Only total correlation is also measured on sampled codes.",
)
MEASURED = "H200"
"""Device of the benchmarks."""
SHOWN = {"elbo.reconstruction_error": "reconstruction", "elbo.kl": "KL"}


def page(study: StudyResults) -> str:
    """Return the text of the page."""
    return "\n\n".join(
        [
            "# The large study at reduced size",
            "This study repeats *Challenging Common Assumptions* (arXiv:1811.12359) with fewer "
            "seeds, steps and data sets. `python -m tools.results` generates this page and [the "
            "five key results](key-results.md) from the table of the study.",
            "## Setup",
            setup(study),
            "## Differences from the published study",
            "\n".join(f"- {sentence}" for sentence in differences(study)),
            "## Scores by method and strength",
            "Mean ± population standard deviation over seeds, of mean codes; reconstruction and "
            f"KL in nats. [{study.folder.name}/study.csv]"
            f"(../../benchmarks/results/{study.folder.name}/study.csv) lists all models. β-VAE "
            "and β-TCVAE with β = 1 have the same objective and, with equal seeds, are the same "
            "models.",
            *by_strength(study.table),
            "## Projected cost of the full study",
            projection(project(study.run, int(study.table["steps"].max())), study.run),
        ]
    )


def setup(study: StudyResults) -> str:
    """Return a table of models, steps, seeds, time and device."""
    table, run = study.table, study.run
    seconds = sum(call["seconds"] for call in run["calls"])
    states = ", ".join(f"{count:,} {state}" for state, count in run["states"].items() if count)
    rows = [
        ["Models", f"{len(table):,} ({states})"],
        ["Methods × strengths", f"{table[METHOD].nunique()} × {_strengths(table)}"],
        ["Seeds", f"{table['seed'].nunique()}"],
        ["Steps", _several(table["steps"])],
        ["Data", ", ".join(f"`{name}`" for name in table["data"].unique())],
        ["Device", f"{run['device']}, {run['cores']} cores, torch {run['torch']}"],
        ["Time", f"{seconds / 60:.1f} minutes for training and scores"],
        ["Command", f"`python benchmarks/large_study.py {run['command']} --out OUT`"],
    ]
    text = markdown(["", ""], rows)
    if "note" in run:
        text += f"\n\n{run['note']}"
    if not run["complete"]:
        text += "\n\n**The study was interrupted**: missing models are not counted."
    return text


def differences(study: StudyResults) -> list[str]:
    """Return sentences about the differences from the published study."""
    table = study.table
    seeds, steps = table["seed"].nunique(), table["steps"].max()
    missing = [name for name in PAPER["data"] if name not in set(table["data"])]
    found = []
    if steps != PAPER["steps"]:
        share = steps / PAPER["steps"]
        found.append(
            f"{steps:,} steps instead of {PAPER['steps']:,} ({share:.0%}); the capacity of "
            "AnnealedVAE grows over the first third, as published."
        )
    if seeds != PAPER["seeds"]:
        cells = len(table.groupby([METHOD, "strength"]))
        models = len(table) / table["data"].nunique()
        found.append(
            f"{seeds} seeds instead of {PAPER['seeds']}: standard deviations are rough, and the "
            f"{cells} cells of method × strength explain {(cells - 1) / (models - 1):.0%} of the "
            f"variance of a score by chance alone (in the paper: {CHANCE:.0%})."
        )
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        found.append(f"{len(missing)} of {len(PAPER['data'])} data sets are missing: {names}.")
    if study.settings.get("precision") == "bf16":
        found.append("Matrix multiplications use bf16.")
    return [*found, *ALWAYS]


def by_strength(table: pd.DataFrame) -> Iterable[str]:
    """Yield a heading and a table of scores for each data set."""
    for data, models in table.groupby("data", sort=False):
        yield f"### {data}"
        yield scores(models)


def scores(models: pd.DataFrame) -> str:
    """Return a table of scores on one data set, with a row per method and strength."""
    shown = {name: f"`{name}`" for name in CLASSIC}
    shown |= {name: title for name, title in SHOWN.items() if name in models}
    rows = []
    for (method, strength), cell in models.groupby([METHOD, "strength"], sort=False):
        numbers = [mean(cell[name], 1 if name in SHOWN else 3) for name in shown]
        rows.append([f"`{method}`", f"{strength:g}", f"{len(cell)}", *numbers])
    return markdown(["Method", "Strength", "Models", *shown.values()], rows)


def projection(found: Projection, run: dict[str, Any]) -> str:
    """Return a table of projected hours for all models, and a few sentences about it."""
    size = max((row["models"] for row in run["fleets"]), default=0)
    rows = [[f"fleets of {size}, as measured", *_hours(found.microseconds, found.hours)]]
    notes = ["Measured times include startup, saving and encoding for scores"]
    if MEASURED in run["device"] and found.measured:
        rows += [
            [
                f"fleets of {LARGE}, overhead proportional to steps",
                *_hours(found.large_microseconds, found.large_hours),
            ],
            [f"fleets of {LARGE}, constant overhead", "", "", f"{found.start_hours:,.0f}"],
        ]
        notes += [
            f"This overhead is a factor of {found.slower:.2f} compared with the benchmark of "
            f"fleets of the same size, or {found.start_seconds:.1f} s per model",
            "The other rows add it to the benchmark of larger fleets "
            "([fleet_h200.json](../../benchmarks/results/fleet_h200.json), "
            "[fleet_h200_colour.json](../../benchmarks/results/fleet_h200_colour.json)), as the "
            "factor or as seconds per model",
        ]
    if found.estimated:
        notes.append(
            f"For {found.estimated} of {2 * len(PAPER['methods'])} kinds of fleets, the time is "
            "the benchmark multiplied by this factor, because they were interrupted, not trained, "
            "or shared the device with other work"
        )
    hours = min(found.hours, found.large_hours, found.start_hours)
    notes.append(
        f"Scoring took {found.score_seconds:.0f} core-seconds per model, which is "
        f"{found.score_hours:,.0f} core-hours for all models: {found.score_hours / hours:.1f} "
        "cores keep up with the device"
    )
    heads = ["", "µs per model-step, grey", "Colour", f"Hours on one {run['device']}"]
    text = " ".join(f"{note}." for note in notes)
    return (
        f"{found.models:,} models of {found.steps:,} steps:\n\n{markdown(heads, rows)}\n\n{text}"
    )


def _hours(microseconds: Any, hours: float) -> list[str]:
    return [*(f"{microseconds[channels]:.1f}" for channels in (1, 3)), f"{hours:,.0f}"]


def _strengths(table: pd.DataFrame) -> str:
    return _several(table.groupby(METHOD)["strength"].nunique())


def _several(values: "pd.Series") -> str:
    return " or ".join(f"{value:,}" for value in sorted(values.unique()))
