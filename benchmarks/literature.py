"""Train a VAE and a β-VAE (β = 4) on dSprites, to compare with the literature and a reference run.

    python benchmarks/literature.py --seeds 6 --steps 150000 --minutes 8.4 [--out FILE]

Reference run (twelve VAEs with 4 × 4 convolutions, 300,000 steps) with β = 1 and β = 4, six seeds
each: FactorVAE score 0.673 ± 0.103 and 0.692 ± 0.050 (published, ten seeds each: 0.635 ± 0.083 and
0.665 ± 0.089); MIG 0.075 ± 0.037 and 0.156 ± 0.040; reconstruction about 17 and 45 nats; KL 27 and
14.5 nats; ten, and six to nine, active latents.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import unweave as uw
from unweave.data.grid import Grid
from unweave.fleet.engine import Engine
from unweave.models.config import Config
from unweave.models.model import Fleet

ACTIVE = 0.05


def factor_vae_score(codes: np.ndarray, grid: Grid, seed: int = 0) -> float:
    """FactorVAE score by the classic protocol: 10,000 votes, 5,000 for testing, batches of 64."""
    rng = np.random.default_rng(seed)
    spread = codes[rng.integers(0, len(codes), 10_000)].std(0, ddof=1)
    active = spread >= ACTIVE
    if not active.any():
        return 0.0
    fixed = rng.integers(0, len(grid.sizes), 15_000)
    factors = rng.integers(0, grid.sizes, (15_000, 64, len(grid.sizes)))
    rows = np.arange(15_000)
    factors[rows, :, fixed] = factors[rows, 0, fixed][:, None]
    local = codes[grid.index(factors)].var(1, ddof=1)
    local[:, ~active] = np.inf
    votes = (local / np.where(active, spread, 1) ** 2).argmin(1)
    table = np.zeros((codes.shape[1], len(grid.sizes)))
    np.add.at(table, (votes[:10_000], fixed[:10_000]), 1)
    return float((table.argmax(1)[votes[10_000:]] == fixed[10_000:]).mean())


def mutual_information_gap(codes: np.ndarray, grid: Grid, seed: int = 0) -> float:
    """MIG by the classic protocol: 10,000 points, 20 bins per latent."""
    rng = np.random.default_rng(seed)
    sample = rng.integers(0, len(codes), 10_000)
    factors = grid.factors(sample)
    bins = np.stack([np.digitize(z, np.histogram(z, 20)[1][:-1]) - 1 for z in codes[sample].T])
    gaps = []
    for k, size in enumerate(grid.sizes):
        joint = np.stack(
            [
                np.histogram2d(z, factors[:, k], (np.arange(21), np.arange(size + 1)))[0]
                for z in bins
            ]
        )
        joint /= len(sample)
        marginal = joint.sum(2, keepdims=True) * joint.sum(1, keepdims=True)
        information = np.where(
            joint > 0, joint * np.log(np.maximum(joint, 1e-300) / np.maximum(marginal, 1e-300)), 0
        )
        first, second = np.sort(information.sum((1, 2)))[::-1][:2]
        p = joint[0].sum(0)
        gaps.append((first - second) / -(p[p > 0] * np.log(p[p > 0])).sum())
    return float(np.mean(gaps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = "(default: %(default)s)."
    parser.add_argument("--seeds", type=int, default=6, help=f"Seeds per β {default}")
    parser.add_argument("--steps", type=int, default=150_000, help=f"Training steps {default}")
    parser.add_argument("--precision", default="bf16", help=f"Precision {default}")
    parser.add_argument("--architecture", default="conv4x4", help=f"Network {default}")
    parser.add_argument("--minutes", type=float, default=60, help=f"Time budget {default}")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    data = uw.data.load("dsprites")
    grid = data.grid
    assert grid is not None
    configs = [
        Config(
            method=uw.methods.BetaVAE(beta=beta),
            data=tuple(data.origin),
            seed=seed,
            steps=args.steps,
            architecture=args.architecture,
            precision=args.precision,
        )
        for beta in (1.0, 4.0)
        for seed in range(args.seeds)
    ]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    engine = Engine(configs, data, device)
    start, means = time.perf_counter(), engine.fetch()
    while int(engine.step) < args.steps and time.perf_counter() - start < 60 * args.minutes:
        engine.advance(min(1000, args.steps - int(engine.step)))
        means = engine.fetch()
        if int(engine.step) % 10_000 == 0:
            print(int(engine.step), [round(x, 2) for x in means.mean(1).tolist()], flush=True)
    steps, seconds = int(engine.step), time.perf_counter() - start
    buffers = {n: b for p in engine.groups.values() for n, b in p.buffers(p.parameters)}
    fleet = Fleet(configs, data.shape, buffers, None, engine.diverged_at.cpu().numpy())
    codes, _ = fleet.encode(data)
    rows: list[dict[str, Any]] = []
    for place, config in enumerate(configs):
        terms = dict(zip(engine.terms, means[:, place].tolist(), strict=True))
        rows.append({
            "beta": dataclasses.asdict(config.method)["beta"],
            "seed": config.seed,
            "factor_vae": factor_vae_score(codes[place], grid),
            "mig": mutual_information_gap(codes[place], grid),
            "reconstruction": terms["reconstruction"],
            "kl": terms["kl"],
            "active": int((codes[place].std(0) >= ACTIVE).sum()),
        })  # fmt: skip
    per = seconds / steps / len(configs) * 1e6
    print(
        f"{steps:,} steps of {len(configs)} models in {seconds:.0f} s, {per:.0f} µs per model-step"
    )
    for beta in (1.0, 4.0):
        group = [row for row in rows if row["beta"] == beta]
        for name in ("factor_vae", "mig", "reconstruction", "kl", "active"):
            values = np.array([row[name] for row in group])
            print(f"beta {beta:g}  {name:<16}{values.mean():8.3f} ± {values.std():.3f}")
    if args.out:
        summary = {
            "command": vars(args) | {"out": None},
            "steps": steps,
            "seconds": seconds,
            "models": rows,
        }
        args.out.write_text(json.dumps(summary, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
