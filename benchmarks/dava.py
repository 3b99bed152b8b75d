"""DAVA compared with a VAE and a β-VAE, on a CPU.

    .venv/bin/python benchmarks/dava.py [--seeds 2] [--steps 2000] [--out FILE]

Hearts of six sizes at 16 × 16 positions, 16 pixels wide, and four latents for three factors. The
networks are small and dense, and the capacity of DAVA grows 64 times as quickly as published, so
that training takes minutes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw
from unweave.methods import DAVA, VAE, BetaVAE
from unweave.methods.base import Method

METRICS = ("mig", "dci", "factor_vae", "sap", "pipe")
EVEN = range(0, 32, 2)
THRESHOLD = 200_000


def hearts() -> uw.data.Dataset:
    """Return the images, reduced to 16 × 16 by averaging 4 × 4 pixels."""
    data = uw.data.load("dsprites").slice(shape=2, orientation=0, posX=EVEN, posY=EVEN)
    rows = np.arange(len(data))
    images = data.images(rows)
    small = images.reshape(len(images), 16, 4, 16, 4, 1).mean((2, 4)).round().astype(np.uint8)
    return uw.data.load(small, factors=np.asarray(data.factors(rows))[:, [1, 3, 4]])


def scored(method: Method, data: uw.data.Dataset, seeds: int, steps: int) -> list[dict[str, Any]]:
    """Train models of a method; return their scores, last KL divergence and capacity in nats."""
    fleet = uw.train(
        method,
        data,
        seeds=seeds,
        steps=steps,
        latents=4,
        architecture="small_mlp",
        optimiser=uw.Adam(lr=1e-3, clip_norm=1.0),
    )
    table = uw.evaluate(fleet, data, METRICS)[["method", "seed", *METRICS]].to_dict("records")
    for row, model in zip(table, fleet, strict=True):
        end = model.curve.iloc[-1]
        row["kl"] = float(end["kl"])
        if "capacity" in end:
            row["capacity"] = float(4 * end["capacity"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", "benchmarks/results/dava_cpu.json"
    parser.add_argument("--seeds", type=int, default=2, help=f"Seeds {default}")
    parser.add_argument("--steps", type=int, default=2_000, help=f"Training steps {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output file {default}")
    args = parser.parse_args()
    data = hearts()
    methods = (VAE(), BetaVAE(beta=4), DAVA(threshold=THRESHOLD))
    models = [row for one in methods for row in scored(one, data, args.seeds, args.steps)]
    about = (
        f"{len(data):,} hearts of six sizes at 16 × 16 positions, 16 pixels wide, {args.steps:,} "
        "steps of 64 images, `small_mlp`, 4 latents, `Adam(lr=1e-3, clip_norm=1)`; "
        f"`threshold={THRESHOLD:_}`"
    )
    args.out.write_text(json.dumps({"about": about, "models": models}, indent=1) + "\n")


if __name__ == "__main__":
    main()
