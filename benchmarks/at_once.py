"""Several recipes at once on one GPU, in as many calls as it takes.

    python benchmarks/at_once.py --folder FOLDER --out OUT [--scale hour] [--minutes 9] JOB …

A job is a paper, for all of its recipes, or names of recipes of one paper with commas between; its
recipes run one after the other, those of different jobs at once. They share the GPU, of which a
fleet of few models leaves much free, through NVIDIA's Multi-Process Service where that is.

Jobs go on when this has returned. The same command called again waits for them, and begins again
those that died, without that service, since a fault of one process ends all that share it. It ends
with 3 as long as something is left. OUT gets, of every job, the log, the comparisons, and the
table of the study as each recipe saw it.
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
"""Exit codes: something is left to do; the GPU is lost to this process."""
TRIES, LAST_LINES = 3, 6
SHOWN = 160


def recipes_of(job: str) -> list[str]:
    """The names of a job's recipes."""
    if job in PAPERS:
        return [recipe.name for recipe in ready(job)]
    return [find(name).name for name in job.split(",")]


def work(job: str, scale: str, folder: Path) -> int:
    """Run the recipes of a job; the exit code."""
    from unweave.cli.commands.papers import Reproduce, Scale

    failed = False
    for name in recipes_of(job):
        begun, slug = time.monotonic(), find(name).slug
        try:
            Reproduce(name=name, scale=cast(Scale, scale), out=folder, yes=True).run()
            if find(name).studies:
                pd.read_parquet(folder / TABLE).to_csv(folder / f"study-of-{slug}.csv")
        except Exception:  # one recipe's trouble is its own
            traceback.print_exc()
            failed = True
        print(f"=== {name}: {time.monotonic() - begun:.0f} s", flush=True)
        if not gpu_answers():
            return LOST
    return int(failed)


def gpu_answers() -> bool:
    """Whether the GPU still works for this process, if there is one."""
    import torch

    try:
        return not torch.cuda.is_available() or torch.zeros(1, device="cuda").item() == 0
    except RuntimeError:
        return False


class Job:
    """A process that works on recipes and outlives this one.

    Args:
        folder: Where all jobs are kept.
        said: What is noted of it: `job`, `place`, `process`, `tries`.
    """

    def __init__(self, folder: Path, said: dict[str, Any]) -> None:
        self.folder, self.said = folder, said
        self.code = folder / f"{said['place']}.code"
        self.log = folder / f"{said['place']}.log"

    def start(self, scale: str) -> None:
        """Begin, or begin again."""
        self.said["tries"] += 1
        self.code.unlink(missing_ok=True)
        own = [__file__, "--folder", str(self.folder), "--scale", scale]
        words = [sys.executable, *own, "--work", str(self.said["place"]), self.said["job"]]
        alone = self.said["tries"] > 1
        with self.log.open("a") as log:
            process = subprocess.Popen(
                words,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **service(self.folder, alone), "PYTHONUNBUFFERED": "1"},
            )
        self.said["process"] = process.pid

    @property
    def lives(self) -> bool:
        """Whether it is at work."""
        if not self.said["tries"]:
            return False
        with suppress(ChildProcessError):
            os.waitpid(self.said["process"], os.WNOHANG)
        with suppress(ProcessLookupError):
            os.kill(self.said["process"], 0)
            return not self.code.exists()
        return False

    @property
    def over(self) -> bool:
        """Whether it came to its end, well or not."""
        ended = self.code.exists() and int(self.code.read_text()) != LOST
        return ended or (not self.lives and self.said["tries"] >= TRIES)

    def last_lines(self) -> str:
        """What it said last."""
        text = self.log.read_text(errors="replace").replace("\r", "\n")
        lines = [line[:SHOWN] for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-LAST_LINES:])


def service(folder: Path, alone: bool) -> dict[str, str]:
    """The environment in which processes share the GPU; or in which each has its own turn."""
    if alone or shutil.which("nvidia-cuda-mps-control") is None:
        return {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "none")}
    place = folder / SERVICE
    said = {name: str(place) for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")}
    if not place.exists():
        place.mkdir()
        words = ["nvidia-cuda-mps-control", "-d"]
        subprocess.run(words, env={**os.environ, **said}, check=False)
    return said


def hand_out(jobs: list[Job], out: Path) -> None:
    """Copy what is worth keeping: logs, comparisons, tables and figures."""
    for job in jobs:
        place = out / str(job.said["place"])
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(job.log, place / "log.txt")
        for file in (job.folder / str(job.said["place"])).glob("*.*"):
            if file.suffix in (".csv", ".svg", ".parquet", ".safetensors", ".png"):
                shutil.copy(file, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--scale", default="hour")
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        code = work(args.jobs[0], args.scale, args.folder / args.work)
        (args.folder / f"{args.work}.code").write_text(str(code))
        sys.exit(code)
    for job in args.jobs:
        recipes_of(job)  # names are checked before anything starts
    args.folder.mkdir(parents=True, exist_ok=True)
    notes = args.folder / JOBS
    known = {said["job"]: said for said in json.loads(notes.read_text())} if notes.exists() else {}
    new = {"process": -1, "tries": 0}
    said = [known.get(job) or {"job": job, "place": k, **new} for k, job in enumerate(args.jobs)]
    jobs = [Job(args.folder, one) for one in said]
    until = time.monotonic() + 60 * args.minutes
    while True:
        for job in jobs:
            if not (job.over or job.lives):
                job.start(args.scale)
        notes.write_text(json.dumps(said))
        if time.monotonic() > until or all(job.over for job in jobs):
            break
        time.sleep(2)
    for job in jobs:
        print(f"--- {job.said['job']}\n{job.last_lines()}")
    if args.out:
        hand_out(jobs, args.out)
    sys.exit(0 if all(job.over for job in jobs) else LEFT)


if __name__ == "__main__":
    main()
