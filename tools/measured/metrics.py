"""Scores of known codes and of trained models for each metric, from benchmarks/results."""

import pandas as pd

from tools.markdown import mean, table
from tools.measured.methods import scores_of_method
from tools.measured.reading import MISSING, link, read
from unweave.metrics import CLASSIC, METRICS

KINDS = {
    "perfect": ("perfect", "one latent per factor, five unused latents"),
    "turned": ("rotated", "the five used latents, randomly rotated"),
    "incomplete": ("incomplete", "perfect, but without the shape"),
    "copied": ("copied", "every factor in two latents"),
    "noise": ("noise", "ten latents of noise, without information"),
}
"""Label and description of each kind of codes in known_codes.json."""
MANY, FEW = 50, 0.05
EVERY, STAGES = "every_metric.json", "ms_vae_hour/study.csv"
HEARTS = "omes_cpu.json"


def known_codes(name: str) -> str:
    """Return the scores of a metric on known codes."""
    found = read("known_codes.json")
    if name not in found["metrics"]:
        of_images = METRICS[name].of_images
        return "Not measured: known codes have no images." if of_images else MISSING
    scores = found["metrics"][name]
    shown = {kind: f"{scores[kind]:.3f}".replace("inf", "∞") for kind in KINDS}
    rows = [[*text, shown[kind]] for kind, text in KINDS.items()]
    return table(["Codes", "Description", "Score"], rows) + (
        "\n\nTen latents for all 737,280 combinations of the factors of dSprites "
        f"({link('known_codes.json')}, `python benchmarks/known_codes.py --metrics {name}`)."
    )


def scores_by_metric(name: str) -> str:
    """Return the scores of a metric on trained models."""
    if name == "fid":
        return _of_stages()
    if name == "pipe":
        return scores_of_method("dava")
    if name == "omes":
        return _of_hearts()
    found = read(EVERY)["metrics"]
    parts = [_by_strength(name)] if name in CLASSIC else []
    return "\n\n".join([*parts, *([_of_restarts(name)] if name in found else [])]) or MISSING


def _by_strength(name: str) -> str:
    """Return the scores of β-VAEs by strength, for the six classic metrics."""
    rows = [
        [f"{strength:g}", str(len(models)), *_spread(models[name])]
        for strength, models in read("udr_h200.csv").groupby("strength")
    ]
    return table(["β of the β-VAE", "Models", "Lowest", "Median", "Highest"], rows) + (
        f"\n\ndSprites, 60,000 steps, one H200 ({link('udr_h200.csv')}, "
        "`unweave reproduce udr/ranking --scale hour`). Scoring one model took "
        f"{read('metrics_cpu.json')['metrics'][name]['seconds']:.2g} s on two cores "
        f"({link('metrics_cpu.json')}, `python benchmarks/metrics.py`)."
    )


def _of_restarts(name: str) -> str:
    """Return the scores of ten models that differ only in their seed, compared with MIG."""
    found = read(EVERY)
    scores, about = pd.Series(found["metrics"][name]), found["about"]
    ranked = _ranked(scores, pd.Series(found["metrics"]["mig"]))
    heads = ["β-VAE", "Models", "Lowest", "Median", "Highest", "Rank correlation with MIG"]
    beta = f"`beta={about['method']['beta']:g}`"
    row = [beta, str(len(scores)), *_spread(scores), ranked]
    return table(heads, [row]) + (
        f"\n\nTen seeds on 1,875 rooms, {about['steps']:,} steps on one H200, from entangled to "
        f"disentangled ({link(EVERY)}, `unweave reproduce inductive-biases/figures-7-8 --scale "
        "hour`, then `python benchmarks/every_metric.py --metrics "
        f"{name} --runs reproduce/inductive-biases-hour/runs`)."
    )


def _ranked(scores: "pd.Series[float]", others: "pd.Series[float]") -> str:
    """Return the rank correlation of two metrics, or a dash if one is constant."""
    if scores.nunique() == 1:
        return "–"
    return f"{scores.corr(others, method='spearman'):.2f}"


def _of_stages() -> str:
    models = read(STAGES)
    rows = [
        [f"`{method}`", str(len(part)), *_spread(part["fid"])]
        for method, part in models.groupby("method", sort=False)
    ]
    return table(["Method", "Models", "Lowest", "Median", "Highest"], rows) + (
        "\n\nReconstructions of textured dSprites, models of several sizes and strengths, one "
        f"H200 ({link(STAGES)}, `unweave reproduce ms-vae/table-1 --scale hour`)."
    )


def _of_hearts() -> str:
    """Return OMES of small models, and its rank correlation with other metrics."""
    found = read(HEARTS)
    models = pd.DataFrame(found["models"])
    others = {"mig": "MIG", "dci": "DCI", "factor_vae": "FactorVAE score"}
    rows = [
        [f"`beta={beta:g}`", str(len(part)), *_spread(part["omes"]), mean(part["mig"])]
        for beta, part in models.groupby("beta")
    ]
    ranked = ", ".join(
        f"{_ranked(models['omes'], models[name])} with {label}" for name, label in others.items()
    )
    heads = ["β-VAE", "Models", "Lowest", "Median", "Highest", "MIG"]
    return table(heads, rows) + (
        f"\n\n{found['about']} ({link(HEARTS)}, `python benchmarks/omes.py`). Rank correlation of "
        f"OMES over all models: {ranked}."
    )


def _spread(scores: "pd.Series[float]") -> list[str]:
    """Return lowest, median and highest score with enough digits to distinguish them."""
    most = scores.abs().max()
    digits = ".1f" if most > MANY else ".2g" if most < FEW else ".3f"
    found = (scores.min(), scores.median(), scores.max())
    return [f"{round(value, 6):{digits}}" for value in found]
