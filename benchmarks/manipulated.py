"""The full experiment on manipulated images, at a size that a CPU trains in a quarter of an hour.

    python benchmarks/manipulated.py [--steps 2000] [--changes 600] [--out FOLDER]

An ellipse of dSprites at 32 × 32 positions, reduced to 32 × 32 pixels: two factors of equal
variance. Restarts of a β-VAE are ranked by MIG, a manipulation m is learned from the best two and
the worst two, and as many restarts are trained on the modified images, and on images with noise of
the same size. Writes `manipulated.json`, `changes.png` and the file of m, and prints the table.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

import unweave as uw
from unweave.data.dataset import Dataset
from unweave.papers.inductive_biases.manipulation import (
    change_sizes,
    exemplars,
    factor_accuracies,
    factor_gaps,
    manipulate,
    over_pruned,
    show_changes,
    with_noise,
)

EPSILON = 0.1
SEEDS = 8


def positions() -> Dataset:
    """Data set of 1,024 images of one ellipse."""
    data = uw.data.load("dsprites").slice(shape=1, scale=5, orientation=0)
    classes = data.factors(np.arange(len(data)))
    factors = {"posX": classes[:, 3], "posY": classes[:, 4]}
    return uw.data.load(data[:], size=32, factors=factors, name="positions")


def restarts(data: Dataset, steps: int) -> uw.Fleet:
    """Train β-VAEs that differ only in their seeds."""
    return uw.train(
        uw.methods.BetaVAE(beta=1.0),
        data,
        seeds=SEEDS,
        steps=steps,
        latents=2,
        architecture="small_mlp",
        likelihood="gaussian",
        optimiser=uw.Adam(lr=1e-3),
    )


def off_axis(model: uw.Model, data: Dataset) -> float:
    """Angle between the two latents and the factors, from 0 to 45 degrees.

    Computed from the singular vectors of the linear map from factors to codes.
    """
    codes, _ = model.encode(data)
    classes = data.factors(np.arange(len(data))).astype(float)
    w = (classes - classes.mean(0)) / classes.std(0)
    linear = np.linalg.lstsq(w, codes - codes.mean(0), rcond=None)[0]
    u, _, v = np.linalg.svd(linear)
    nearest = u @ v
    return float(np.degrees(np.arccos(np.clip(np.abs(nearest).max(), 0, 1))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default, out = "(default: %(default)s).", Path("manipulated")
    parser.add_argument("--steps", type=int, default=2_000, help=f"Steps of the VAEs {default}")
    parser.add_argument("--changes", type=int, default=600, help=f"Steps of m {default}")
    parser.add_argument("--out", type=Path, default=out, help=f"Output folder {default}")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    original = positions()
    fleets = {"original": restarts(original, args.steps)}
    scores = uw.evaluate(fleets["original"], original, ["mig"])
    best, worst = exemplars(fleets["original"], scores, count=2)
    m = manipulate(
        original,
        best,
        worst,
        EPSILON,
        args.changes,
        out=args.out / "m.safetensors",
        optimiser=uw.Adam(lr=1e-3, eps=1e-7),
    )
    noise = with_noise(original, EPSILON)
    data = {"original": original, "modified": m.modified(original), "noise": noise}
    for name in ("modified", "noise"):
        fleets[name] = restarts(data[name], args.steps)
    rows = []
    for name, fleet in fleets.items():
        mig = uw.evaluate(fleet, data[name], ["mig"])["mig"]
        gaps = factor_gaps(fleet, data[name]).groupby("factor")["gap"].mean()
        angles = [off_axis(model, data[name]) for model in fleet]
        rows.append(
            {
                "images": name,
                "mig": mig.mean(),
                "std": mig.std(),
                "each": mig.round(3).tolist(),
                "off_axis": np.mean(angles),
                "angles": np.round(angles, 1).tolist(),
                "over_pruned": int(over_pruned(fleet, data[name])["over_pruned"].sum()),
                **gaps.to_dict(),
                **(change_sizes(original, data[name]) if name != "original" else {}),
            }
        )
    accuracies = factor_accuracies(data, 1_000)
    table = pd.DataFrame(rows)
    print(table.drop(columns=["each", "angles"]).round(3).to_string(index=False))
    print(accuracies.round(3).to_string())
    print(m)
    show_changes(original, {"modified": data["modified"], "noise": noise}, 8).save(
        args.out / "changes.png"
    )
    record = {
        "rows": json.loads(table.to_json(orient="records")),
        "accuracies": json.loads(accuracies.to_json()),
        "curve": json.loads(m.curve.iloc[[0, -1]].to_json(orient="records")),
    }
    (args.out / "manipulated.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
