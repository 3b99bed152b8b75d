"""iVAE and VAE on sources whose variances differ between segments, on a CPU.

    .venv/bin/python benchmarks/ivae.py [--mixtures 5] [--steps 600] [--out FILE]

As in the toy experiments of the paper: in each of 20 segments, two normal sources have other
variances; a nonlinear function mixes them into 32 numbers. The segment is the factor u.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import unweave as uw
from unweave.data import Dataset
from unweave.data.grid import Factor, Grid
from unweave.data.stores import Floats
from unweave.methods import IVAE, VAE
from unweave.metrics.mcc import mcc

SEGMENTS, SIZE = 20, 500


def mixture(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and the numbers that they are mixed into, in [0, 1]."""
    generator = np.random.default_rng(seed)
    deviations = generator.uniform(0.2, 3, size=(SEGMENTS, 1, 2))
    sources = (deviations * generator.normal(size=(SEGMENTS, SIZE, 2))).reshape(-1, 2)
    mixed = sources @ generator.normal(size=(2, 32))
    mixed = mixed + 0.5 * np.tanh(mixed @ generator.normal(size=(32, 32)))
    return sources, np.clip(mixed / mixed.std(0) / 8 + 0.5, 0, 1).astype(np.float32)


def scores(seed: int, steps: int) -> list[dict[str, str | int | float]]:
    """Return the MCC of all models on one mixture."""
    sources, rows = mixture(seed)
    store = Floats(rows.reshape(-1, 4, 8, 1))
    item = Factor("item", range(SIZE))
    known = Dataset("segments", store, grid=Grid((Factor("segment", range(SEGMENTS)), item)))
    every = Factor("item", range(SEGMENTS * SIZE))
    constant = Dataset("segments", store, grid=Grid((Factor("segment", range(1)), every)))
    found = {}
    for name, method, data in (
        ("`ivae`", IVAE(factor="segment", classes=SEGMENTS), known),
        ("`ivae`, trained with a constant u", IVAE(factor="segment", classes=1), constant),
        ("`vae`", VAE(), known),
    ):
        (model,) = uw.train(
            method,
            data,
            seeds=[seed],
            steps=steps,
            batch=128,
            latents=2,
            architecture="small_mlp",
            likelihood="narrow_gaussian",
            learning_rate=5e-3,
            device="cpu",
        )
        found[name] = model.encode(data)[0]
        if name == "`ivae`":
            factors = {"segment": np.zeros(len(data), int)}
            without = model.encode(data, factors=factors)[0]
            found["`ivae`, encoded with a constant u"] = without
    return [
        {"mixture": seed, "label": name, "mcc": float(mcc(codes, sources)["mcc"])}
        for name, codes in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", "benchmarks/results/ivae_cpu.json"
    parser.add_argument("--mixtures", type=int, default=5, help=f"Mixtures {default}")
    parser.add_argument("--steps", type=int, default=600, help=f"Training steps {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output file {default}")
    args = parser.parse_args()
    models = [row for seed in range(args.mixtures) for row in scores(seed, args.steps)]
    about = (
        f"Two sources in {SEGMENTS} segments of {SIZE}, mixed into 32 numbers, {args.steps:,} "
        "steps of 128, `small_mlp`, learning rate 5e-3; MCC of posterior means with the sources"
    )
    args.out.write_text(json.dumps({"about": about, "models": models}, indent=1) + "\n")


if __name__ == "__main__":
    main()
