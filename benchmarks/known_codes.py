"""Scores of every metric for known codes: perfect, rotated, incomplete, duplicated, noise.

    .venv/bin/python benchmarks/known_codes.py [--metrics NAME …] [--out FILE]

Codes are posteriors of 737,280 images with the factors of dSprites and ten latents: means, and
log-variances of -4 for active latents and 0 for inactive ones. The mean of an inactive latent is
0.01 times noise. Metrics of images are excluded. Scores of other metrics are kept in the output
file.
"""

import argparse
import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from metrics import grid

from unweave.metrics import METRICS, Metric

LATENTS = 10


class Codes(NamedTuple):
    """Posteriors of all images, and their description."""

    means: np.ndarray
    logvars: np.ndarray
    about: str


def known_codes(factors: np.ndarray) -> dict[str, Codes]:
    """All kinds of codes by name, for factors `[n, 5]`."""
    generator = np.random.default_rng(0)
    truth = (factors - factors.mean(0)) / factors.std(0)
    turn, _ = np.linalg.qr(generator.normal(size=(5, 5)))
    noise = generator.normal(size=(len(factors), LATENTS)).astype(np.float32)

    def posterior(used: np.ndarray, about: str) -> Codes:
        means = 0.01 * noise
        means[:, : used.shape[1]] = used
        logvars = np.zeros_like(means)
        logvars[:, : used.shape[1]] = -4
        return Codes(means, logvars, about)

    return {
        "perfect": posterior(truth, "one latent for each factor, five latents not in use"),
        "turned": posterior(truth @ turn, "the same five, turned by a rotation at random"),
        "incomplete": posterior(truth[:, 1:], "perfect, but nothing knows the shape"),
        "copied": posterior(np.tile(truth, 2), "every factor in two latents"),
        "noise": posterior(noise, "ten latents of noise, which know nothing"),
    }


def score(metric: Metric, codes: Codes, factors: np.ndarray) -> float:
    options: dict[str, Any] = {"logvars": codes.logvars} if "logvars" in metric.takes else {}
    return metric(codes.means, factors, **options)[metric.name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [name for name, metric in METRICS.items() if not metric.of_images]
    parser.add_argument("--metrics", nargs="+", default=names, choices=names, help="Metrics.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # logistic regressions stop at 100 iterations
    factors = grid()
    kinds = known_codes(factors)
    known = options.out is not None and options.out.exists()
    found: dict[str, dict[str, float]] = (
        json.loads(options.out.read_text())["metrics"] if known else {}
    )
    print(f"{'':<34}" + "".join(f"{kind:>12}" for kind in kinds) + f"{'seconds':>12}")
    for name in options.metrics:
        start = time.perf_counter()
        found[name] = {kind: score(METRICS[name], codes, factors) for kind, codes in kinds.items()}
        seconds = (time.perf_counter() - start) / len(kinds)
        print(f"{name:<34}" + "".join(f"{s:>12.3f}" for s in (*found[name].values(), seconds)))
        if options.out:
            about = {"machine": platform.machine(), **{kind: kinds[kind].about for kind in kinds}}
            text = json.dumps({"about": about, "metrics": found}, indent=1)
            options.out.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
