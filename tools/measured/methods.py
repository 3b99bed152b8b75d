"""Scores of trained models of each method, from benchmarks/results."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from tools.markdown import mean, table
from tools.measured.reading import MISSING, format_settings, link, read
from unweave.methods import EVERY
from unweave.metrics import CLASSIC

STUDY, ENSEMBLES = "common_assumptions_hour/study.csv", "vae_ensemble_hour/study.csv"
ISA, BIASES = "isa_vae_hour/study.csv", "inductive_biases_hour/study.csv"
STAGES, GENERATORS = "ms_vae_hour/study.csv", "ms_vae_hour/figures-21-31.csv"
PAIRS, QUANTISED = "weak_pairs_cpu.json", "quantised_cpu.json"
DAVA = "dava_cpu.json"
PENALTIES, AUXILIARY = "penalties_cpu.json", "ivae_cpu.json"
IMAGES = {"mig": "MIG", "dci": "DCI", "factor_vae": "FactorVAE score", "sap": "SAP"}
HEADS = [f"[`{metric}`](../metrics/{metric}.md)" for metric in CLASSIC]
OVER_SEEDS = "mean ± population standard deviation over seeds"


def scores_of_method(name: str) -> str:
    """Return the scores of a method's models and their source."""
    return KNOWN[name](name) if name in KNOWN else MISSING


def _of_vaes(_: str) -> str:
    models = read(STUDY)
    return f"A VAE is a β-VAE with β = 1.\n\n{_by_strength('beta_vae', models['strength'] == 1)}"


def _of_beta_vaes(name: str) -> str:
    return f"{_by_strength(name)}\n\n{_of_many_seeds()}"


def _by_strength(name: str, these: "pd.Series[bool] | bool" = True) -> str:
    """Return scores of the six classic metrics on dSprites, by strength."""
    models = read(STUDY)
    models = models[(models["method"] == name) & (models["data"] == "dsprites") & these]
    field = EVERY[name].strengths()[0]
    rows = [
        [
            format_settings([field], [strength]),
            str(len(part)),
            *(mean(part[metric]) for metric in CLASSIC),
        ]
        for strength, part in models.groupby("strength")
    ]
    return table(["Setting", "Models", *HEADS], rows) + (
        f"\n\ndSprites, {models['steps'].max():,} steps, `conv`, 10 latents, bf16, one H200; "
        f"{OVER_SEEDS} ({link(STUDY)}, `python benchmarks/large_study.py --scale hour --out OUT`);"
        " [all methods, also on Color-dSprites](../results/index.md)."
    )


def _of_many_seeds() -> str:
    rows = [
        [
            f"{strength:g}",
            str(len(models)),
            *(f"{models[metric].mean():.3f}" for metric in CLASSIC),
        ]
        for strength, models in read("udr_h200.csv").groupby("strength")
    ]
    return table(["`beta`", "Models", *HEADS], rows) + (
        f"\n\ndSprites, 60,000 steps, bf16, one H200; means ({link('udr_h200.csv')}, "
        "`unweave reproduce udr/ranking --scale hour`)."
    )


def _of_ensembles(_: str) -> str:
    study = read(ENSEMBLES)
    study = study[study["method"] == "vae_ensemble"]
    varied = ["members", "gamma", "stop_grad_target"]
    rows = [
        [
            format_settings(varied, values),
            str(len(models)),
            mean(models["factor_vae"]),
            mean(models["dci"]),
        ]
        for values, models in study.groupby(varied, dropna=False)
    ]
    return table(["Setting", "Models", "FactorVAE score", "DCI"], rows) + (
        f"\n\ndSprites, {study['steps'].max():,} steps, `conv4x4`, bf16, one H200; {OVER_SEEDS} "
        f"({link(ENSEMBLES)}, `unweave reproduce vae-ensemble/table-1 --scale hour`); "
        "[comparison with published scores](../ensembles.md#results)."
    )


