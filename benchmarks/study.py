"""Overhead of a study besides training: ledger, folders, table and Ray; and projected hours.

    python benchmarks/study.py [--runs 12600] [--many 1000000] [--folders 200] [--no-ray]
                               [--out FILE]

The ledger is measured with as many runs as the large study has, and again with many more. Folders
hold real but untrained models, two per fleet. For Ray, it measures the time to start it, the time
to start a task, and the number of task reports handled per second. These numbers and the speeds in
`benchmarks/results` give the projected hours for any number of GPUs.
"""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import unweave as uw
from unweave.fleet.engine import Engine
from unweave.methods import BetaVAE
from unweave.models.config import Config
from unweave.models.model import Fleet
from unweave.models.networks import disk_bytes
from unweave.papers import find
from unweave.study.checking import check
from unweave.study.ledger import Ledger, RunOutcome
from unweave.study.local import HEARTBEAT_SECONDS
from unweave.study.on_ray.progress import REPORT_SECONDS, Progress
from unweave.study.results import Results
from unweave.study.running import prepare
from unweave.study.store import Store
from unweave.study.study import Study
from unweave.study.workers import Worker

RESULTS = Path(__file__).parent / "results"
METHODS = find("common-assumptions/transfer").studies["paper"]["methods"]
FLEET, NUMBERS = 512, 12
STEPS, GREY_SETS, COLOUR_SETS = 300_000, 2, 5
GPUS = (1, 8, 64, 1_000)
CHECKPOINT_SECONDS, PARAMETERS, STATE_BYTES = 60, 690_517, 12


