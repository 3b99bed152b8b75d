"""Run commands as users do, each in a separate process, and report how they ended.

Processes are forks of one that has imported everything, so that a call takes a tenth of a second
instead of four seconds. The parent never computes anything, because threads do not survive a fork.
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

__all__ = ["TIMEOUT", "Outcome", "Tally", "call", "import_everything"]

TIMEOUT = 30.0
"""Seconds after which a command counts as hanging."""
MEMORY = 6 << 30
"""Bytes of memory beyond which a command counts as hanging, as it would on smaller machines."""
TRACEBACK = "Traceback (most recent call last)"
CRASHED = 70
"""Exit code of a call that raised an exception."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Args:
        code: Exit code; the negative signal that killed it; or None if it had to be stopped.
        text: Printed output.
        seconds: Wall-clock time.
        memory: Peak resident memory, in bytes.
    """

    code: int | None
    text: str
    seconds: float
    memory: int

    @property
    def hang(self) -> bool:
        """Whether it did not end by itself, or used too much memory."""
        return self.code is None or self.memory > MEMORY

    @property
    def traceback(self) -> bool:
        """Whether it ended with a traceback or an unexpected exit code."""
        return TRACEBACK in self.text or self.code not in (None, 0, 1, 2, 130, -9, -15)

    @property
    def refused(self) -> bool:
        """Whether it ended with an error message (2), or a failed check (1)."""
        return self.code in (1, 2) and not self.traceback


@dataclass
class Tally:
    """Outcomes of the cases of one attack.

    Args:
        attack: Name of the attack.
        cases: Number of cases.
        refused: Cases that ended with an error message and exit code 2.
        unharmed: Cases with the correct result.
        lost: Cases whose finished work is lost or cannot be resumed.
        silent: Cases with wrong results and no error.
        tracebacks: Cases that ended with a traceback.
        hangs: Cases that took over half a minute or too much memory.
        breaches: Cases that ran untrusted code or wrote outside the output folder.
        notes: Descriptions of failures, for the log.
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
            case: Description of the case, for the log.
            outcome: Outcome of the command.
            unharmed: Whether the result is correct.
            otherwise: Verdict for any other result.
            may_refuse: Whether an error message is acceptable; a killed job must complete.
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
            log = "\n    ".join(outcome.text.strip().splitlines()[-12:])
            self.notes.append(f"{self.attack}: {case}: {verdict} ({outcome.code})\n    {log}")
            print(self.notes[-1], flush=True)

    def breach(self, case: str) -> None:
        """Count a case in which untrusted code ran or a file was written outside the output."""
        self.breaches += 1
        self.notes.append(f"{self.attack}: {case}: BREACH")
        print(self.notes[-1], flush=True)


def import_everything() -> None:
    """Import all modules that commands use, once for all forks."""
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
    seconds: float = TIMEOUT,
    stop_after: float | None = None,
    by: signal.Signals = signal.SIGKILL,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run `unweave ARGS` in a folder, or call a function there.

    Args:
        args: Arguments of `unweave`, or a function.
        folder: Working folder.
        seconds: Time limit, after which the call is killed and counts as hanging.
        stop_after: Seconds after which it is sent a signal, as by a user or the system.
        by: Signal to send.
        environment: Additional environment variables.
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
    _signal_group(child, signal.SIGKILL)  # end processes that the command left behind
    code = None if hang else os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace") if log.exists() else ""
    return Outcome(code, text, time.monotonic() - start, usage.ru_maxrss << 10)


def _run(
    args: Sequence[str] | Callable[[], object],
    folder: Path,
    log: Path,
    environment: Mapping[str, str],
) -> None:
    """Body of the child process; never returns."""
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
    """Send a signal to a child that has not been waited for, and to its descendants."""
    try:
        os.killpg(child, number)
    except ProcessLookupError:  # it has no process group yet
        os.kill(child, number)


def _signal_group(child: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)