def _of_isa(name: str) -> str:
    study = read(ISA)
    rows = [
        [
            f"`beta={beta:g}`",
            str(len(models)),
            mean(models["mig_density"]),
            mean(models["mig"]),
            f"{models['reconstruction'].mean():.1f}",
        ]
        for beta, models in study[study["method"] == name].groupby("beta")
    ]
    heads = ["Setting", "Models", "MIG by densities", "MIG", "Reconstruction error"]
    return table(heads, rows) + (
        f"\n\ndSprites, {study['steps'].max():,} steps, batch 2,048, `mlp`, 20 latents, bf16, "
        f"one H200; {OVER_SEEDS} ({link(ISA)}, `unweave reproduce isa-vae/figure-5b --scale hour`)"
        "; [comparison with other methods](../isa-vae.md#results)."
    )


def _on_rooms(name: str) -> str:
    """Return scores on original, modified and noisy images, at the usual strength."""
    study = read(BIASES)
    study = study[(study["method"] == name) & (study["factor"] == 1)]
    rows = [
        [str(images), str(len(models)), *(mean(models[metric]) for metric in IMAGES)]
        for images, models in study.groupby("images", sort=False)
    ]
    return table(["Images", "Models", *IMAGES.values()], rows) + (
        f"\n\n1,875 rooms, {study['steps'].max():,} steps, 4 latents, bf16, one H200; "
        f"{OVER_SEEDS} ({link(BIASES)}, `unweave reproduce inductive-biases/table-2 --scale hour`)"
        "; [modification and other methods](../inductive-biases.md#results-on-images)."
    )


def _of_second_stages(name: str) -> str:
    """Return image quality of second stages and their first stages."""
    models = read(STAGES).set_index("run").to_dict("index")
    rows = []
    for model in models.values():
        if model["method"] == name:
            first = models[model["first"]]
            named = f"β-TCVAE, `beta={first['beta']:g}`"
            rows += [_images(named, first), _images(f"`{name}` over it", model)]
    return table(["", "FID", "L1", "SSIM", "MIG"], rows) + (
        "\n\nTextured dSprites, 12,000 steps of each first stage and 3,000 of each second, one "
        f"seed, bf16, one H200 ({link(STAGES)}, `unweave reproduce ms-vae/table-1 --scale hour`); "
        "[comparison with other models](../stages.md#results)."
    )


def _images(name: str, model: Mapping[str, Any]) -> list[str]:
    digits = {"fid": 1, "pixel_error.l1": 4, "pixel_error.ssim": 3, "mig": 3}
    return [name, *(f"{model[score]:.{many}f}" for score, many in digits.items())]


def _of_generators(name: str) -> str:
    """Return the comparisons that involve a generator."""
    found = read(GENERATORS)
    rows = []
    for row in found[found["of"].str.contains(name)].itertuples():
        one, other = str(row.of).split(" against ")
        numbers = [f"{row.measured:.3f}", other, f"{row.against:.3f}", str(row.obtained)]
        rows.append([str(row.by), one, *numbers])
    heads = ["Measure", "Model", "", "Compared with", "", "Claim of the paper"]
    return table(heads, rows) + (
        "\n\nTextured dSprites, 3,000 steps, MS-GAN and CGAN on six latents of a β-VAE (C), one "
        f"seed, bf16, one H200 ({link(GENERATORS)}, "
        "`unweave reproduce ms-vae/figures-21-31 --scale hour`)."
    )


def _of_pairs(_: str) -> str:
    """Return scores of methods that learn from pairs and of a VAE, trained on a CPU."""
    found = read(PAIRS)
    models = pd.DataFrame(found["models"])
    rows = [
        [f"`{method}`", str(len(part)), *(mean(part[metric]) for metric in IMAGES)]
        for method, part in models.groupby("method", sort=False)
    ]
    return table(["Method", "Models", *IMAGES.values()], rows) + (
        f"\n\n{found['about']}; {OVER_SEEDS} ({link(PAIRS)}, `python benchmarks/weak_pairs.py`)."
    )


def _of_quantised(_: str) -> str:
    """Return scores of methods with quantised latents and of a β-VAE, trained on a CPU."""
    found = read(QUANTISED)
    models = pd.DataFrame(found["models"])
    rows = [
        [
            f"`{method}`",
            str(len(part)),
            *(mean(part[metric]) for metric in IMAGES),
            f"{part['reconstruction'].mean():.1f}",
            "" if part["values"].isna().all() else f"{part['values'].mean():.1f}",
        ]
        for method, part in models.groupby("method", sort=False)
    ]
    heads = ["Method", "Models", *IMAGES.values(), "Reconstruction error", "Values per latent"]
    return table(heads, rows) + (
        f"\n\n{found['about']}; the mean image has a reconstruction error of "
        f"{found['mean_image']:.1f} nats; {OVER_SEEDS} ({link(QUANTISED)}, "
        "`python benchmarks/quantised.py`). Codes are values."
    )


