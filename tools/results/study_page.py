"""The page of the large study: what was run, its scores, what differs, what all would take."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from tools.markdown import mean
from tools.markdown import table as markdown
from tools.results.kept import Kept
from tools.results.projection import LARGE, Projection, project
from unweave.analysis.columns import METHOD
from unweave.metrics import CLASSIC
from unweave.papers.common_assumptions.studies import STUDIES

PAPER = STUDIES["paper"]
CHANCE = 35 / 1_799
"""What 36 cells explain of the variance of the paper's 1,800 models of a data set by chance."""
ALWAYS = (
    "FactorVAE gets an update of both players at every step; the published 300,000 steps were "
    "150,000 updates of each.",
    "Boosted trees are those of the fast engine of [the metrics](../metrics.md).",
    "Only total correlation is also measured on sampled codes.",
)
MEASURED = "H200"
"""The device of the benchmarks."""
SHOWN = {"elbo.reconstruction_error": "reconstruction", "elbo.kl": "KL"}


def page(kept: Kept) -> str:
    """The whole page."""
    return "\n\n".join(
        [
            "# The large study, as far as it was run",
            "The study of *Challenging Common Assumptions* (arXiv:1811.12359) with fewer seeds, "
            "steps and data sets. This page and [the five results](key-results.md) are made from "
            "the study's table by `python -m tools.results`.",
            "## What was run",
            what_was_run(kept),
            "## What differs from the published study",
            "\n".join(f"- {sentence}" for sentence in differences(kept)),
            "## Scores by method and strength",
            "β-VAE and β-TCVAE with β = 1 are the same objective and, with the same seeds, the "
            "same models. Mean ± standard deviation over seeds (by n), of mean codes "
            f"([{kept.folder.name}/study.csv]"
            f"(../../benchmarks/results/{kept.folder.name}/study.csv) has every model); "
            "reconstruction and KL in nats.",
            *by_strength(kept.table),
            "## The whole study",
            projection(project(kept.run, int(kept.table["steps"].max())), kept.run),
        ]
    )


def what_was_run(kept: Kept) -> str:
    """Models, steps, seeds, minutes, device."""
    table, run = kept.table, kept.run
    seconds = sum(call["seconds"] for call in run["calls"])
    states = ", ".join(f"{count:,} {state}" for state, count in run["states"].items() if count)
    rows = [
        ["models", f"{len(table):,} ({states})"],
        ["methods × strengths", f"{table[METHOD].nunique()} × {_strengths(table)}"],
        ["seeds", f"{table['seed'].nunique()}"],
        ["steps", _several(table["steps"])],
        ["data", ", ".join(f"`{name}`" for name in table["data"].unique())],
        ["device", f"{run['device']}, {run['cores']} cores, torch {run['torch']}"],
        ["took", f"{seconds / 60:.1f} minutes, training and scores"],
        ["command", f"`python benchmarks/large_study.py {run['command']} --out OUT`"],
    ]
    text = markdown(["", ""], rows)
    if "note" in run:
        text += f"\n\n{run['note']}"
    if not run["complete"]:
        text += "\n\n**It was stopped before its end**: models that are missing do not count."
    return text


def differences(kept: Kept) -> list[str]:
    """In sentences, what is not as published; those on numbers are made from the table."""
    table = kept.table
    seeds, steps = table["seed"].nunique(), table["steps"].max()
    missing = [name for name in PAPER["data"] if name not in set(table["data"])]
    found = []
    if steps != PAPER["steps"]:
        share = steps / PAPER["steps"]
        found.append(
            f"{steps:,} steps in place of {PAPER['steps']:,} ({share:.0%}); AnnealedVAE's "
            "capacity grows over the first third of them, as published."
        )
    if seeds != PAPER["seeds"]:
        cells = len(table.groupby([METHOD, "strength"]))
        models = len(table) / table["data"].nunique()
        found.append(
            f"{seeds} seeds in place of {PAPER['seeds']}: standard deviations are rough, and of "
            f"the variance of a score the {cells} cells of method × strength explain "
            f"{(cells - 1) / (models - 1):.0%} by chance alone (there: {CHANCE:.0%})."
        )
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        found.append(f"{len(missing)} of {len(PAPER['data'])} data sets are missing: {names}.")
    if kept.settings.get("precision") == "bf16":
        found.append("Products are in bf16.")
    return [*found, *ALWAYS]


def by_strength(table: pd.DataFrame) -> Iterable[str]:
    """For each data set a heading and a table."""
    for data, models in table.groupby("data", sort=False):
        yield f"### {data}"
        yield scores(models)


def scores(models: pd.DataFrame) -> str:
    """Scores of one data set's models, a row for each method and strength."""
    shown = {name: f"`{name}`" for name in CLASSIC}
    shown |= {name: said for name, said in SHOWN.items() if name in models}
    rows = []
    for (method, strength), cell in models.groupby([METHOD, "strength"], sort=False):
        numbers = [mean(cell[name], 1 if name in SHOWN else 3) for name in shown]
        rows.append([f"`{method}`", f"{strength:g}", f"{len(cell)}", *numbers])
    return markdown(["method", "strength", "models", *shown.values()], rows)


def projection(found: Projection, run: dict[str, Any]) -> str:
    """Hours for all models, in a table and a few sentences."""
    size = max((row["models"] for row in run["fleets"]), default=0)
    rows = [[f"fleets of {size}, as met here", *_hours(found.microseconds, found.hours)]]
    notes = [
        "Times here include starting, saving and what encoding for scores takes of the device"
    ]
    if MEASURED in run["device"] and found.met:
        more = f"fleets of {LARGE}; what is more than in the benchmark"
        rows += [
            [f"{more} grows with steps", *_hours(found.large_microseconds, found.large_hours)],
            [f"{more} is the same for any steps", "", "", f"{found.start_hours:,.0f}"],
        ]
        notes[0] += (
            f": {found.slower:.2f} times the benchmark of fleets of the same size, or "
            f"{found.start_seconds:.1f} s more for each model. The other rows are the benchmark "
            "of larger fleets ([fleet_h200.json](../../benchmarks/results/fleet_h200.json), "
            "[fleet_h200_colour.json](../../benchmarks/results/fleet_h200_colour.json)), as many "
            "times, or with as many seconds more"
        )
    if found.estimated:
        notes.append(
            f"The speed of {found.estimated} of {2 * len(PAPER['methods'])} kinds of fleets, "
            "interrupted, not trained, or trained beside other work, is that of the benchmark, as "
            "many times"
        )
    hours = min(found.hours, found.large_hours, found.start_hours)
    notes.append(
        f"Scores took {found.score_seconds:.0f} s of one core per model, so "
        f"{found.score_hours:,.0f} core-hours for all: {found.score_hours / hours:.1f} cores keep "
        "up with the device"
    )
    heads = ["", "µs per model-step, one channel", "three", f"hours on one {run['device']}"]
    said = " ".join(f"{note}." for note in notes)
    return (
        f"{found.models:,} models of {found.steps:,} steps:\n\n{markdown(heads, rows)}\n\n{said}"
    )


def _hours(microseconds: Any, hours: float) -> list[str]:
    return [*(f"{microseconds[channels]:.1f}" for channels in (1, 3)), f"{hours:,.0f}"]


def _strengths(table: pd.DataFrame) -> str:
    return _several(table.groupby(METHOD)["strength"].nunique())


def _several(values: "pd.Series") -> str:
    return " or ".join(f"{value:,}" for value in sorted(values.unique()))
