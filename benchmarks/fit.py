"""Test whether fits find the factors, and calibrate the verdict.

    python benchmarks/fit.py suite --minutes 8 --out benchmarks/results/fit_cpu.json
    python benchmarks/fit.py calibration --out benchmarks/results/fit_calibration.csv
    python benchmarks/fit.py speed --out benchmarks/results/fit_speed_cpu.json

`suite` fits folders of 1,000 to 20,000 images with known factors, as a user would, and scores the
chosen model and all others with the factors, which training never sees. `calibration` trains fits
for few to many steps, and records their verdicts and scores. `speed` measures a step. `--only
NAME` runs a part of either. A machine without numba can save codes instead of scores:

    python benchmarks/fit.py suite --device cuda --minutes 5 --codes FOLDER --out FILE
    python benchmarks/fit.py score --codes FOLDER --out FILE
"""

import argparse
import colorsys
import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import unweave as uw
from unweave.analysis.correlation import spearman
from unweave.fitting.portfolio import NARROW, smaller_size, with_defaults
from unweave.models.encoding import posteriors

Table = tuple[np.ndarray, dict[str, np.ndarray]]
"""Images, and the values of their factors by name."""
METRICS: dict[str, Callable[..., dict[str, float]]] = {
    "mig": uw.metrics.mig,
    "dci": uw.metrics.dci,
    "factor_vae": uw.metrics.factor_vae,
}
SCORED_IMAGES = 10_000
"""Largest number of images for scores."""
LEVELS = 10
"""Levels of continuous factors for MIG and DCI."""
SIDE = 64


def soft_shapes(count: int, rng: np.random.Generator) -> Table:
    """Draw soft ellipses on grey: place, size, hue, angle and background."""
    factors = {
        "x": rng.uniform(0.25, 0.75, count),
        "y": rng.uniform(0.25, 0.75, count),
        "size": rng.uniform(0.10, 0.22, count),
        "hue": rng.uniform(0, 0.7, count),
        "angle": rng.uniform(0, np.pi, count),
        "background": rng.uniform(0.1, 0.6, count),
    }
    colour = np.array([colorsys.hsv_to_rgb(hue, 0.9, 0.95) for hue in factors["hue"]])
    inside = _inside(_radius(factors, 0.5), 1, 0.12)[..., None]
    ground = factors["background"][:, None, None, None]
    images = inside * colour[:, None, None] + (1 - inside) * ground
    return np.rint(255 * images).astype(np.uint8), factors


def cells(count: int, rng: np.random.Generator) -> Table:
    """Draw noisy grey cells: place, size, elongation, angle, nucleus and brightness."""
    factors = {
        "x": rng.uniform(0.3, 0.7, count),
        "y": rng.uniform(0.3, 0.7, count),
        "size": rng.uniform(0.14, 0.28, count),
        "elongation": rng.uniform(0.55, 1, count),
        "angle": rng.uniform(0, np.pi, count),
        "nucleus": rng.uniform(0.25, 0.55, count),
        "brightness": rng.uniform(0.35, 0.9, count),
    }
    radius = _radius(factors, factors["elongation"][:, None, None])
    body, nucleus = _inside(radius, 1, 0.08), _inside(radius, factors["nucleus"], 0.06)
    light = factors["brightness"][:, None, None] * (0.6 * body + 0.4 * nucleus)
    noise = rng.normal(0, 0.02, light.shape)
    return np.rint(255 * (0.05 + light + noise)).clip(0, 255).astype(np.uint8), factors


def _radius(factors: dict[str, np.ndarray], aspect: float | np.ndarray) -> np.ndarray:
    """Return distances from the centres of ellipses in units of their radius, `[n, H, W]`."""
    across = (np.arange(SIDE) + 0.5) / SIDE
    x, y, size, angle = (factors[name][:, None, None] for name in ("x", "y", "size", "angle"))
    right, down = across - x, across[:, None] - y
    long = (np.cos(angle) * right + np.sin(angle) * down) / size
    short = (np.cos(angle) * down - np.sin(angle) * right) / (size * aspect)
    return np.hypot(long, short)


def _inside(radius: np.ndarray, limit: float | np.ndarray, softness: float) -> np.ndarray:
    """Return 1 inside the limit, 0 outside, with a soft edge."""
    edge = np.reshape(limit, (-1, 1, 1))
    return 1 / (1 + np.exp(((radius - edge) / softness).clip(-50, 50)))


def known(name: str) -> Callable[[int, np.random.Generator], Table]:
    """Return a function that samples a data set with known factors."""

    def sample(count: int, rng: np.random.Generator) -> Table:
        data = uw.data.load(name)
        rows = np.sort(rng.choice(len(data), count, replace=False))
        images = torch.as_tensor(data.images(rows)).cpu().numpy()
        known = data.grid or data.labels
        assert known is not None
        names = [axis.name for axis in known.axes]
        return images, dict(zip(names, np.asarray(data.factors(rows)).T, strict=True))

    return sample


