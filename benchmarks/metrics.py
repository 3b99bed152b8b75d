"""Time of each metric for one model of dSprites, compared with a naive reference implementation.

    .venv/bin/python benchmarks/metrics.py [--codes FILE.npy] [--metrics NAME …] [--out FILE]

Codes are 737,280 × 10, one row per image of dSprites, from a file or simulated. The naive
implementation follows disentanglement_lib, with codes looked up instead of encoded: it samples
factors batch by batch in Python, and uses scikit-learn's mutual information, logistic regression,
support vector machines and boosted trees. It is timed for the six classic metrics;
`--no-naive-dci` skips DCI, which takes minutes.
"""

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unweave.metrics import CLASSIC, METRICS
from unweave.metrics.dci import disentanglement

SIZES = np.array((3, 6, 40, 32, 32))
BATCH = 64
TRAIN, TEST = 10_000, 5_000


def simulate() -> np.ndarray:
    """Simulate codes: noisy nonlinear functions of some factors; three codes are pure noise."""
    generator = np.random.default_rng(0)
    factors = grid() / SIZES * 2 - 1
    mixing = generator.normal(size=(5, 10)) * (generator.random((5, 10)) < 0.3)
    mixing[:, :5] += np.eye(5)
    mixing[:, 7:] = 0
    noise = generator.normal(size=(len(factors), 10))
    return (np.tanh(factors @ mixing) + 0.1 * noise).astype(np.float32)


def grid() -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(SIZES.prod()), SIZES), 1)


