"""Shared code of the scripts in this folder: arguments, and the turns in which libraries train.

Needs only the standard library, because it runs in the environments of other libraries.
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path

__all__ = ["Turns", "arguments", "keep_memory"]


class Turns:
    """Pauses after a number of steps for the next library, and reports the time taken.

    The measuring script reads a line `turn`, wall-clock seconds, CPU seconds and steps from the
    output, and writes a line to the input to start the next turn of this process.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.taken = 0
        self._begin()

    def _begin(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def step(self) -> None:
        """Count a training step; call this after each step."""
        self.taken += 1
        if self.taken % self.steps:
            return
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        # Start a new line in case of a progress bar.
        print(f"\nturn {wall} {cpu} {self.steps}", flush=True)
        if not sys.stdin.readline():
            raise SystemExit("the measuring script has ended")
        self._begin()


def arguments() -> argparse.Namespace:
    """Parse the command line: images, images to encode, output file, steps and settings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--encode", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--turn", type=int, required=True)
    parser.add_argument("--models", type=int, default=1)
    parser.add_argument("--network", choices=("own", "protocol"), default="own")
    parser.add_argument("--allocator", choices=("plain", "tuned"), default="plain")
    return parser.parse_args()


def keep_memory() -> None:
    """Let the C library keep freed memory, as unweave does."""
    mmap_threshold, trim_threshold = -3, -1
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(mmap_threshold, 1 << 30)
    mallopt(trim_threshold, 2**31 - 1)
