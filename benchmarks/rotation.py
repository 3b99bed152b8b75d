"""Scores of autoencoders whose codes are rotated after training, on two data sets of two factors.

    python benchmarks/rotation.py [--steps 3000] [--seeds 3] [--out FILE]

A soft disc at every position of a grid: moving it changes images equally fast everywhere and in
both directions, so that independent components should be the two coordinates. A disc of variable
size and brightness violates this. Models are autoencoders with four latents.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw
from unweave.models.rotation import ROTATIONS

SIDE, PLACES, WIDTH = 32, 32, 3.0


def discs(x: np.ndarray, y: np.ndarray, radius: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Draw soft discs, uint8 `[n, 32, 32, 1]`."""
    across = np.arange(SIDE)
    distance = np.hypot(across[:, None] - y[:, None, None], across - x[:, None, None])
    soft = 1 / (1 + np.exp(2 * (distance - radius[:, None, None])))
    return np.rint(255 * height[:, None, None] * soft).astype(np.uint8)[..., None]


def datasets() -> dict[str, uw.data.Dataset]:
    grid = np.stack(np.meshgrid(np.arange(PLACES), np.arange(PLACES), indexing="ij"), -1)
    one, other = grid.reshape(-1, 2).T
    share, middle = (one / (PLACES - 1), other / (PLACES - 1)), np.full(len(one), SIDE / 2)
    x, y = (8 + 16 * part for part in share)
    images = {
        "position": discs(x, y, np.full(len(x), 4.0), np.ones(len(x))),
        "size and brightness": discs(middle, middle, 2 + 8 * share[0], 0.3 + 0.7 * share[1]),
    }
    factors = {"first": one, "second": other}
    return {name: uw.data.load(each, factors=factors) for name, each in images.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="Training steps.")
    parser.add_argument("--seeds", type=int, default=3, help="Number of seeds.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, data in datasets().items():
        settings: dict[str, Any] = {"latents": 4, "learning_rate": 1e-3, "batch": 64}
        fleet = uw.train("ae", data, steps=args.steps, seeds=args.seeds, **settings)
        factors = data.factors(np.arange(len(data)))
        for seed, model in enumerate(fleet):
            versions = {"none": model, **{to: uw.rotate(model, data, to) for to in ROTATIONS}}
            for kind, one in versions.items():
                mean, _ = one.encode(data)
                row = {"data": name, "seed": seed, "rotation": kind}
                rows.append({**row, "mcc": uw.metrics.mcc(mean, factors)["mcc"]})
    for name in dict.fromkeys(row["data"] for row in rows):
        for kind in ("none", *ROTATIONS):
            found = [r["mcc"] for r in rows if (r["data"], r["rotation"]) == (name, kind)]
            print(f"{name:<22}{kind:<10}{np.mean(found):.3f} (least {min(found):.3f})")
    if args.out:
        args.out.write_text(json.dumps({"steps": args.steps, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