class Naive:
    """Naive reference implementation on a table of codes.

    Args:
        codes: Codes `[737280, d]`.
    """

    def __init__(self, codes: np.ndarray) -> None:
        self.codes = codes
        self.random = np.random.RandomState(0)

    def factors(self, count: int) -> np.ndarray:
        return np.stack([self.random.randint(size, size=count) for size in SIZES], 1)

    def encode(self, factors: np.ndarray) -> np.ndarray:
        return self.codes[np.ravel_multi_index(tuple(factors.T), SIZES)]

    def sample(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Sample rows in batches of 16, as configured in the reference."""
        parts = [self.factors(min(16, count - start)) for start in range(0, count, 16)]
        codes = np.concatenate([self.encode(part) for part in parts])
        return codes, np.concatenate(parts)

    def beta_vae(self) -> float:
        from sklearn.linear_model import LogisticRegression

        points, labels = np.empty((TRAIN + TEST, 10)), np.empty(TRAIN + TEST, int)
        for number in range(TRAIN + TEST):
            factor = self.random.randint(len(SIZES))
            first, second = self.factors(BATCH), self.factors(BATCH)
            second[:, factor] = first[:, factor]
            points[number] = np.abs(self.encode(first) - self.encode(second)).mean(0)
            labels[number] = factor
        model = LogisticRegression().fit(points[:TRAIN], labels[:TRAIN])
        return float(model.score(points[TRAIN:], labels[TRAIN:]))

    def factor_vae(self) -> float:
        variances = self.sample(10_000)[0].var(0, ddof=1)
        active = np.sqrt(variances) >= 0.05
        votes = np.zeros((2, len(SIZES), active.sum()), int)
        for number in range(TRAIN + TEST):
            factor = self.random.randint(len(SIZES))
            factors = self.factors(BATCH)
            factors[:, factor] = factors[0, factor]
            local = self.encode(factors).var(0, ddof=1)
            least = np.argmin(local[active] / variances[active])
            votes[int(number >= TRAIN), factor, least] += 1
        majority = votes[0].argmax(0)
        return float(votes[1][majority, np.arange(len(majority))].sum() / TEST)

    def information(self, codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
        from sklearn.metrics import mutual_info_score

        classes = [np.digitize(z, np.histogram(z, 20)[1][:-1]) for z in codes.T]
        return np.array([[mutual_info_score(v, z) for v in factors.T] for z in classes])

    def mig(self) -> float:
        from sklearn.metrics import mutual_info_score

        codes, factors = self.sample(TRAIN)
        best = np.sort(self.information(codes, factors), 0)
        entropy = np.array([mutual_info_score(v, v) for v in factors.T])
        return float(((best[-1] - best[-2]) / entropy).mean())

    def modularity(self) -> float:
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score

        codes, factors = self.sample(TRAIN)
        test_codes, test_factors = self.sample(TEST)
        squared = self.information(codes, factors) ** 2
        others = (squared.sum(1) - squared.max(1)) / squared.max(1) / (len(SIZES) - 1)
        mean, deviation = codes.mean(0), codes.std(0)
        for k, size in enumerate(SIZES):
            model = LogisticRegression().fit((codes - mean) / deviation, factors[:, k])
            for x, v in ((codes, factors), (test_codes, test_factors)):
                roc_auc_score(np.eye(size)[v[:, k]], model.predict_proba((x - mean) / deviation))
        return float(1 - others.mean())

    def sap(self) -> float:
        from sklearn.svm import LinearSVC

        codes, factors = self.sample(TRAIN)
        test_codes, test_factors = self.sample(TEST)
        scores = np.empty((10, len(SIZES)))
        for j in range(10):
            for k in range(len(SIZES)):
                machine = LinearSVC(C=0.01, class_weight="balanced")
                machine.fit(codes[:, [j]], factors[:, k])
                scores[j, k] = machine.score(test_codes[:, [j]], test_factors[:, k])
        best = np.sort(scores, 0)
        return float((best[-1] - best[-2]).mean())

    def dci(self) -> float:
        from sklearn.ensemble import GradientBoostingClassifier

        codes, factors = self.sample(TRAIN)
        test_codes, test_factors = self.sample(TEST)
        columns = []
        for k in range(len(SIZES)):
            model = GradientBoostingClassifier().fit(codes, factors[:, k])
            columns.append(model.feature_importances_)
            model.score(codes, factors[:, k])
            model.score(test_codes, test_factors[:, k])
        return disentanglement(np.stack(columns, 1))


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    classic, every = list(CLASSIC), list(METRICS)
    parser.add_argument("--codes", type=Path, help="Codes [737280, d] (.npy).")
    parser.add_argument("--metrics", nargs="+", default=classic, choices=every, help="Metrics.")
    parser.add_argument("--no-naive-dci", action="store_true", help="Skip the naive DCI.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    options = parser.parse_args()
    codes = np.load(options.codes) if options.codes else simulate()
    factors = grid()
    warnings.simplefilter("ignore")  # logistic regressions stop at 100 iterations
    warm = np.random.default_rng(0).normal(size=(99, 2))
    warm_up = timed(lambda: [METRICS[name](warm, np.arange(99) % 3) for name in CLASSIC])[1]
    print(f"warm-up (imports and compilation): {warm_up:.1f} s")
    results: dict[str, dict[str, float | None]] = {}
    print(f"{'':<34}{'score':>9}{'seconds':>9}{'naive':>9}{'seconds':>9}{'times':>7}")
    for name in options.metrics:
        scores, seconds = timed(partial(METRICS[name], codes, factors))
        line = f"{name:<34}{scores[name]:>9.4f}{seconds:>9.2f}"
        naive_score = naive_seconds = None
        if name in CLASSIC and not (name == "dci" and options.no_naive_dci):
            naive_score, naive_seconds = timed(getattr(Naive(codes), name))
            line += f"{naive_score:>9.4f}{naive_seconds:>9.2f}{naive_seconds / seconds:>7.1f}"
        print(line, flush=True)
        results[name] = {
            "score": scores[name],
            "seconds": seconds,
            "naive_score": naive_score,
            "naive_seconds": naive_seconds,
        }
    quick = sum(results[n]["seconds"] or 0 for n in CLASSIC if n != "dci" and n in results)
    print(f"all classic metrics except DCI: {quick:.2f} s")
    if options.out:
        about = {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "codes": options.codes.name if options.codes else "simulated",
            "warm_up_seconds": warm_up,
            "six_without_dci_seconds": quick,
        }
        options.out.write_text(json.dumps({"about": about, "metrics": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
