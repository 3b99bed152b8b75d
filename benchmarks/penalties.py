"""BioAE, HFS and the Jacobian L1 penalty, compared with methods without them, on a CPU.

    .venv/bin/python benchmarks/penalties.py [--seeds 2] [--steps 1500] [--out FILE]

Hearts of six sizes at 16 × 16 positions, reduced to 32 × 32 pixels, six latents for three factors,
and small dense networks, so that training takes minutes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw
from unweave.methods import AE, HFS, BetaVAE, BioAE, JacobianL1
from unweave.methods.base import Method

METRICS = ("mig", "dci", "factor_vae", "sap")
EVEN = range(0, 32, 2)
DECAY = 1e-4
"""Weight decay of Hsu's BioAE."""


def hearts() -> uw.data.Dataset:
    """Return 1,536 hearts of 32 × 32 pixels."""
    data = uw.data.load("dsprites").slice(shape=2, orientation=0, posX=EVEN, posY=EVEN)
    rows = np.arange(len(data))
    blocks = np.asarray(data.images(rows)).reshape(len(data), 32, 2, 32, 2, 1)
    factors = np.asarray(data.factors(rows))[:, [1, 3, 4]]  # scale, posX, posY
    return uw.data.load(blocks.mean((2, 4)).astype(np.uint8), factors=factors)


def runs() -> list[tuple[str, Method, float]]:
    """Return a label, a method and the weight decay of each kind of run."""
    host = "beta_vae=1"
    return [
        ("`ae`", AE(), 0),
        ("`bio_ae`", BioAE(), DECAY),
        ("`bio_ae`, Whittington et al.", BioAE.whittington(), 0),
        ("`beta_vae`, `beta=1`", BetaVAE(beta=1), 0),
        *((f"`hfs` on it, `gamma={g}`", HFS(gamma=g, host=host), 0) for g in (10, 100)),
        *(
            (f"`jacobian_l1` on it, `alpha={a}`", JacobianL1(alpha=a, host=host), 0)
            for a in (200, 2_000)
        ),
    ]


def scored(
    label: str, method: Method, decay: float, data: uw.data.Dataset, seeds: int, steps: int
) -> list[dict[str, Any]]:
    """Train models of a method and return their scores."""
    fleet = uw.train(
        method,
        data,
        seeds=seeds,
        steps=steps,
        latents=6,
        architecture="small_mlp",
        optimiser=uw.Adam(lr=3e-3, weight_decay=decay),
    )
    table = uw.evaluate(fleet, data, METRICS)
    rows = table[["method", "seed", *METRICS]].to_dict("records")
    for row, model in zip(rows, fleet, strict=True):
        last = model.curve.iloc[-1]
        row["label"] = label
        row["reconstruction"] = float(last["reconstruction"])
        for term in ("negative", "energy", "hausdorff", "jacobian"):
            if term in last:
                row[term] = float(last[term])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", "benchmarks/results/penalties_cpu.json"
    parser.add_argument("--seeds", type=int, default=2, help=f"Seeds {default}")
    parser.add_argument("--steps", type=int, default=1_500, help=f"Training steps {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output file {default}")
    args = parser.parse_args()
    data = hearts()
    models = [row for run in runs() for row in scored(*run, data, args.seeds, args.steps)]
    about = (
        f"{len(data):,} hearts of six sizes at 16 × 16 positions, 32 pixels, {args.steps:,} steps "
        "of 64 images, `small_mlp`, 6 latents, learning rate 3e-3"
    )
    args.out.write_text(json.dumps({"about": about, "models": models}, indent=1) + "\n")


if __name__ == "__main__":
    main()
