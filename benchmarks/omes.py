"""OMES of β-VAEs that differ in their strength and seed, compared with other metrics, on a CPU.

    .venv/bin/python benchmarks/omes.py [--seeds 5] [--steps 2000] [--out FILE]

Hearts of six sizes at 16 × 16 positions, 16 pixels wide, and four latents for three factors, as in
`benchmarks/dava.py`.
"""

import argparse
import json
from pathlib import Path

from dava import hearts

import unweave as uw

METRICS = ("mig", "dci", "factor_vae", "sap", "omes")
STRENGTHS = (0.5, 1.0)
PARTS = ("omes.overlap", "omes.multiple_encoding")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", "benchmarks/results/omes_cpu.json"
    parser.add_argument("--seeds", type=int, default=5, help=f"Seeds {default}")
    parser.add_argument("--steps", type=int, default=2_000, help=f"Training steps {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output file {default}")
    args = parser.parse_args()
    data = hearts()
    fleet = uw.train(
        uw.methods.BetaVAE(beta=list(STRENGTHS)),
        data,
        seeds=args.seeds,
        steps=args.steps,
        latents=4,
        architecture="small_mlp",
        optimiser=uw.Adam(lr=1e-3, clip_norm=1.0),
    )
    table = uw.evaluate(fleet, data, METRICS)
    about = (
        f"{len(data):,} hearts of six sizes at 16 × 16 positions, 16 pixels wide, {args.steps:,} "
        "steps of 64 images, `small_mlp`, 4 latents, `Adam(lr=1e-3, clip_norm=1)`"
    )
    models = table[["method", "beta", "seed", *METRICS, *PARTS]].to_dict("records")
    args.out.write_text(json.dumps({"about": about, "models": models}, indent=1) + "\n")


if __name__ == "__main__":
    main()
