"""Comparison of bf16 and float32: the same fleet trained in both, on dSprites.

    python benchmarks/precision.py [--seeds 16] [--steps 20000] [--batch 64]
                                   [--learning-rate 1e-4] [--rows 100000] [--out FILE]

Both use the same batches and noise. Compares the negative ELBO over the last thousand steps (at
most half of all) and the MIG of every seed, with p-values for equal distributions of MIG
(Kolmogorov-Smirnov) and for symmetric paired differences (Wilcoxon).
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

import unweave as uw

WINDOWS, STEPS_PER_WINDOW = 10, 100


def train(precision: str, args: argparse.Namespace, data: uw.data.Dataset) -> dict[str, Any]:
    start = time.perf_counter()
    fleet = uw.train(
        uw.methods.BetaVAE(beta=4),
        data,
        seeds=args.seeds,
        steps=args.steps,
        batch=args.batch,
        learning_rate=args.learning_rate,
        precision=precision,
    )
    took = time.perf_counter() - start
    rows = np.random.default_rng(0).integers(len(data), size=args.rows)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    codes, _ = fleet.to(device).encode(data.images(rows))
    factors = data.factors(rows)
    windows = min(WINDOWS, args.steps // STEPS_PER_WINDOW // 2)
    last = fleet.curve.groupby("run").tail(windows).groupby("run", sort=False).mean()
    elbo = (last["reconstruction"] + last["kl"]).to_numpy()
    migs = [uw.metrics.mig(one, factors)["mig"] for one in codes]
    print(
        f"{precision}: negative ELBO {elbo.mean():.3f} ± {elbo.std():.3f}, "
        f"MIG {np.mean(migs):.4f} ± {np.std(migs):.4f}, {took:.0f} s",
        flush=True,
    )
    return {"negative_elbo": elbo.tolist(), "mig": migs, "seconds": took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16, help="Seeds (default: 16).")
    parser.add_argument("--steps", type=int, default=20_000, help="Steps (default: 20,000).")
    parser.add_argument("--batch", type=int, default=64, help="Batch size (default: 64).")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="Default: 1e-4.")
    parser.add_argument("--rows", type=int, default=100_000, help="Images for MIG.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    data = uw.data.load("dsprites")
    runs = {p: train(p, args, data) for p in ("bf16", "float32")}
    elbo = {p: float(np.mean(run["negative_elbo"])) for p, run in runs.items()}
    one, two = (runs[p]["mig"] for p in runs)
    result = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "seeds": args.seeds,
        "steps": args.steps,
        "batch": args.batch,
        "learning_rate": args.learning_rate,
        "relative_difference_of_elbo": elbo["bf16"] / elbo["float32"] - 1,
        "mig_kolmogorov_smirnov_p": float(stats.ks_2samp(one, two).pvalue),
        "mig_wilcoxon_p": float(stats.wilcoxon(one, two).pvalue),
        **runs,
    }
    for name, value in result.items():
        if isinstance(value, float):
            print(f"{name:<32}{value:.4g}")
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
