"""Train and score a paper's study, in as many calls as it takes, and note what it took.

    python benchmarks/large_study.py --out OUT [--paper common-assumptions] [--scale hour]
                                     [--study FILE] [--folder FOLDER] [--minutes 60]
                                     [--fleet-size N]

The study is the one that `unweave reproduce` runs for the paper's recipes, with all that any of
them measures; or that of a file, such as `benchmarks/published_settings.yaml`. After so many
minutes it stops with a checkpoint; the same command goes on, and ends with 3 as long as something
is left. OUT gets the study's table and `run.json`: the device, the seconds of every call, what a
step took in every fleet, and what scoring took of the cores. From the two `python -m tools.results
OUT` makes docs/results.
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
from unweave.papers.running import study_of
from unweave.study import Study, load, run
from unweave.study.estimate import device_name
from unweave.study.store import Store
from unweave.study.study_file import read

CALLS, RUN, TABLE = "calls.json", "run.json", "study.parquet"
LEFT = 3
"""The exit code as long as something is left to do."""
PATIENCE = 10.0
"""Seconds in which a process for scores ends, so that its time is counted."""


def whole_study(paper: str, scale: str) -> Study:
    """The study of a paper's recipes with everything that one of them measures."""
    recipes = [one for one in RECIPES.values() if one.paper == paper and one.studies]
    found = study_of(max(recipes, key=lambda recipe: len(recipe.adds)), scale)
    assert found is not None
    return found


def core_seconds() -> float:
    """What processes that have ended took of the cores."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def worked(study: Study, folder: Path, minutes: float, fleet_size: int | None) -> dict[str, Any]:
    """Work for so long, as if somebody then pressed Ctrl-C; what this call took."""
    before = scored(folder)
    start, begun = time.perf_counter(), core_seconds()
    stop = threading.Timer(60 * minutes, os.kill, (os.getpid(), signal.SIGINT))
    stop.daemon = True
    stop.start()
    try:
        run(study, folder, progress=sys.stdout.isatty(), fleet_size=fleet_size)
    except (InterruptedTrainingError, KeyboardInterrupt) as error:
        print(f"stopped: {error or 'while it scored'}", flush=True)
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
    """How many models of a study are scored."""
    return load(folder).counts["scored"] if (folder / "ledger.sqlite").exists() else 0


def fleets(folder: Path, device: torch.device) -> list[dict[str, Any]]:
    """What a step of one model took, in every fleet that was trained without a break."""
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
    parser.add_argument("--paper", default="common-assumptions")
    parser.add_argument("--scale", default="hour")
    parser.add_argument("--study", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--fleet-size", type=int)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    study = read(args.study) if args.study else whole_study(args.paper, args.scale)
    name = study.name.replace("-", "_")
    folder = args.folder or Path("reproduce") / study.name
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    notes = folder / CALLS
    calls = json.loads(notes.read_text()) if notes.exists() else []
    calls.append(worked(study, folder, args.minutes, args.fleet_size))
    notes.write_text(json.dumps(calls))
    results = load(folder)
    results.write()
    left = results.store.ledger.busy()
    said = {
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
    (args.out / RUN).write_text(json.dumps(said, indent=1) + "\n")
    shutil.copyfile(folder / TABLE, args.out / TABLE)
    print(f"{results}; {calls[-1]['seconds']:.0f} s in this call")
    for reason in results.store.ledger.reasons():
        print(*reason)
    sys.exit(LEFT if left else 0)


if __name__ == "__main__":
    main()
