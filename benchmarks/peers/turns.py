"""What every script here shares: what it is told, and the turns in which libraries train.

Needs nothing but the standard library, since it runs in the environments of the peers.
"""

import argparse
import ctypes
import sys
import time
from pathlib import Path

__all__ = ["Turns", "arguments", "keep_memory"]


class Turns:
    """Hands over to the next library after every so many steps, and says how long these took.

    The script that measures reads a line `turn`, wall seconds, CPU seconds and steps from the
    output, and answers with a line when it is this process's turn again.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.taken = 0
        self._begin()

    def _begin(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def step(self) -> None:
        """To be called after each step of training."""
        self.taken += 1
        if self.taken % self.steps:
            return
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        # On a line of its own, also after a progress bar.
        print(f"\nturn {wall} {cpu} {self.steps}", flush=True)
        if not sys.stdin.readline():
            raise SystemExit("nobody measures any more")
        self._begin()


def arguments() -> argparse.Namespace:
    """Where the images are, which of them to encode, how many steps, where the codes go."""
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
    """Let the C library keep what tensors have freed, as unweave does for its process."""
    mmap_threshold, trim_threshold = -3, -1
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(mmap_threshold, 1 << 30)
    mallopt(trim_threshold, 2**31 - 1)