def timed(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def ledger_row(count: int, folder: Path) -> dict[str, float]:
    """Seconds for the operations of a ledger with `count` runs."""
    ledger, worker = Ledger(folder / f"{count}.sqlite"), Worker.here()
    config = Config(method=BetaVAE(), data=(("load", "dsprites", {}),)).to_dict()
    names = [f"{place:016x}" for place in range(count)]
    kinds = {name: f"kind{place % 42}" for place, name in enumerate(names)}
    row = {"plan": timed(lambda: ledger.plan(dict.fromkeys(names, config), kinds))}
    fleet = ledger.open_runs()["kind0"][:FLEET]
    numbers = {f"metric{number}": 0.5 for number in range(NUMBERS)}
    for name, job in {
        "open_runs": ledger.open_runs,
        "claim_a_fleet": lambda: ledger.claim(worker, fleet),
        "configs_of_a_fleet": lambda: ledger.configs(fleet),
        "mark_a_fleet": lambda: ledger.mark(fleet, "training"),
        "mark_a_run": lambda: ledger.record({fleet[0]: RunOutcome("trained", None, numbers)}),
        "claim_a_trained_run": lambda: ledger.claim_trained(worker, 1),
        "claim_where_none_is": lambda: ledger.claim_trained(worker, 1),
        "beat": lambda: ledger.heartbeat(worker, "training"),
        "counts": ledger.counts,
        "busy": ledger.busy,
    }.items():
        row[name] = timed(job)
    ledger.record(dict.fromkeys(names, RunOutcome("scored", None, numbers)))
    row["rows"] = timed(ledger.rows)
    row["megabytes"] = ledger.path.stat().st_size / 1e6
    return row


def table_row(count: int, folder: Path) -> dict[str, float]:
    """Seconds to plan a real study, report its status, and write its table."""
    store = Store(folder / "study")
    study = Study(data=["dsprites", "color_dsprites"], methods=METHODS, seeds=count // 72)
    row = {"runs": float(len(study.runs())), "prepare": timed(lambda: prepare(store, study))}
    row["prepare_again"] = timed(lambda: prepare(store, study))
    generator = np.random.default_rng(0)
    outcomes = {}
    for run in store.ledger.states():
        numbers = {f"metric{n}": float(x) for n, x in enumerate(generator.random(NUMBERS))}
        outcomes[run] = RunOutcome("scored", None, numbers)
    store.ledger.record(outcomes)
    row["status"] = timed(lambda: str(Results(store)))
    row["table"] = timed(lambda: Results(store).write())
    row["table_megabytes"] = store.table_file.stat().st_size / 1e6
    return row


def folders_row(count: int, folder: Path) -> dict[str, float]:
    """Seconds per run to save a model, read its outcome, verify it, and rebuild the ledger."""
    data = uw.data.load("dsprites")
    study = Study(
        data=["dsprites"], methods={"beta_vae": {"beta": 4}}, seeds=count, metrics=["mig"]
    )
    store = Store(folder / "folders")
    prepare(store, study)
    runs = study.runs()
    engine = Engine(runs[:2], data, "cpu")
    group = engine.groups["model"]
    curve = pd.DataFrame({"step": range(100, STEPS + 1, 100), "loss": 0.5, "kl": 0.5})
    saved = 0.0
    for place in range(0, count, 2):
        pair = runs[place : place + 2]
        curves = pd.concat([curve.assign(run=config.hash) for config in pair])
        fleet = Fleet(
            pair, data.shape, dict(group.buffers(group.parameters)), curves, np.array([-1, -1])
        )
        start = time.perf_counter()
        fleet.save(store.runs)
        saved += time.perf_counter() - start
    return {
        "save": saved / count,
        "look": timed(lambda: [store.outcome(config) for config in runs]) / count,
        "check": timed(lambda: check(store)) / count,
        "repair": timed(lambda: check(store, repair=True)) / count,
    }


def ray_row() -> dict[str, float]:
    """Seconds to start Ray, to start a task, and to handle a task report."""
    import ray

    from unweave.study.on_ray.cluster import connected

    def ready() -> None:
        import_module("unweave.study.on_ray.tasks")

    def report(progress: Any, task: str, count: int) -> float:
        ray.get(progress.begin.remote(task, "there", "node", "host", 1))
        start = time.perf_counter()
        for _ in range(count):
            ray.get(progress.report.remote(task, 1, "training"))
        return time.perf_counter() - start

    start = time.perf_counter()
    with connected("ray"):
        row = {"start_ray": time.perf_counter() - start}
        start = time.perf_counter()
        ray.get(ray.remote(ready).remote())
        row["start_task"] = time.perf_counter() - start
        progress: Any = ray.remote(Progress).options(num_cpus=0).remote()
        job = ray.remote(report)
        row["a_report"] = ray.get(job.remote(progress, "one", 500)) / 500
        several = [job.remote(progress, str(place), 500) for place in range(2)]
        row["reports_per_second"] = 1000 / max(ray.get(several))
    return row


def speeds() -> tuple[float, list[tuple[int, float]]]:
    """Mean µs per model-step of the large study, and seconds per step of a fleet by its size."""
    grey, colour = (
        json.loads((RESULTS / f"{name}.json").read_text())["fleet"]
        for name in ("fleet_h200", "fleet_h200_colour")
    )
    by_size = [row for row in grey if row["method"] == "beta_vae"]
    mean = [
        float(np.mean([row["us_per_model_step"] for row in rows if row["models"] == 128]))
        for rows in (grey, colour)
    ]
    each = (GREY_SETS * mean[0] + COLOUR_SETS * mean[1]) / (GREY_SETS + COLOUR_SETS)
    fleets = [(row["models"], row["models"] * row["us_per_model_step"] * 1e-6) for row in by_size]
    return each, fleets


def score_seconds() -> float:
    """Upper bound of the core-seconds for the six classic metrics of a model."""
    found = json.loads((RESULTS / "metrics_cpu.json").read_text())
    return found["about"]["cores"] * sum(row["seconds"] for row in found["metrics"].values())


def hours(models: int, gpus: int) -> dict[str, float]:
    """Projected resources of a study of the protocol on a number of GPUs like the measured one."""
    each, fleets = speeds()
    usual = dict(fleets)[128] / 128 * 1e6
    size = min(FLEET, models / gpus)
    rounds = np.ceil(models / gpus / size)
    step = np.interp(size, [m for m, _ in fleets], [s for _, s in fleets]) * each / usual
    train = rounds * STEPS * step / 3600
    config = Config(method=BetaVAE(), steps=STEPS)
    checkpoint = size * PARAMETERS * STATE_BYTES
    return {
        "models": models,
        "gpus": gpus,
        "models_per_fleet": size,
        "hours": train,
        "cores_to_keep_up": models * score_seconds() / 3600 / train,
        "cores_per_gpu": models * score_seconds() / 3600 / train / gpus,
        "runs_saved_per_second": models / train / 3600,
        "reports_per_second": gpus / REPORT_SECONDS,
        "ledger_writes_per_second": models / train / 3600 + gpus / HEARTBEAT_SECONDS,
        "gigabytes_per_second_of_checkpoints": gpus * checkpoint / CHECKPOINT_SECONDS / 1e9,
        "terabytes": models * disk_bytes(config, (64, 64, 1)) / 1e12,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = "(default: %(default)s)."
    parser.add_argument("--runs", type=int, default=12_600, help=f"Runs of a study {default}")
    parser.add_argument("--many", type=int, default=1_000_000, help=f"Runs of a ledger {default}")
    parser.add_argument("--folders", type=int, default=200, help=f"Run folders {default}")
    parser.add_argument("--no-ray", action="store_true", help="Skip Ray.")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    result: dict[str, Any] = {"about": {"machine": platform.machine()}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs: dict[str, Callable[[], dict[str, float]]] = {
            f"ledger of {args.runs:,} runs": lambda: ledger_row(args.runs, folder),
            f"ledger of {args.many:,} runs": lambda: ledger_row(args.many, folder),
            f"study of {args.runs:,} runs": lambda: table_row(args.runs, folder),
            "per run, its folder": lambda: folders_row(args.folders, folder),
            "ray": ray_row,
        }
        if args.no_ray:
            del jobs["ray"]
        for title, job in jobs.items():
            result[title] = job()
            print(title)
            for what, number in result[title].items():
                print(f"    {what:<34}{number:>14,.5g}", flush=True)
    result["hours"] = [hours(models, gpus) for models in (12_600, 1_000_000) for gpus in GPUS]
    for row in result["hours"]:
        print("  ".join(f"{what} {number:,.4g}" for what, number in row.items()))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