SUITE: dict[str, tuple[Callable[[int, np.random.Generator], Table], int]] = {
    "soft shapes": (soft_shapes, 1_500),
    "cells": (cells, 800),
    "rooms3d, 1,000": (known("rooms3d"), 1_000),
    "rooms3d": (known("rooms3d"), 20_000),
    "dsprites, 1,000": (known("dsprites"), 1_000),
    "dsprites": (known("dsprites"), 20_000),
    "color_dsprites": (known("color_dsprites"), 20_000),
    "textured_dsprites": (known("textured_dsprites"), 20_000),
    "infinite_dsprites": (known("infinite_dsprites"), 10_000),
}
"""Data of the suite: a function that draws or samples them, and the number of images."""
CALIBRATION = ("soft shapes", "cells", "rooms3d", "dsprites", "color_dsprites")
LENGTHS = (100, 400, 1_600, 6_400)
"""Steps of the fits of the calibration."""
SPEED_STEPS = (40, 240)
"""Lengths of two runs whose difference gives the time of a step, without start-up."""
MAX_IMAGES = 2_000
"""Largest number of images of a fit of the calibration."""


def load(
    name: str, seed: int, device: torch.device, most: int = 100_000
) -> tuple[uw.data.Dataset, dict[str, Any]]:
    """Load the data at the size that `unweave fit` would use for a folder of these images."""
    draw, count = SUITE[name]
    images, factors = draw(min(count, most), np.random.default_rng(seed))
    levels = {key: _levels(values) for key, values in factors.items()}
    data = uw.data.load(images, name=name, factors=levels)
    size = smaller_size(data, device)
    if size is not None:
        data = uw.data.load(images, name=name, factors=levels, size=size)
    return data, factors


def _levels(values: np.ndarray) -> np.ndarray:
    """Return discrete levels of equal counts, unless the values are discrete already."""
    if len(np.unique(values)) <= max(40, LEVELS):
        return values
    ranks = values.argsort().argsort()
    return ranks * LEVELS // len(values)


def followed(codes: np.ndarray, factors: dict[str, np.ndarray]) -> dict[str, float]:
    """Return, for each factor, the largest |rank correlation| with a column of the codes."""
    values = np.column_stack(list(factors.values()))
    correlations, _ = spearman(codes, values)
    both = np.abs(np.nan_to_num(correlations))
    return dict(zip(factors, both.max(0).round(3).tolist(), strict=True))


def sampled(found: Any, data: uw.data.Dataset, device: torch.device) -> dict[str, np.ndarray]:
    """Return codes of random images by all models, best model first, and known factors."""
    rows = np.random.default_rng(0).permutation(len(data))[:SCORED_IMAGES]
    order = found.ranking["model"].to_numpy()
    codes, _ = posteriors(found.fleet.to(device), data, rows)
    return {"codes": codes[order], "factors": np.asarray(data.factors(rows))}


def scores(codes: np.ndarray, factors: np.ndarray) -> dict[str, float]:
    """Return scores of the chosen model, which is the first, and the best of all models."""
    found: dict[str, float] = {}
    for name, metric in METRICS.items():
        values = [metric(each, factors)[name] if np.isfinite(each).all() else 0 for each in codes]
        found |= {name: round(float(values[0]), 3), f"best_{name}": round(float(max(values)), 3)}
    return found


def described(
    found: Any, data: uw.data.Dataset, factors: dict[str, np.ndarray], device: torch.device
) -> dict[str, Any]:
    """Return the verdict and the chosen model, and how its latents and PCA follow the factors."""
    rows = found.baselines.rows
    few = {name: values[rows] for name, values in factors.items()}
    (codes,), _ = posteriors(found.best.to(device), data)
    return {
        "verdict": found.verdict.level,
        "steps": found.best.config.steps,
        "method": str(found.best.config.method),
        "architecture": str(found.best.config.architecture),
        "followed": followed(codes, factors),
        "followed_by_pca": followed(found.baselines.codes, few),
        "followed_by_ica": followed(found.baselines.independent(), few),
        "measures": dict(found.verdict.measures),
    }


