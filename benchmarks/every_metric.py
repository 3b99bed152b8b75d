"""Scores of the same trained models by every metric.

    .venv/bin/python benchmarks/every_metric.py --runs FOLDER [--metrics NAME …] [--out FILE]

Scores the largest group of runs in FOLDER that differ only in their seeds. The committed results
are those of the ten restarts in `reproduce/inductive-biases-hour/runs`, trained by `unweave
reproduce inductive-biases/figures-7-8 --scale hour`, which range from entangled to disentangled.
FID is excluded unless named, because it takes minutes and downloads a network. Scores of other
metrics for the same models are kept in the output file.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import unweave as uw
from unweave.metrics import METRICS

LONG = "fid"


def restarts(folder: Path) -> list[uw.Model]:
    """Largest group of models that differ only in their seeds."""
    groups = defaultdict(list)
    for path in sorted(folder.glob("*/weights.safetensors")):
        model = uw.load(path.parent)
        groups[replace(model.config, seed=0).hash].append(model)
    return max(groups.values(), key=len)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    quick, out = [name for name in METRICS if name != LONG], "benchmarks/results/every_metric.json"
    parser.add_argument("--runs", type=Path, required=True, help="Folder of trained runs.")
    parser.add_argument("--metrics", nargs="*", default=quick, help="Metrics (default: all).")
    parser.add_argument("--out", type=Path, default=out, help="Output file (%(default)s).")
    args = parser.parse_args()
    models = restarts(args.runs)
    first = models[0].config
    about = {
        "data": first.to_dict()["data"],
        "method": first.to_dict()["method"],
        "steps": first.steps,
        "runs": [model.config.hash for model in models],
    }
    found: dict[str, Any] = {"about": about, "metrics": {}}
    if args.out.exists():
        before = json.loads(args.out.read_text())
        if before["about"]["runs"] == about["runs"]:
            found["metrics"] = before["metrics"]
    for name in args.metrics:
        scores = uw.evaluate(models, metrics=[name], progress=False)[name]
        found["metrics"][name] = scores.tolist()
        print(f"{name:34s} {scores.min():8.3f} to {scores.max():8.3f}", flush=True)
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
