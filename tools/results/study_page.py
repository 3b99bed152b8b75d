"""The page of the large study: setup, differences and scores."""

from collections.abc import Iterable

import pandas as pd

from tools.markdown import mean
from tools.markdown import table as markdown
from tools.results.study_results import StudyResults
from unweave.analysis.study_table import METHOD
from unweave.metrics import CLASSIC
from unweave.papers import find

PAPER = find("common-assumptions/transfer").studies["paper"]

CHANCE = 35 / 1_799
"""Variance that 36 cells explain by chance among the paper's 1,800 models per data set."""
ALWAYS = (
    "FactorVAE updates both of its networks at every step; the published 300,000 steps were "
    "150,000 updates of each.",
    "Boosted trees use the fast engine of [the metrics](../metrics.md).",
    "Only total correlation is also measured on sampled codes.",
)
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


def _strengths(table: pd.DataFrame) -> str:
    return _several(table.groupby(METHOD)["strength"].nunique())


def _several(values: "pd.Series") -> str:
    return " or ".join(f"{value:,}" for value in sorted(values.unique()))
