"""Methods that learn from pairs of images, compared with a VAE, on a CPU.

    .venv/bin/python benchmarks/weak_pairs.py [--seeds 4] [--steps 4000] [--out FILE]

Hearts of six sizes at 16 × 16 positions, four latents for three factors, and small dense networks,
so that training takes minutes. The two images of a pair differ in at most one factor, which is
unknown to the methods.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import unweave as uw
from unweave.methods import VAE, AdaGVAE, AdaMLVAE
from unweave.methods.base import Method

METRICS = ("mig", "dci", "factor_vae", "sap")
EVEN = range(0, 32, 2)


def scored(method: Method, data: uw.data.Dataset, seeds: int, steps: int) -> list[dict[str, Any]]:
    """Train models of a method and return their scores."""
    fleet = uw.train(
        method,
        data,
        seeds=seeds,
        steps=steps,
        latents=4,
        architecture="small_mlp",
        optimiser=uw.Adam(lr=1e-3),
    )
    table = uw.evaluate(fleet, data, METRICS)
    return table[["method", "seed", *METRICS]].to_dict("records")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", "benchmarks/results/weak_pairs_cpu.json"
    parser.add_argument("--seeds", type=int, default=4, help=f"Seeds {default}")
    parser.add_argument("--steps", type=int, default=4_000, help=f"Training steps {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output file {default}")
    args = parser.parse_args()
    data = uw.data.load("dsprites").slice(shape=2, orientation=0, posX=EVEN, posY=EVEN)
    methods = (VAE(), AdaGVAE(changed=1), AdaMLVAE(changed=1))
    models = [row for one in methods for row in scored(one, data, args.seeds, args.steps)]
    about = (
        f"{len(data):,} hearts of six sizes at 16 × 16 positions, {args.steps:,} steps of 64 "
        "images or pairs that differ in at most one factor, `small_mlp`, 4 latents"
    )
    args.out.write_text(json.dumps({"about": about, "models": models}, indent=1) + "\n")


if __name__ == "__main__":
    main()