def _of_penalties(name: str) -> str:
    """Return scores of methods with a penalty and of those without it, trained on a CPU."""
    found = read(PENALTIES)
    models = pd.DataFrame(found["models"])
    bases = {"bio_ae": "ae", "hfs": "beta_vae", "jacobian_l1": "beta_vae"}
    terms = {
        "bio_ae": {"negative": "Share of z < 0"},
        "hfs": {"hausdorff": "Hausdorff distance"},
        "jacobian_l1": {"jacobian": "Penalty"},
    }[name]
    rows = []
    for label, part in models.groupby("label", sort=False):
        if part["method"].iloc[0] in (name, bases[name]):
            values = [f"{part['reconstruction'].mean():.1f}"]
            values += [_number(part[term].mean()) for term in terms]
            scores = (mean(part[metric]) for metric in IMAGES)
            rows.append([str(label), str(len(part)), *scores, *values])
    heads = ["Method", "Models", *IMAGES.values(), "Reconstruction error", *terms.values()]
    return table(heads, rows) + (
        f"\n\n{found['about']}; {OVER_SEEDS} ({link(PENALTIES)}, "
        "`python benchmarks/penalties.py`)."
    )


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"


def _of_ivae(_: str) -> str:
    """Return how well iVAE and VAE recover sources, trained on a CPU."""
    found = read(AUXILIARY)
    models = pd.DataFrame(found["models"])
    rows = [
        [str(label), str(len(part)), mean(part["mcc"]), f"{part['mcc'].min():.3f}"]
        for label, part in models.groupby("label", sort=False)
    ]
    return table(["Method", "Models", "MCC", "Lowest MCC"], rows) + (
        f"\n\n{found['about']}; mean ± population standard deviation over mixtures "
        f"({link(AUXILIARY)}, `python benchmarks/ivae.py`)."
    )


def _of_dava(_: str) -> str:
    """Return scores of DAVA and of VAEs, trained on a CPU."""
    found = read(DAVA)
    models = pd.DataFrame(found["models"])
    rows = [
        [
            f"`{method}`",
            str(len(part)),
            *(mean(part[metric]) for metric in (*IMAGES, "pipe")),
            f"{part['kl'].mean():.1f}",
        ]
        for method, part in models.groupby("method", sort=False)
    ]
    return table(["Method", "Models", *IMAGES.values(), "PIPE", "KL divergence"], rows) + (
        f"\n\n{found['about']}; {OVER_SEEDS} ({link(DAVA)}, `python benchmarks/dava.py`)."
    )


def _of_none(_: str) -> str:
    return "None: these models have no encoder and therefore no codes to score."


KNOWN: dict[str, Callable[[str], str]] = {
    "vae": _of_vaes,
    "beta_vae": _of_beta_vaes,
    **dict.fromkeys(("annealed_vae", "factor_vae", "beta_tc_vae"), _by_strength),
    **dict.fromkeys(("dip_vae_i", "dip_vae_ii"), _by_strength),
    "vae_ensemble": _of_ensembles,
    **dict.fromkeys(("isa_vae", "isa_tc_vae"), _of_isa),
    **dict.fromkeys(("ae", "pcl", "slow_vae"), _on_rooms),
    **dict.fromkeys(("ms_vae", "jacobian"), _of_second_stages),
    **dict.fromkeys(("ms_gan", "cgan", "infogan"), _of_generators),
    **dict.fromkeys(("ada_gvae", "ada_ml_vae"), _of_pairs),
    **dict.fromkeys(("qlae", "tripod"), _of_quantised),
    **dict.fromkeys(("bio_ae", "hfs", "jacobian_l1"), _of_penalties),
    "ivae": _of_ivae,
    "dava": _of_dava,
    "from_factors": _of_none,
}
"""Sources of scores by method."""
