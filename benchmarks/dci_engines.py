"""DCI by both tree engines on the same rows: difference of scores, and time.

    .venv/bin/python benchmarks/dci_engines.py [--trained FILE] [--out FILE] [--golden FILE]

Codes: the golden codes of the tests, their random rotations, noisy copies, and with `--trained
FILE` the first 15,000 codes of each trained model in an `.npz` file (`codes` `[M, n, d]`,
`factors` `[n, K]`). The spread is that of scikit-learn between two random states. Codes that are
already in the file of `--out` are not scored again. `--golden FILE` writes scikit-learn's scores
of the golden codes for the tests.
"""

import argparse
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

import unweave as uw
from unweave.metrics.dci import Engine

GOLDEN = Path(__file__).parents[1] / "tests" / "metrics" / "golden" / "codes.npz"
NAMES = ("aligned", "rotated_pair", "nonlinear")
COMPARED = ("disentanglement", "completeness")


def cases(trained: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, codes and factors of 15,000 rows, of which the first 10,000 are for training."""
    generator = np.random.default_rng(0)
    with np.load(GOLDEN) as file:
        rows = np.concatenate([file["train_index"], file["test_index"]])
        factors = np.stack(np.unravel_index(rows, file["sizes"]), 1)
        golden = {name: file[name][rows] for name in NAMES}
    for name, codes in golden.items():
        yield name, codes, factors
    for name, codes in golden.items():
        rotation = np.linalg.qr(generator.normal(size=(codes.shape[1],) * 2))[0]
        yield f"{name}, rotated", codes @ rotation.astype(np.float32), factors
        noise = generator.normal(size=codes.shape).astype(np.float32)
        yield f"{name}, noisy", codes + 0.3 * codes.std(0) * noise, factors
    if trained:
        with np.load(trained) as file:
            for number, codes in enumerate(file["codes"]):
                yield f"trained {number}", codes[:15_000], file["factors"][:15_000]


def timed(
    codes: np.ndarray, factors: np.ndarray, engine: Engine, seed: int
) -> tuple[dict[str, float], float]:
    start = time.perf_counter()
    scores = uw.metrics.dci(codes, factors, seed, engine=engine)
    return scores, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trained", type=Path, help="Codes of trained models (.npz).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    parser.add_argument("--golden", type=Path, help="Output file for golden scores (JSON).")
    options = parser.parse_args()
    uw.metrics.dci(np.random.default_rng(0).normal(size=(99, 2)), np.arange(99) % 3)  # compiles
    results: dict[str, Any] = {}
    if options.out and options.out.exists():
        results = json.loads(options.out.read_text())["codes"]
    for name, codes, factors in cases(options.trained):
        if name in results:
            continue
        fast, fast_seconds = timed(codes, factors, "fast", 0)
        published, seconds = timed(codes, factors, "sklearn", 0)
        spread = timed(codes, factors, "sklearn", 1)[0] if name in NAMES else None
        results[name] = {
            "fast": fast,
            "sklearn": published,
            "difference": {key: abs(fast[key] - published[key]) for key in COMPARED},
            "sklearn_spread": spread
            and {key: abs(spread[key] - published[key]) for key in COMPARED},
            "fast_seconds": fast_seconds,
            "sklearn_seconds": seconds,
        }
        print(name, json.dumps(results[name], indent=1), flush=True)
    about = {
        "command": "benchmarks/dci_engines.py --golden tests/metrics/golden/dci_sklearn.json",
        "scikit-learn": sklearn.__version__,
        "machine": platform.machine(),
    }
    if options.out:
        options.out.write_text(json.dumps({"about": about, "codes": results}, indent=1) + "\n")
    if options.golden:
        scores = {name: results[name]["sklearn"] for name in NAMES}
        options.golden.write_text(json.dumps({"about": about, "scores": scores}, indent=1) + "\n")


if __name__ == "__main__":
    main()
