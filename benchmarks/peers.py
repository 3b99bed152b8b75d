"""Comparison with other libraries on the same task: time, lines of code, scores.

    python benchmarks/peers.py --envs FOLDER [--steps 1200] [--turn 40] [--out FILE]

The task: a β-VAE (β = 4, ten latents, Adam with 1e-4, batch 64) on dSprites, on the CPU with one
thread. Every library has its own process and environment, and uses its own trainer
(`benchmarks/peers/with_*.py`). The libraries take turns of `--turn` steps, round after round, so
that other load on the machine affects all equally; the first turn is the warm-up. Each library
then encodes the same images, and unweave's metrics score all codes.

The images, as rendered by unweave, are in one `.npy` file that all processes memory-map: the
published `.npz` would take 3 GB of memory per process. `FOLDER` holds the environments, the images
and the logs; existing environments are reused.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import unweave as uw

SCRIPTS = Path(__file__).parent / "peers"
SAME_TORCH = "the version that runs here, so that what differs is the library"
PINS = {
    "disent": {
        "disent==0.8.0": "the last release",
        "torch==2.13.0": SAME_TORCH,
        "torchvision==0.28.0": "the one built for it; disent imports torchvision.transforms",
    },
    "pythae": {"pythae==0.1.2": "the last release", "torch==2.13.0": SAME_TORCH},
}
"""Pinned packages, and the reasons; pip chooses all other versions."""
REPORTED = ("disent", "pythae", "torch", "torchvision", "lightning", "numpy", "scikit-learn")
GRID = {"orientation": range(0, 40, 4), "posX": range(0, 32, 2), "posY": range(0, 32, 2)}
"""Images of dSprites to encode: a full grid of 46,080, which the FactorVAE score needs."""
METRICS = ("mig", "dci", "sap", "factor_vae")
CHUNK = 4096
QUARTILES = 4


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A library with its settings."""

    name: str
    script: str
    env: str = ""
    """Name of its environment; if empty, the current Python."""
    models: int = 1
    network: str = "own"
    allocator: str = "plain"
    timed_turns: int | None = None
    """Number of turns after the warm-up, if it is only timed."""
    part_of_turn: int = 1
    """Divisor of the steps per turn, for steps of several models."""


ENTRIES = (
    Entry(name="disent", script="with_disent.py", env="disent"),
    Entry(name="pythae", script="with_pythae.py", env="pythae"),
    Entry(name="torch alone", script="with_torch.py"),
    Entry(name="unweave, one model", script="with_unweave.py"),
    Entry(name="unweave, 8 at once", script="with_unweave.py", models=8, timed_turns=10,
          part_of_turn=8),
    Entry(name="disent, the protocol's encoder", script="with_disent.py", env="disent",
          network="protocol", timed_turns=10),
    Entry(name="torch alone, as installed for disent", script="with_torch.py", env="disent",
          timed_turns=10),
    Entry(name="torch alone, allocator tuned", script="with_torch.py", allocator="tuned",
          timed_turns=10),
)  # fmt: skip


def lines_written(script: str) -> int:
    """Count lines between `# user: begin` and `# user: end`, except empty lines and comments.

    Lines between `# user: pause` and `# user: resume` belong to the measurement.
    """
    count, counting = 0, False
    for line in map(str.strip, script.splitlines()):
        if line.startswith("# user: "):
            counting = line.removeprefix("# user: ") in ("begin", "resume")
        elif counting and line and not line.startswith("#"):
            count += 1
    return count


def export_images(data: uw.data.Dataset, path: Path) -> None:
    """Write all images as bytes `[n, H, W, C]`, in the order of the published file."""
    # Use a temporary name, so that an incomplete file is never reused.
    partial = path.with_suffix(".partial")
    file = np.lib.format.open_memmap(partial, "w+", np.uint8, (len(data), *data.shape))
    for start in range(0, len(data), CHUNK):
        place = np.arange(start, min(start + CHUNK, len(data)))
        file[place] = data.images(place)
    file.flush()
    partial.rename(path)


def make_env(folder: Path, pins: Iterable[str]) -> Path:
    """Create an environment with these packages from PyPI; return its Python."""
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    # Ignore local pip settings, so that torch and torchvision are a matching pair from PyPI.
    preferences = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL")
    plain = {name: value for name, value in os.environ.items() if name not in preferences}
    command = [str(python), "-m", "pip", "install", "--quiet", *pins]
    subprocess.run(command, check=True, env=plain | {"PIP_CONFIG_FILE": os.devnull})
    (folder / "ready").touch()
    return python