def suite(names: list[str], args: argparse.Namespace) -> None:
    """Fit each data set once and record the scores, or codes from which they are computed."""
    rows = json.loads(args.out.read_text())["fits"] if args.out.exists() else {}
    for name in names:
        data, factors = load(name, args.seed, args.device)
        start = time.perf_counter()
        limits = {"steps": args.steps} if args.steps else {"minutes": args.minutes}
        found = uw.fit(data, device=args.device, **limits)
        seconds = round(time.perf_counter() - start, 1)
        about = {"images": len(data), "shape": list(data.shape), "seconds": seconds}
        rows[name] = {**about, **described(found, data, factors, args.device)}
        sample, stem = sampled(found, data, args.device), name.replace(", ", "-").replace(" ", "-")
        if args.codes:
            args.codes.mkdir(parents=True, exist_ok=True)
            codes, levels = sample["codes"].astype(np.float16), sample["factors"]
            np.savez_compressed(args.codes / f"{stem}.npz", name=name, codes=codes, factors=levels)
            found.best.save(args.codes / stem, compact=True)
        else:
            rows[name] |= scores(**sample)
        print(name, json.dumps(rows[name]), flush=True)
        if args.pictures:
            args.pictures.mkdir(parents=True, exist_ok=True)
            uw.show.traversals(found.best, data).save(args.pictures / f"{stem}.png")
        _write(rows, args)


def score(args: argparse.Namespace) -> None:
    """Add scores to the fits whose codes were saved."""
    rows = json.loads(args.out.read_text())["fits"]
    for file in sorted(args.codes.glob("*.npz")):
        with np.load(file) as saved:
            name, sample = str(saved["name"]), {key: saved[key] for key in ("codes", "factors")}
        rows[name] |= scores(sample["codes"].astype(np.float32), sample["factors"])
        print(name, json.dumps(rows[name]), flush=True)
    _write(rows, args)


def _write(rows: dict[str, Any], args: argparse.Namespace) -> None:
    known = json.loads(args.out.read_text()) if args.out.exists() else {}
    device = torch.cuda.get_device_name() if args.device.type == "cuda" else str(args.device)
    content = {"device": device, "torch": torch.__version__, **known, "fits": rows}
    args.out.write_text(json.dumps(content, indent=1) + "\n")


def calibration(names: list[str], args: argparse.Namespace) -> None:
    """Train fits for few to many steps and record their verdicts and scores."""
    lengths = (args.steps,) if args.steps else LENGTHS
    for seed in range(args.seed, args.seed + args.repeats):
        for name, steps in product(names, lengths):
            row = _judged(name, seed, steps, args.device)
            table = pd.DataFrame([row])
            table.to_csv(args.out, mode="a", header=not args.out.exists(), index=False)
            print(*(row[key] for key in ("data", "steps", "verdict", "mig", "dci")), flush=True)


def _judged(name: str, seed: int, steps: int, device: torch.device) -> dict[str, Any]:
    """Train a fit and return its verdict, its measures, and scores."""
    data, factors = load(name, seed, device, MAX_IMAGES)
    seeds = range(2 * seed, 2 * seed + 2)
    found = uw.fit(data, steps=steps, seeds=seeds, device=device, progress=False)
    row = described(found, data, factors, device) | scores(**sampled(found, data, device))
    measures = row.pop("measures")
    for kind in ("followed", "followed_by_pca", "followed_by_ica"):
        row[kind] = round(float(np.mean(list(row[kind].values()))), 3)
    return {"data": name, "seed": seed, **row, **measures}


def speed(args: argparse.Namespace) -> None:
    """Measure the CPU time of a step of one model on soft shapes, in bf16 on one thread."""
    torch.set_num_threads(1)
    data, _ = load("soft shapes", args.seed, args.device)
    settings = with_defaults({}, data, args.device)
    factor = uw.methods.FactorVAE
    found = {}
    for method in (uw.methods.BetaTCVAE(beta=4.0), factor(), factor(width=NARROW)):
        seconds = []
        for steps in SPEED_STEPS:
            start = time.process_time()
            uw.train(method, data, steps=steps, precision="bf16", progress=False, **settings)
            seconds.append(time.process_time() - start)
        steps = SPEED_STEPS[1] - SPEED_STEPS[0]
        found[str(method)] = round(1e3 * (seconds[1] - seconds[0]) / steps, 1)
        print(method, found[str(method)], "ms", flush=True)
    content = {"device": str(args.device), "torch": torch.__version__, "cpu_ms_per_step": found}
    args.out.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("suite", "score", "calibration", "speed"))
    parser.add_argument("--only", choices=SUITE, action="append", help="Data set.")
    parser.add_argument("--minutes", type=float, default=8, help="Time limit of a fit.")
    parser.add_argument("--steps", type=int, help="Steps of a fit, instead of a time limit.")
    parser.add_argument("--seed", type=int, default=0, help="First seed of the images.")
    parser.add_argument("--repeats", type=int, default=3, help="Fits per data set (calibration).")
    parser.add_argument("--pictures", type=Path, help="Folder for pictures of the latents.")
    parser.add_argument("--codes", type=Path, help="Folder for codes that are scored later.")
    parser.add_argument("--device", type=torch.device, default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.part == "suite":
        suite(args.only or list(SUITE), args)
    elif args.part == "score":
        score(args)
    elif args.part == "speed":
        speed(args)
    else:
        calibration(args.only or list(CALIBRATION), args)


if __name__ == "__main__":
    main()
