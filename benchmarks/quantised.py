"""Methods with quantised latents, compared with a β-VAE, on a CPU.

    .venv/bin/python benchmarks/quantised.py [--seeds 2] [--steps 1500] [--out FILE]

Hearts of six sizes at 16 × 16 positions, six latents for three factors, as published, and small
dense networks with layer norm, so that training takes minutes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw
from unweave.methods import QLAE, BetaVAE, Quantised, Tripod
from unweave.methods.base import Method

METRICS = ("mig", "dci", "factor_vae", "sap")
EVEN, LATENTS = range(0, 32, 2), 6
METHODS: tuple[tuple[Method, str, uw.Adam], ...] = (
    (BetaVAE(beta=4), "glorot", uw.Adam(lr=1e-3)),
    (QLAE(), "torch", uw.Adam(lr=1e-3, weight_decay=0.1, clip=1)),
    (Tripod(), "torch", uw.Adam(lr=1e-3, clip=1)),
)
"""Methods with their initialisation and optimiser."""


def scored(
    method: Method, init: str, adam: uw.Adam, data: uw.data.Dataset, seeds: int, steps: int
) -> list[dict[str, Any]]:
    """Train models of a method and return their scores."""
    fleet = uw.train(
        method,
        data,
        seeds=seeds,
        steps=steps,
        latents=LATENTS,
        architecture="gelu_mlp",
        init=init,
        optimiser=adam,
    )
    table = uw.evaluate(fleet, data, METRICS)
    last = fleet.curve.groupby("run", sort=False).tail(1)
    table["reconstruction"] = last["reconstruction"].to_numpy()
    columns = ["method", "seed", *METRICS, "reconstruction"]
    if isinstance(method, Quantised):
        table["values"] = last[list(method.diagnostic_names(LATENTS))].mean(axis=1).to_numpy()
        columns += ["values"]
    return table[columns].to_dict("records")


def mean_image_nats(data: uw.data.Dataset) -> float:
    """Return the cross-entropy of the mean image, the best constant reconstruction, in nats."""
    images = data.images(range(len(data))) / 255
    mean = images.mean(0)
    safe = mean.clip(1e-12, 1 - 1e-12)
    losses = -(images * np.log(safe) + (1 - images) * np.log(1 - safe))
    return float(losses.sum((1, 2, 3)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", "benchmarks/results/quantised_cpu.json"
    parser.add_argument("--seeds", type=int, default=2, help=f"Seeds {default}")
    parser.add_argument("--steps", type=int, default=1_500, help=f"Training steps {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output file {default}")
    args = parser.parse_args()
    data = uw.data.load("dsprites").slice(shape=2, orientation=0, posX=EVEN, posY=EVEN)
    models = [row for one in METHODS for row in scored(*one, data, args.seeds, args.steps)]
    about = (
        f"{len(data):,} hearts of six sizes at 16 × 16 positions, {args.steps:,} steps of 64 "
        "images, `gelu_mlp`, 6 latents, learning rate 0.001"
    )
    found = {"about": about, "mean_image": mean_image_nats(data), "models": models}
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
