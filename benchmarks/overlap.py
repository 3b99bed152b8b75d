"""Effect of scoring on GPU throughput: fleets trained alone, and while others are scored.

    python benchmarks/overlap.py [--models 64] [--fleets 3] [--steps 8000] [--metrics mig sap]
                                 [--out FILE]

The first fleet of a study trains while there is nothing to score; the others train while earlier
fleets are encoded and scored. The additional time of a fleet, per model scored meanwhile, is the
GPU cost of scoring. It is compared with a run of the large study, which takes 300,000 steps.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import unweave as uw
from unweave.study.local import LocalRunner
from unweave.study.running import prepare
from unweave.study.store import Store
from unweave.study.training import RunOptions

PAPER_STEPS = 300_000


class Timed(LocalRunner):
    """Local runner that records the time of each fleet and the runs scored meanwhile."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fleets: list[dict[str, float]] = []

    def _train(self, configs: list[Any]) -> None:
        start, done = time.perf_counter(), self.scorer.done
        super()._train(configs)
        took = time.perf_counter() - start
        self.fleets.append(
            {"seconds": took, "models": len(configs), "scored_meanwhile": self.scorer.done - done}
        )
        print(self.fleets[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    classic, text = list(uw.metrics.CLASSIC), "(default: %(default)s)."
    precision = "bf16" if torch.cuda.is_available() else "float32"
    parser.add_argument("--models", type=int, default=64, help=f"Models per fleet {text}")
    parser.add_argument("--fleets", type=int, default=3, help=f"Fleets {text}")
    parser.add_argument("--steps", type=int, default=8000, help=f"Training steps {text}")
    parser.add_argument("--metrics", nargs="+", default=classic, help=f"Metrics {text}")
    parser.add_argument("--precision", default=precision, help=f"Precision {text}")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    study = uw.study.Study(
        data="dsprites",
        methods={"beta_vae": {"beta": 4}},
        seeds=args.models * args.fleets,
        steps=args.steps,
        metrics=args.metrics,
        settings={"precision": args.precision},
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        prepare(store, study)
        work = Timed(store, RunOptions(fleet_size=args.models))
        start = time.perf_counter()
        work.run()
        total = time.perf_counter() - start
        states = store.ledger.counts()
    first, *rest = work.fleets
    longer = sum(one["seconds"] - first["seconds"] for one in rest)
    scored = sum(one["scored_meanwhile"] for one in rest)
    each = longer / max(1, scored)
    paper = first["seconds"] / args.models / args.steps * PAPER_STEPS
    result = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "cores": os.cpu_count(),
        "metrics": args.metrics,
        "steps": args.steps,
        "fleets": work.fleets,
        "states": states,
        "seconds_in_all": total,
        "gpu_seconds_per_scored_model": each,
        "share_of_a_run_of_300000_steps": each / paper,
    }
    print(json.dumps({n: v for n, v in result.items() if n != "fleets"}, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
