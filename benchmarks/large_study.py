"""Train and score the study of a paper, over one or more calls, and record time and memory.

    python benchmarks/large_study.py --out OUT [--paper common-assumptions] [--scale hour]
                                     [--study FILE] [--folder FOLDER] [--minutes 60]
                                     [--fleet-size N]

The study is the one that `unweave reproduce` runs for the paper's recipes, with the metrics of all
of them; or that of a file, such as `benchmarks/published_settings.yaml`. After `--minutes`, it
stops with a checkpoint. Run the same command again to resume; the exit code is 3 until the study
is complete. OUT receives the study's table and `run.json`: the device, the time of every call, the
time of a step in every fleet, and the CPU time of scoring. `python -m tools.results OUT` creates
docs/results from these two files.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from unweave.errors import InterruptedTrainingError
from unweave.models.config import Config
from unweave.papers import RECIPES
from unweave.study import Study, load, run
from unweave.study.planning import device_name
from unweave.study.store import Store
from unweave.study.study import read

CALLS, RUN, TABLE = "calls.json", "run.json", "study.parquet"
LEFT = 3
"""Exit code while the study is incomplete."""
PATIENCE = 10.0
"""Seconds to wait for scoring processes to end, so that their time is counted."""


def whole_study(paper: str, scale: str) -> Study:
    """Study of a paper's recipes with the metrics of all of them."""
    recipes = [one for one in RECIPES.values() if one.paper == paper and one.studies]
    found = max(recipes, key=lambda recipe: len(recipe.adds)).study(scale)
    assert found is not None
    return found


def core_seconds() -> float:
    """CPU seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_for(study: Study, folder: Path, minutes: float, fleet_size: int | None) -> dict[str, Any]:
    """Run for some minutes, interrupt as by Ctrl-C, and return the time taken."""
    before = scored(folder)
    start, begun = time.perf_counter(), core_seconds()
    stop = threading.Timer(60 * minutes, os.kill, (os.getpid(), signal.SIGINT))
    stop.daemon = True
    stop.start()
    try:
        run(study, folder, progress=sys.stdout.isatty(), fleet_size=fleet_size)
    except (InterruptedTrainingError, KeyboardInterrupt) as error:
        print(f"stopped: {error or 'during scoring'}", flush=True)
    finally:
        stop.cancel()
    for process in multiprocessing.active_children():
        process.join(PATIENCE)
    return {
        "seconds": time.perf_counter() - start,
        "scoring_core_seconds": core_seconds() - begun,
        "scored": scored(folder) - before,
    }


def scored(folder: Path) -> int:
    """Number of scored models of a study."""
    return load(folder).counts["scored"] if (folder / "ledger.sqlite").exists() else 0


def fleets(folder: Path, device: torch.device) -> list[dict[str, Any]]:
    """Time of a model-step in every fleet that was trained without interruption."""
    store = Store(folder)
    table, speeds = store.ledger.table(), store.ledger.speeds(device_name(device))
    rows = []
    for kind, runs in table[table["asked"]].groupby("kind", sort=False)["run"]:
        config = Config.from_dict(next(iter(store.ledger.configs(runs.tolist()[:1]).values())))
        source = store.source(config)
        if kind in speeds:
            rows.append({
                "data": source.name,
                "channels": source.shape[2],
                "method": config.method.name,
                "models": len(runs),
                "us_per_model_step": 1e6 * speeds[str(kind)],
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = "(default: %(default)s)."
    parser.add_argument("--paper", default="common-assumptions", help=f"Paper {default}")
    parser.add_argument("--scale", default="hour", help=f"Scale of its recipes {default}")
    parser.add_argument("--study", type=Path, help="Study file, instead of a paper.")
    parser.add_argument("--folder", type=Path, help="Study folder (default: reproduce/NAME).")
    parser.add_argument("--minutes", type=float, default=60, help=f"Time budget {default}")
    parser.add_argument("--fleet-size", type=int, help="Models per fleet (default: automatic).")
    parser.add_argument("--out", type=Path, required=True, help="Output folder.")
    args = parser.parse_args()
    study = read(args.study) if args.study else whole_study(args.paper, args.scale)
    name = study.name.replace("-", "_")
    folder = args.folder or Path("reproduce") / study.name
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    file = folder / CALLS
    calls = json.loads(file.read_text()) if file.exists() else []
    calls.append(run_for(study, folder, args.minutes, args.fleet_size))
    file.write_text(json.dumps(calls))
    results = load(folder)
    results.write()
    left = results.store.ledger.busy()
    record = {
        "name": name,
        "command": f"--study {args.study}" if args.study else f"--scale {args.scale}",
        "settings": dict(study.settings),
        "device": device_name(device),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "complete": not left,
        "states": results.counts,
        "calls": calls,
        "fleets": fleets(folder, device),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / RUN).write_text(json.dumps(record, indent=1) + "\n")
    shutil.copyfile(folder / TABLE, args.out / TABLE)
    print(f"{results}; {calls[-1]['seconds']:.0f} s in this call")
    for reason in results.store.ledger.reasons():
        print(*reason)
    sys.exit(LEFT if left else 0)


if __name__ == "__main__":
    main()
