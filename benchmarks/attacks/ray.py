"""Kill the workers, node or driver of studies on Ray, and run the command again."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from .calling import Outcome, Tally, call
from .victims import Victims, scores

__all__ = ["kill_on_ray"]

SECONDS = 400.0
STEPS = 100
WORKER = "ray::train_runs"
"""Start of the command line of training processes, to tell them from other Ray processes."""
ROUNDING = 1e-5
"""Tolerance for weights, since fleets of different sizes sum in a different order."""


def kill_on_ray(victims: Victims, folder: Path, count: int) -> list[Tally]:
    """Kill a worker, the node and the driver of a study in turn, `count` times in all."""
    place = folder / "on-ray"
    tally = Tally("kill: study on Ray")
    _fresh(victims, place)
    whole = call(("study", "run", "small.yaml"), place, seconds=SECONDS)
    if whole.code != 0:
        raise RuntimeError(f"the study failed: {whole.text}")
    wanted, table = _weights(place), scores(place / "small")
    exact = 0
    for number in range(count):
        kind = ("worker", "node", "driver")[number % 3]
        _fresh(victims, place)
        driver = _start(place)
        killed = _kill(driver, kind, place)
        first = _end(driver, place)
        outcome = first if first.hang or first.traceback else _end(_start(place), place)
        found = _weights(place)
        close = found.keys() == wanted.keys() and all(
            np.allclose(found[name], wanted[name], atol=ROUNDING) for name in wanted
        )
        exact += close and all(np.array_equal(found[name], wanted[name]) for name in wanted)
        rows = scores(place / "small").count("\n") if close else 0
        same = outcome.code == 0 and close and rows == table.count("\n")
        tally.add(f"{kind} ({killed})", outcome, same, "lost", may_refuse=False)
    print(f"{exact} of {count} have the same weights as the local study, bit for bit", flush=True)
    return [tally]


def _fresh(victims: Victims, place: Path) -> None:
    victims.copy(victims.start, place)
    file = place / "small.yaml"
    file.write_text(file.read_text().replace("steps: 30", f"steps: {STEPS}"))


def _start(place: Path) -> "subprocess.Popen[bytes]":
    args = [sys.executable, "-m", "unweave", "study", "run", "small.yaml", "--on", "ray"]
    with (place / ".log").open("ab") as log:
        return subprocess.Popen(args, cwd=place, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _kill(driver: "subprocess.Popen[bytes]", kind: str, place: Path) -> str:
    """Wait until workers train, then kill; return whether anything was killed."""
    end = time.monotonic() + 60
    while time.monotonic() < end and driver.poll() is None:
        processes = _descendants(driver.pid)
        if any(WORKER in title for title in processes.values()):
            break
        time.sleep(0.1)
    time.sleep(2 + 2 * np.random.default_rng(len(str(place)) + driver.pid).random())
    wanted = {"worker": WORKER, "node": "raylet/raylet", "driver": ""}[kind]
    found = _descendants(driver.pid)
    targets = [driver.pid] if kind == "driver" else [
        process for process, title in found.items() if wanted in title
    ]  # fmt: skip
    for process in targets[:1]:
        os.kill(process, signal.SIGKILL)
    return "killed" if targets else "nothing to kill"


def _end(driver: "subprocess.Popen[bytes]", place: Path) -> Outcome:
    start = time.monotonic()
    children = _descendants(driver.pid)
    try:
        code: int | None = driver.wait(SECONDS)
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.wait()
        code = None
    for process in children:  # Ray's own processes end some time after their driver
        _kill_quietly(process)
    text = (place / ".log").read_text(errors="replace")
    return Outcome(code, text, time.monotonic() - start, 0)


def _kill_quietly(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _descendants(root: int) -> dict[int, str]:
    """Descendants of a process, with their command lines."""
    parents: dict[int, int] = {}
    titles: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            titles[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        parents[int(entry.name)] = int(stat[1])
    found: dict[int, str] = {}
    left = [root]
    while left:
        above = left.pop()
        below = [process for process, parent in parents.items() if parent == above]
        found |= {process: titles[process] for process in below}
        left += below
    return found


def _weights(place: Path) -> dict[str, np.ndarray]:
    return {
        file.parent.name: np.concatenate(
            [value.ravel() for _, value in sorted(load_file(file).items())]
        )
        for file in (place / "small" / "runs").glob("[!.]*/weights.safetensors")
    }
