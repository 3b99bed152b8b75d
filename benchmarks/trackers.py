"""Overhead of callbacks and trackers, as a share of the training time of a fleet of 8 models.

    .venv/bin/python benchmarks/trackers.py [--models 8] [--out FILE]

Some steps of a fleet without callbacks give the duration of a window of 100 steps. Then the
tables of 100 windows, each with diagnostics, are passed to each tracker as training passes them.
`wall` is the time that training waits for, `cpu` is the processor time of all threads and child
processes; opening and closing a run are timed separately. Runs longer than 30 windows have fewer
diagnostics, so this is the worst case.
"""

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import wandb

import unweave as uw
from unweave.fleet.callbacks import Callback, Callbacks
from unweave.fleet.engine import Engine
from unweave.fleet.train import all_runs
from unweave.models.config import Config

TERMS = ("loss", "reconstruction", "kl")
LATENTS = tuple(f"kl_{latent}" for latent in range(10))
ARCHITECTURES = {"conv": 10, "small_mlp": 50}
"""Architectures to train, with the number of timed steps: the default, and the fastest one."""
WINDOWS = 100


class Watch:
    """Wall-clock and processor time since the last call, the latter with ended children."""

    def __init__(self) -> None:
        self.last = self._now()

    @staticmethod
    def _now() -> dict[str, float]:
        own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        return {"wall": time.perf_counter(), "cpu": cpu}

    def lap(self) -> dict[str, float]:
        before, self.last = self.last, self._now()
        return {kind: self.last[kind] - before[kind] for kind in before}


def replayed(make: Callable[[], Callback], configs: list[Config]) -> dict[str, dict[str, float]]:
    """Seconds to open a tracker with its first window, for each further window, and to close."""
    values = torch.rand(len(LATENTS), len(configs))
    watch = Watch()
    calls = Callbacks(make())

    def window(step: int) -> None:
        calls.report("on_window", configs, step, TERMS, values[: len(TERMS)])
        calls.report("on_diagnostics", configs, step, LATENTS, values)

    window(100)
    start = watch.lap()
    for number in range(WINDOWS):
        window(100 * (number + 2))
    windows = watch.lap()
    calls.call("on_end", "trained")
    wandb.teardown()  # waits for its process, so that its processor time is counted
    end = watch.lap()
    assert not calls.stopping
    windows["cpu"] += end["cpu"]  # background work of the windows, most of which is done by now
    return {
        "open": start,
        "window": {name: seconds / WINDOWS for name, seconds in windows.items()},
        "close": {"wall": end["wall"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=8, help="Models (default: 8).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    options = parser.parse_args()
    data = uw.data.load("dsprites")
    method = uw.methods.BetaVAE(beta=4)
    found: dict[str, Any] = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "load_average": os.getloadavg()[0],  # other programs, which slow down all measurements
        "models": options.models,
        "seconds_per_window_of_training": {},
    }
    for architecture, steps in ARCHITECTURES.items():
        runs = all_runs(method, data, options.models, steps, architecture=architecture)
        engine = Engine(runs, data, "cpu")
        engine.advance(1)
        watch = Watch()
        engine.advance(steps)
        spent = {name: seconds * 100 / steps for name, seconds in watch.lap().items()}
        found["seconds_per_window_of_training"][architecture] = spent
        print(architecture, spent, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        silent = wandb.Settings(silent=True)
        trackers: dict[str, Callable[[], Callback]] = {
            "callback": Callback,
            "tensorboard": lambda: uw.trackers.TensorBoard(f"{folder}/logs"),
            "wandb": lambda: uw.trackers.WandB(mode="offline", dir=folder, settings=silent),
            "mlflow": lambda: uw.trackers.MLflow(f"sqlite:///{folder}/runs.db"),
        }
        for name, make in trackers.items():
            found[name] = replayed(make, runs)
            found[name]["share_of_training"] = {
                architecture: max(found[name]["window"][kind] / spent[kind] for kind in spent)
                for architecture, spent in found["seconds_per_window_of_training"].items()
            }
            print(name, json.dumps(found[name]), flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
