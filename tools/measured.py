"""The numbers on pages of methods and metrics, from benchmarks/results."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.methods import EVERY
from unweave.metrics import CLASSIC, METRICS

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
LINKS = "../../benchmarks/results"
SIZES = (1, 8, 64, 256, 512)
KINDS = ("perfect", "turned", "incomplete", "copied", "noise")


@cache
def read(name: str) -> Any:
    """A file of results: a dictionary, or a frame."""
    path = RESULTS / name
    return pd.read_csv(path) if path.suffix == ".csv" else json.loads(path.read_text())


def cost_of_method(name: str) -> str:
    """Microseconds per model and step on a GPU, where they were measured."""
    if name == "vae_ensemble":
        return _cost_of_ensembles()
    if name in ("isa_vae", "isa_tc_vae"):
        return _cost_of_isa(name)
    found = {
        row["models"]: row["us_per_model_step"]
        for row in read("fleet_h200.json")["fleet"]
        if row["method"] == name and row["data"] == "dsprites"
    }
    if not found:
        return "Not measured yet."
    return (
        _row("models at once", "µs per model-step", {size: found[size] for size in SIZES})
        + f"\n\ndSprites, 64 images a step, bf16, one H200 ([fleet_h200.json]"
        f"({LINKS}/fleet_h200.json), `python benchmarks/fleet.py --methods {name}`)."
    )


def _cost_of_ensembles() -> str:
    rows = read("ensemble_h200.json")["fully_coupled"]
    found = {row["members"]: row["us_per_member_step"] for row in rows}
    return (
        _row("members", "µs per member-step", found)
        + f"\n\ndSprites, 64 images a step, bf16, one H200, 128 members at once "
        f"([ensemble_h200.json]({LINKS}/ensemble_h200.json), `python benchmarks/ensemble.py`)."
    )


def _cost_of_isa(name: str) -> str:
    rows = [row for row in read("isa_h200.json")["rows"] if row["case"].split(",")[0] == name]
    lines = [
        f"| {row['case'].replace(name + ', ', '').replace(name, 'as it comes')} | {row['latents']}"
        f" | {row['us_per_model_step']:.1f} | {row['ratio']:.2f} × `{row['against']}` |"
        for row in rows
    ]
    return "\n".join(
        ["| case | latents | µs per model-step | against |", "|---|---|---|---|", *lines]
    ) + (
        f"\n\ndSprites, 64 images a step, bf16, one H200, 128 models at once ([isa_h200.json]"
        f"({LINKS}/isa_h200.json), `python benchmarks/isa.py`)."
    )


def _row(heading: str, label: str, found: dict[int, float]) -> str:
    return "\n".join(
        [
            f"| {heading} | {' | '.join(map(str, found))} |",
            "|---" * (len(found) + 1) + "|",
            f"| {label} | {' | '.join(f'{us:.0f}' for us in found.values())} |",
        ]
    )


def scores_of_method(name: str) -> str:
    """FactorVAE score and DCI of trained models, and what else was measured."""
    if name in ("isa_vae", "isa_tc_vae"):
        return _scores_of_isa(name)
    study = read("vae_ensemble_hour/study.csv")
    study = study[study["method"] == name]
    if not len(study):
        return "Not measured yet."
    ensembles = name == "vae_ensemble"
    varied = ["members", "gamma", "stop_grad_target"] if ensembles else ["strength"]
    said = varied if ensembles else EVERY[name].stackable()[:1]
    lines = []
    for values, models in study.groupby(varied, dropna=False):
        scores = [_mean(models[metric]) for metric in ("factor_vae", "dci")]
        lines.append(f"| {_settings(said, values)} | {len(models)} | {' | '.join(scores)} |")
    text = "\n".join(
        ["| setting | models | FactorVAE score | DCI |", "|---|---|---|---|", *lines]
    ) + (
        f"\n\ndSprites, {study['steps'].max():,} steps, `conv4x4`, bf16, one H200; mean ± "
        f"standard deviation over seeds ([study.csv]({LINKS}/vae_ensemble_hour/study.csv), "
        "`unweave reproduce vae-ensemble/table-1 --scale hour`); "
        "[beside the published ones](../ensembles.md#what-came-of-it)."
    )
    return f"{text}\n\n{_six_by_strength()}" if name == "beta_vae" else text


def _scores_of_isa(name: str) -> str:
    study = read("isa_vae_hour/study.csv")
    lines = [
        f"| `beta={beta:g}` | {len(models)} | "
        + " | ".join(_mean(models[metric]) for metric in ("mig_density", "mig"))
        + f" | {models['reconstruction'].mean():.1f} |"
        for beta, models in study[study["method"] == name].groupby("beta")
    ]
    heads = "| setting | models | MIG by densities | MIG | reconstruction error |"
    return "\n".join([heads, "|---|---|---|---|---|", *lines]) + (
        f"\n\ndSprites, {study['steps'].max():,} steps of 2,048 images, `mlp`, 20 latents, bf16, "
        "one H200; mean ± standard deviation over seeds "
        f"([study.csv]({LINKS}/isa_vae_hour/study.csv), "
        "`unweave reproduce isa-vae/figure-5b --scale hour`); "
        "[beside other methods](../isa-vae.md#what-came-of-it)."
    )


def _mean(scores: pd.Series) -> str:
    if scores.isna().all():
        return "diverged"
    return f"{scores.mean():.3f} ± {scores.std(ddof=0):.3f}"


def _settings(names: Sequence[str], values: tuple[Any, ...]) -> str:
    said = [
        f"`{name}={value if isinstance(value, bool) else format(value, 'g')}`"
        for name, value in zip(names, values, strict=False)
        if not pd.isna(value) and value is not False
    ]
    return ", ".join(said) or "as it comes"


def _six_by_strength() -> str:
    table = read("udr_h200.csv")
    lines = [
        f"| {strength:g} | {len(models)} | "
        + " | ".join(f"{models[metric].mean():.3f}" for metric in CLASSIC)
        + " |"
        for strength, models in table.groupby("strength")
    ]
    heads = ["`beta`", "models", *(f"[`{metric}`](../metrics/{metric}.md)" for metric in CLASSIC)]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines]) + (
        f"\n\ndSprites, 60,000 steps, bf16, one H200; means ([udr_h200.csv]({LINKS}/udr_h200.csv),"
        " `unweave reproduce udr/ranking --scale hour`)."
    )


def known_codes(name: str) -> str:
    """What a metric says of codes that are known."""
    found = read("known_codes.json")
    if name not in found["metrics"]:
        return (
            "Not measured: known codes have no images."
            if METRICS[name].of_images
            else "Not measured yet."
        )
    scores, about = found["metrics"][name], found["about"]
    shown = {kind: f"{scores[kind]:.3f}".replace("inf", "∞") for kind in KINDS}
    lines = [f"| {kind} | {about[kind]} | {shown[kind]} |" for kind in KINDS]
    return "\n".join(["| codes | | score |", "|---|---|---|", *lines]) + (
        "\n\nOf all 737,280 combinations of the factors of dSprites, ten latents "
        f"([known_codes.json]({LINKS}/known_codes.json), "
        f"`python benchmarks/known_codes.py --metrics {name}`)."
    )


def scores_by_metric(name: str) -> str:
    """What a metric said of trained models."""
    if name not in CLASSIC:
        return "Not measured yet."
    lines = [
        f"| {strength:g} | {len(models)} | {models[name].min():.3f} | {models[name].median():.3f} "
        f"| {models[name].max():.3f} |"
        for strength, models in read("udr_h200.csv").groupby("strength")
    ]
    return "\n".join(
        ["| β-VAE, β | models | lowest | median | highest |", "|---|---|---|---|---|", *lines]
    ) + (
        f"\n\ndSprites, 60,000 steps, one H200 ([udr_h200.csv]({LINKS}/udr_h200.csv), "
        "`unweave reproduce udr/ranking --scale hour`). One model took "
        f"{read('metrics_cpu.json')['metrics'][name]['seconds']:.2g} s of two cores "
        f"([metrics_cpu.json]({LINKS}/metrics_cpu.json), `python benchmarks/metrics.py`)."
    )
