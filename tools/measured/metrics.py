"""What each metric says of known codes and of trained models, from benchmarks/results."""

import pandas as pd

from tools.markdown import table
from tools.measured.reading import MISSING, link, read
from unweave.metrics import CLASSIC, METRICS

KINDS = ("perfect", "turned", "incomplete", "copied", "noise")
MANY, FEW = 50, 0.05
EVERY, STAGES = "every_metric.json", "ms_vae_hour/study.csv"


def known_codes(name: str) -> str:
    """What a metric says of codes that are known."""
    found = read("known_codes.json")
    if name not in found["metrics"]:
        of_images = METRICS[name].of_images
        return "Not measured: known codes have no images." if of_images else MISSING
    scores, about = found["metrics"][name], found["about"]
    shown = {kind: f"{scores[kind]:.3f}".replace("inf", "∞") for kind in KINDS}
    rows = [[kind, about[kind], shown[kind]] for kind in KINDS]
    return table(["codes", "", "score"], rows) + (
        "\n\nOf all 737,280 combinations of the factors of dSprites, ten latents "
        f"({link('known_codes.json')}, `python benchmarks/known_codes.py --metrics {name}`)."
    )


def scores_by_metric(name: str) -> str:
    """What a metric said of trained models."""
    if name == "fid":
        return _of_stages()
    found = read(EVERY)["metrics"]
    parts = [_by_strength(name)] if name in CLASSIC else []
    return "\n\n".join([*parts, *([_of_restarts(name)] if name in found else [])]) or MISSING


def _by_strength(name: str) -> str:
    """β-VAEs by strength, of the classic six."""
    rows = [
        [f"{strength:g}", str(len(models)), *_spread(models[name])]
        for strength, models in read("udr_h200.csv").groupby("strength")
    ]
    return table(["β-VAE, β", "models", "lowest", "median", "highest"], rows) + (
        f"\n\ndSprites, 60,000 steps, one H200 ({link('udr_h200.csv')}, "
        "`unweave reproduce udr/ranking --scale hour`). One model took "
        f"{read('metrics_cpu.json')['metrics'][name]['seconds']:.2g} s of two cores "
        f"({link('metrics_cpu.json')}, `python benchmarks/metrics.py`)."
    )


def _of_restarts(name: str) -> str:
    """Ten models that differ in their seeds alone, and how the metric ranks them beside MIG."""
    found = read(EVERY)
    scores, about = pd.Series(found["metrics"][name]), found["about"]
    ranked = _ranked(scores, pd.Series(found["metrics"]["mig"]))
    heads = ["β-VAE", "models", "lowest", "median", "highest", "rank correlation with MIG"]
    beta = f"`beta={about['method']['beta']:g}`"
    row = [beta, str(len(scores)), *_spread(scores), ranked]
    return table(heads, [row]) + (
        f"\n\nRestarts on 1,875 rooms, {about['steps']:,} steps on one H200, from entangled to "
        f"disentangled ({link(EVERY)}, `unweave reproduce inductive-biases/figures-7-8 --scale "
        "hour`, then `python benchmarks/every_metric.py --metrics "
        f"{name} --runs reproduce/inductive-biases-hour/runs`)."
    )


def _ranked(scores: "pd.Series[float]", others: "pd.Series[float]") -> str:
    """How two metrics agree on an order; a dash where one gives all models the same."""
    if scores.nunique() == 1:
        return "–"
    return f"{scores.corr(others, method='spearman'):.2f}"


def _of_stages() -> str:
    models = read(STAGES)
    rows = [
        [f"`{method}`", str(len(part)), *_spread(part["fid"])]
        for method, part in models.groupby("method", sort=False)
    ]
    return table(["", "models", "lowest", "median", "highest"], rows) + (
        "\n\nReconstructions of textured dSprites, models of several sizes and strengths, one "
        f"H200 ({link(STAGES)}, `unweave reproduce ms-vae/table-1 --scale hour`)."
    )


def _spread(scores: "pd.Series[float]") -> list[str]:
    """Lowest, median and highest, with digits that tell them apart."""
    most = scores.abs().max()
    digits = ".1f" if most > MANY else ".2g" if most < FEW else ".3f"
    found = (scores.min(), scores.median(), scores.max())
    return [f"{round(value, 6):{digits}}" for value in found]
