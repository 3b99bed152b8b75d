"""Run commands as their users do, each in a process of its own, and tell how they ended.

Processes are forks of one that has imported everything, so that a call takes a tenth of a second
and not four. The parent never computes anything, as threads do not survive a fork.
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["HOUR_GLASS", "Outcome", "Tally", "call", "import_everything"]

HOUR_GLASS = 30.0
"""Seconds after which a command counts as hanging."""
MEMORY = 6 << 30
"""Bytes of memory beyond which a command counts as hanging, since it would on other machines."""
TRACEBACK = "Traceback (most recent call last)"
CRASHED = 70
"""The exit code of a call that raised an exception."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Args:
        code: Its exit code; minus the signal that killed it; None where it had to be stopped.
        text: What it printed.
        seconds: How long it took.
        memory: Its peak resident memory, in bytes.
    """

    code: int | None
    text: str
    seconds: float
    memory: int

    @property
    def hang(self) -> bool:
        """Whether it did not end by itself, or only after using up the memory."""
        return self.code is None or self.memory > MEMORY

    @property
    def traceback(self) -> bool:
        """Whether it ended in an error that no user can read."""
        return TRACEBACK in self.text or self.code not in (None, 0, 1, 2, 130, -9, -15)

    @property
    def refused(self) -> bool:
        """Whether it said in a sentence what is wrong: 1 where a check found something."""
        return self.code in (1, 2) and not self.traceback


@dataclass
class Tally:
    """What became of the cases of one attack.

    Args:
        attack: Its name.
        cases: How many there were.
        refused: Ended in one sentence and exit code 2.
        unharmed: Ended with the right result.
        lost: Work that was done and is gone, or cannot be resumed.
        silent: Wrong results without a word.
        tracebacks: Ended in a traceback.
        hangs: Did not end in half a minute, or took all memory.
        breaches: Ran a stranger's code or wrote outside of the output.
        notes: What went wrong, for the log.
    """

    attack: str
    cases: int = 0
    refused: int = 0
    unharmed: int = 0
    lost: int = 0
    silent: int = 0
    tracebacks: int = 0
    hangs: int = 0
    breaches: int = 0
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        case: str,
        outcome: Outcome,
        unharmed: bool,
        otherwise: str = "silent",
        may_refuse: bool = True,
    ) -> None:
        """Count a case.

        Args:
            case: What was done, for the log.
            outcome: How the command ended.
            unharmed: Whether the result is the right one.
            otherwise: What any other result counts as.
            may_refuse: Whether refusing is a right answer; a job that was killed must go through.
        """
        self.cases += 1
        verdict = (
            "hangs"
            if outcome.hang
            else "tracebacks"
            if outcome.traceback
            else "refused"
            if outcome.refused and may_refuse
            else "unharmed"
            if unharmed
            else otherwise
        )
        setattr(self, verdict, getattr(self, verdict) + 1)
        if verdict not in ("refused", "unharmed"):
            said = "\n    ".join(outcome.text.strip().splitlines()[-12:])
            self.notes.append(f"{self.attack}: {case}: {verdict} ({outcome.code})\n    {said}")
            print(self.notes[-1], flush=True)

    def breach(self, case: str) -> None:
        """Count a case in which a stranger's code ran or a file appeared where it must not."""
        self.breaches += 1
        self.notes.append(f"{self.attack}: {case}: BREACH")
        print(self.notes[-1], flush=True)


def import_everything() -> None:
    """Import what commands use, once for all of them."""
    import importlib
    import pkgutil

    import unweave

    for found in pkgutil.walk_packages(unweave.__path__, "unweave."):
        if "gpu" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in ("matplotlib.pyplot", "pandas", "pyarrow.parquet", "sklearn.linear_model"):
        importlib.import_module(name)


def call(
    args: Sequence[str] | Callable[[], object],
    folder: Path,
    *,
    seconds: float = HOUR_GLASS,
    stop_after: float | None = None,
    by: signal.Signals = signal.SIGKILL,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run `unweave ARGS` in a folder, or call a function there.

    Args:
        args: The words behind `unweave`, or a function.
        folder: Where it runs.
        seconds: After which it is ended, as one that hangs.
        stop_after: Seconds after which it is sent a signal, as a user or a machine may.
        by: That signal.
        environment: Variables besides the usual ones.
    """
    log = folder / ".log"
    log.unlink(missing_ok=True)
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _run(args, folder, log, environment or {})
    end = start + seconds
    due = None if stop_after is None else start + stop_after
    hang = False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        now = time.monotonic()
        if done:
            break
        if due is not None and now >= due:
            _signal(child, by)
            due = None
        elif now >= end:
            hang = True
            _signal(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
            break
        time.sleep(0.005)
    _signal_group(child, signal.SIGKILL)  # whatever the command started and left behind
    code = None if hang else os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace") if log.exists() else ""
    return Outcome(code, text, time.monotonic() - start, usage.ru_maxrss << 10)


def _run(
    args: Sequence[str] | Callable[[], object],
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
) -> None:
    """What the child does; it never returns."""
    code = CRASHED
    try:
        os.setsid()
        os.environ |= environment
        os.chdir(folder)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if callable(args):
            args()
        else:
            from unweave.cli import main

            main(list(args))
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _signal(child: int, number: signal.Signals) -> None:
    """Send a signal to a child that has not been waited for, and to all that it started."""
    try:
        os.killpg(child, number)
    except ProcessLookupError:  # it has no group of its own yet
        os.kill(child, number)


def _signal_group(child: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)
