"""Time to rank a fleet of 300 models without labels, compared with a naive implementation.

    .venv/bin/python benchmarks/selection.py [--models 300] [--rows 3000] [--out FILE]

Codes are simulated: each model is a nonlinear mixture of ten factors, from nearly aligned to fully
mixed, and every third model has three passive latents. The naive implementation follows
disentanglement_lib: for each pair, scikit-learn's Lasso with its default tolerance, or SciPy's
Spearman correlation latent by latent. It is timed on a few pairs and extrapolated.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unweave.select import Latents, cka, consensus, dto, mcc, udr

LATENTS = 10
NAIVE_PAIRS = 20
ALPHA = 0.1


def simulate(num_models: int, rows: int) -> Latents:
    generator = np.random.default_rng(0)
    factors = generator.normal(size=(rows, LATENTS))
    means = np.empty((num_models, rows, LATENTS))
    kl = np.full((num_models, LATENTS), 2.0)
    kl[::3, -3:] = 0.001
    for number in range(num_models):
        mixture = number / max(num_models - 1, 1)
        mixing = np.eye(LATENTS) + mixture * 0.5 * generator.normal(size=(LATENTS, LATENTS))
        noise = generator.normal(size=(rows, LATENTS))
        means[number] = np.tanh(factors @ mixing) + 0.1 * noise
    return Latents(means, kl=kl)


def naive_lasso(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import Lasso

    return np.abs(Lasso(alpha=ALPHA).fit(source, target).coef_.T)


def naive_spearman(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    from scipy.stats import spearmanr

    return np.array([[abs(spearmanr(a, b).statistic) for b in target.T] for a in source.T])


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def naive_seconds(latents: Latents, relevance: Callable[..., np.ndarray]) -> float:
    """Estimated seconds for all ordered pairs, from a few of them."""
    codes, count = latents.standardised, len(latents)
    pairs = np.random.default_rng(1).integers(count, size=(NAIVE_PAIRS, 2))
    spent = seconds(lambda: [relevance(codes[i], codes[j]) for i, j in pairs])
    return spent / NAIVE_PAIRS * count * (count - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=300, help="Models (default: 300).")
    parser.add_argument("--rows", type=int, default=3_000, help="Images (default: 3,000).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # passive latents are constant columns
    work: dict[str, Callable[[Latents], Any]] = {
        "udr_lasso": udr,
        "udr_spearman": lambda latents: udr(latents, relevance="spearman"),
        "cka": cka,
        "mcc": mcc,
        "dto": dto,
        "consensus": consensus,
    }
    results: dict[str, dict[str, float]] = {}
    for name, function in work.items():
        latents = simulate(options.models, options.rows)  # no caching between measurements
        results[name] = {"seconds": round(seconds(partial(function, latents)), 2)}
        print(f"{name:<14}{results[name]['seconds']:>9.2f} s", flush=True)
    latents = simulate(options.models, options.rows)
    for name, naive in (("udr_lasso", naive_lasso), ("udr_spearman", naive_spearman)):
        estimate = naive_seconds(latents, naive)
        results[name]["naive_seconds_estimated"] = round(estimate, 1)
        print(f"{name:<14}{estimate:>9.0f} s naively, estimated from {NAIVE_PAIRS} pairs")
    if options.out:
        about = {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS", "all"),
            "models": options.models,
            "rows": options.rows,
            "latents": LATENTS,
        }
        options.out.write_text(json.dumps({"about": about, "select": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
