"""What every metric says of the same trained models.

    .venv/bin/python benchmarks/every_metric.py --runs FOLDER [--metrics NAME …] [--out FILE]

Of the trained runs in FOLDER, the most that differ in their seeds alone. Those of the committed
results are the ten restarts in `reproduce/inductive-biases-hour/runs`, which `unweave reproduce
inductive-biases/figures-7-8 --scale hour` trains; they reach from entangled to disentangled. FID,
which takes minutes and a network that is a download, is left out unless it is named. What a file
has of other metrics, for the same models, stays in it.
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
    """The largest group of models that differ in their seeds alone."""
    groups = defaultdict(list)
    for path in sorted(folder.glob("*/weights.safetensors")):
        model = uw.load(path.parent)
        groups[replace(model.config, seed=0).hash].append(model)
    return max(groups.values(), key=len)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--metrics", nargs="*", default=[name for name in METRICS if name != LONG])
    parser.add_argument("--out", type=Path, default="benchmarks/results/every_metric.json")
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
