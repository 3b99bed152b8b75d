"""Run several recipes concurrently on one GPU, over one or more calls.

    python benchmarks/at_once.py --folder FOLDER --out OUT [--scale hour] [--minutes 9] JOB …

A job is a paper, which stands for all of its recipes, or a comma-separated list of recipes of one
paper. The recipes of a job run one after the other; jobs run concurrently. They share the GPU,
most of which a small fleet leaves idle, through NVIDIA's Multi-Process Service if available.

Jobs continue after this script returns. Run the same command again to wait for them. It restarts
jobs that died, without the service, because a fault of one process ends all processes that share
it. The exit code is 3 until all jobs are done. OUT receives the log of every job, its comparisons,
and the study table that each recipe used.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pandas as pd

from unweave.papers import PAPERS, find, ready

JOBS, SERVICE, TABLE = "jobs.json", "mps", "study.parquet"
LEFT, LOST = 3, 4
"""Exit codes: jobs are unfinished; the GPU no longer responds to this process."""
TRIES, LAST_LINES = 3, 6
SHOWN = 160


def recipes_of(job: str) -> list[str]:
    """Names of a job's recipes."""
    if job in PAPERS:
        return [recipe.name for recipe in ready(job)]
    return [find(name).name for name in job.split(",")]


def work(job: str, scale: str, folder: Path) -> int:
    """Run the recipes of a job and return the exit code."""
    from unweave.cli.reproduce import Reproduce, Scale

    failed = False
    for name in recipes_of(job):
        begun, slug = time.monotonic(), find(name).slug
        try:
            Reproduce(name=name, scale=cast(Scale, scale), out=folder, yes=True).run()
            if find(name).studies:
                pd.read_parquet(folder / TABLE).to_csv(folder / f"study-of-{slug}.csv")
        except Exception:  # a failed recipe must not stop the others
            traceback.print_exc()
            failed = True
        print(f"=== {name}: {time.monotonic() - begun:.0f} s", flush=True)
        if not gpu_answers():
            return LOST
    return int(failed)


def gpu_answers() -> bool:
    """Return whether the GPU, if any, still responds to this process."""
    import torch

    try:
        return not torch.cuda.is_available() or torch.zeros(1, device="cuda").item() == 0
    except RuntimeError:
        return False


class Job:
    """A process that runs recipes and outlives this one.

    Args:
        folder: Folder of all jobs.
        state: Its saved state: `job`, `place`, `process`, `tries`.
    """

    def __init__(self, folder: Path, state: dict[str, Any]) -> None:
        self.folder, self.state = folder, state
        self.code = folder / f"{state['place']}.code"
        self.log = folder / f"{state['place']}.log"

    def start(self, scale: str) -> None:
        """Start or restart the process."""
        self.state["tries"] += 1
        self.code.unlink(missing_ok=True)
        own = [__file__, "--folder", str(self.folder), "--scale", scale]
        command = [sys.executable, *own, "--work", str(self.state["place"]), self.state["job"]]
        alone = self.state["tries"] > 1
        with self.log.open("a") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **service(self.folder, alone), "PYTHONUNBUFFERED": "1"},
            )
        self.state["process"] = process.pid

    @property
    def lives(self) -> bool:
        """Whether the process is running."""
        if not self.state["tries"]:
            return False
        with suppress(ChildProcessError):
            os.waitpid(self.state["process"], os.WNOHANG)
        with suppress(ProcessLookupError):
            os.kill(self.state["process"], 0)
            return not self.code.exists()
        return False

    @property
    def over(self) -> bool:
        """Whether the job has finished or finally failed."""
        ended = self.code.exists() and int(self.code.read_text()) != LOST
        return ended or (not self.lives and self.state["tries"] >= TRIES)

    def last_lines(self) -> str:
        """Last lines of its log."""
        text = self.log.read_text(errors="replace").replace("\r", "\n")
        lines = [line[:SHOWN] for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-LAST_LINES:])


def service(folder: Path, alone: bool) -> dict[str, str]:
    """Environment in which processes share the GPU, or take turns if `alone`."""
    if alone or shutil.which("nvidia-cuda-mps-control") is None:
        return {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "none")}
    place = folder / SERVICE
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
    environment = dict.fromkeys(names, str(place))
    if not place.exists():
        place.mkdir()
        command = ["nvidia-cuda-mps-control", "-d"]
        subprocess.run(command, env={**os.environ, **environment}, check=False)
    return environment


def copy_results(jobs: list[Job], out: Path) -> None:
    """Copy logs, comparisons, tables and figures."""
    for job in jobs:
        place = out / str(job.state["place"])
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(job.log, place / "log.txt")
        for file in (job.folder / str(job.state["place"])).glob("*.*"):
            if file.suffix in (".csv", ".svg", ".parquet", ".safetensors", ".png"):
                shutil.copy(file, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="+", help="Papers, or comma-separated names of recipes.")
    parser.add_argument("--folder", type=Path, required=True, help="Working folder.")
    parser.add_argument("--out", type=Path, help="Output folder for results.")
    parser.add_argument("--scale", default="hour", help="Scale (default: %(default)s).")
    parser.add_argument(
        "--minutes", type=float, default=9, help="Time to wait (default: %(default)g)."
    )
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        code = work(args.jobs[0], args.scale, args.folder / args.work)
        (args.folder / f"{args.work}.code").write_text(str(code))
        sys.exit(code)
    for job in args.jobs:
        recipes_of(job)  # check names before anything starts
    args.folder.mkdir(parents=True, exist_ok=True)
    file = args.folder / JOBS
    saved = json.loads(file.read_text()) if file.exists() else []
    known = {state["job"]: state for state in saved}
    new = {"process": -1, "tries": 0}
    states = [known.get(job) or {"job": job, "place": k, **new} for k, job in enumerate(args.jobs)]
    jobs = [Job(args.folder, state) for state in states]
    until = time.monotonic() + 60 * args.minutes
    while True:
        for job in jobs:
            if not (job.over or job.lives):
                job.start(args.scale)
        file.write_text(json.dumps(states))
        if time.monotonic() > until or all(job.over for job in jobs):
            break
        time.sleep(2)
    for job in jobs:
        print(f"--- {job.state['job']}\n{job.last_lines()}")
    if args.out:
        copy_results(jobs, args.out)
    sys.exit(0 if all(job.over for job in jobs) else LEFT)


if __name__ == "__main__":
    main()