def installed(python: Path) -> dict[str, str]:
    """Versions of the relevant packages."""
    command = [str(python), "-m", "pip", "list", "--format", "json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    versions = {package["name"].lower(): package["version"] for package in listed}
    return {name: versions[name] for name in REPORTED if name in versions}


@dataclass
class Worker:
    """A library running in its own process."""

    entry: Entry
    process: subprocess.Popen[str]
    log: Path
    out: Path
    turns: list[tuple[float, float]] = field(default_factory=list)
    """Wall-clock and CPU seconds per 1,000 model-steps of every turn after the warm-up."""

    def read(self) -> tuple[float, float] | None:
        """Wait for the end of a turn and return its times; None if the process has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("turn "):
                wall, cpu, steps = map(float, line.split()[1:])
                thousands = steps * self.entry.models / 1000
                return wall / thousands, cpu / thousands
        return None

    def take_turn(self) -> bool:
        """Run one turn; return False if the process has ended."""
        assert self.process.stdin is not None
        if len(self.turns) == self.entry.timed_turns:
            self.process.kill()
            return False
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        turn = self.read()
        if turn is not None:
            self.turns.append(turn)
            return True
        if self.process.wait() != 0:
            raise SystemExit(f"{self.entry.name} failed; see {self.log}")
        return False


def start(entry: Entry, folder: Path, pythons: dict[str, Path], steps: int, turn: int) -> Worker:
    """Start a process and wait until it has warmed up."""
    turn = max(1, turn // entry.part_of_turn)
    if entry.timed_turns is not None:
        steps = turn * (entry.timed_turns + 2)  # more steps than it will take
    name = entry.name.replace(" ", "-").replace(",", "").replace("'", "")
    out, log = folder / f"{name}.npy", folder / f"{name}.log"
    options = {"images": folder / "images.npy", "encode": folder / "encode.npy", "out": out,
            "steps": steps, "turn": turn, "models": entry.models,
            "network": entry.network, "allocator": entry.allocator}  # fmt: skip
    command = [str(pythons[entry.env]), str(SCRIPTS / entry.script)]
    command += [f"--{option}={value}" for option, value in options.items()]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
            env=os.environ | threads,
        )  # fmt: skip
    worker = Worker(entry, process, log, out)
    if worker.read() is None:
        raise SystemExit(f"{entry.name} did not start; see {log}")
    return worker


def score(codes: np.ndarray, factors: np.ndarray) -> dict[str, float]:
    """Headline scores of codes `[n, d]` and their factors `[n, K]`."""
    return {name: uw.metrics.METRICS[name](codes, factors)[name] for name in METRICS}


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and quartiles of some values."""
    low, median, high = statistics.quantiles(values, n=QUARTILES)
    return {"median": median, "low": low, "high": high}


def row(worker: Worker, factors: np.ndarray) -> dict[str, Any]:
    """Results of a library."""
    entry = worker.entry
    wall, cpu = zip(*worker.turns, strict=True)
    found: dict[str, Any] = {
        "name": entry.name,
        "seconds_per_1000_model_steps": spread(wall),
        "cpu_seconds_per_1000_model_steps": spread(cpu),
        "seconds_by_turn": [round(seconds, 1) for seconds in wall],
        "lines": lines_written((SCRIPTS / entry.script).read_text()),
    }
    if entry.timed_turns is None:
        found["scores"] = score(np.load(worker.out), factors)
        own = worker.out.with_suffix(".json")
        found["own_scores"] = json.loads(own.read_text()) if own.exists() else {}
    return found


def processor() -> str:
    """Name of the processor, if available."""
    info = Path("/proc/cpuinfo")
    names = _after("model name", info.read_text()) if info.exists() else iter(())
    return next(names, platform.processor() or platform.machine())


def _after(key: str, text: str) -> Iterator[str]:
    return (line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(key))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=Path, required=True, help="Folder of environments.")
    parser.add_argument("--steps", type=int, default=1200, help="Training steps (default: 1200).")
    parser.add_argument("--turn", type=int, default=40, help="Steps per turn (default: 40).")
    parser.add_argument("--out", type=Path, help="Output file (JSON).")
    args = parser.parse_args()
    args.envs.mkdir(parents=True, exist_ok=True)
    pythons = {env: make_env(args.envs / env, pins) for env, pins in PINS.items()}
    pythons[""] = Path(sys.executable)
    data = uw.data.load("dsprites")
    if not (args.envs / "images.npy").exists():
        export_images(data, args.envs / "images.npy")
    chosen = data.only(**GRID).support
    np.save(args.envs / "encode.npy", chosen)
    workers = [start(entry, args.envs, pythons, args.steps, args.turn) for entry in ENTRIES]
    print("warm-up finished", flush=True)
    working, load = workers, []
    while working:
        working = [worker for worker in working if worker.take_turn()]
        load.append(os.getloadavg()[0])
        times = {w.entry.name: f"{w.turns[-1][0]:.1f}" for w in working}
        print(f"round {len(load)}, seconds per 1,000 model-steps: {times}", flush=True)
    factors = data.factors(chosen)
    result = {
        "processor": processor(),
        "threads": 1,
        "load": spread(load),
        "steps": args.steps,
        "steps_per_turn": args.turn,
        "images_scored": len(chosen),
        "pins": PINS,
        "installed": {env or "unweave": installed(path) for env, path in pythons.items()},
        "rows": [row(worker, factors) for worker in workers],
    }
    print(json.dumps(result["rows"], indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
