"""Temporary files named after their process, so that those of dead processes can be removed.

A temporary file next to `NAME` is called `.NAME.HOST-PID-START-RANDOM` and keeps NAME's suffix:

    HOST    a hash of the host name, the boot and the process namespace (a container has its own)
    PID     the process that writes it
    START   start time of that process, in clock ticks since boot; 0 if /proc is not available

On the same host, files of dead processes are removed by the next process that uses the folder.
Processes of other hosts are not visible, so their files are removed once they are unchanged for a
day. The same holds for names without an owner, as written by unweave 0.1.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["remove_leftovers", "temporary_name"]

MAX_NAME_LENGTH = 255
"""Largest length of a file name, in bytes."""
MAX_SUFFIX_LENGTH = 32
DAY = 24 * 60 * 60

OWNED = re.compile(r"\..*\.([0-9a-f]{8})-(\d{1,10})-(\d{1,20})-[0-9a-f]{8}(\.[^.]*)?", re.DOTALL)
# A folder may hold other files of the user, so these are recognised by what only temporary files
# have: a suffix repeated after eight random characters, or for folders the name of a run or of a
# chosen model. Names without digits are left alone, because they could be real words.
UNOWNED_FILE = re.compile(r"\..+(\.\w+)\.(?=[a-z_]*[0-9])[a-z0-9_]{8}\1")
UNOWNED_FOLDER = re.compile(r"\.([0-9a-f]{16}|best)\.[a-z0-9_]{8}")

_cleaned: set[tuple[int, str]] = set()


def temporary_name(name: str) -> str:
    """Return the name of a temporary file of this process for the file `name`."""
    suffix = Path(name).suffix
    suffix = suffix if len(os.fsencode(suffix)) <= MAX_SUFFIX_LENGTH else ""
    owner = f".{_host()}-{os.getpid()}-{_process('self')[1]}-{secrets.token_hex(4)}{suffix}"
    available = MAX_NAME_LENGTH - len(os.fsencode(owner)) - 1
    shortened = os.fsencode(name)[:available].decode("utf-8", "ignore")
    return f".{shortened}{owner}"


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of dead processes in a folder, once per process and folder."""
    key = (os.getpid(), str(folder.absolute()))
    if key in _cleaned:
        return
    _cleaned.add(key)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and _is_leftover(entry):
                _remove(Path(entry.path))


def _is_leftover(entry: os.DirEntry[str]) -> bool:
    owned = OWNED.fullmatch(entry.name)
    if owned is not None and owned[1] == _host():
        return not _is_alive(int(owned[2]), int(owned[3]))
    if owned is not None:
        return _is_untouched(entry)
    unowned = UNOWNED_FOLDER if entry.is_dir(follow_symlinks=False) else UNOWNED_FILE
    return bool(unowned.fullmatch(entry.name)) and _is_untouched(entry)


def _is_alive(pid: int, start: int) -> bool:
    """Whether a process of this host still runs, and is not another one with the same PID."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # a process of another user
    state, started = _process(str(pid))
    return state not in "ZX" and (0 in (start, started) or start == started)


def _process(name: str) -> tuple[str, int]:
    """Return the state and start time of a process; "?" and 0 if /proc is not available."""
    try:
        text = Path(f"/proc/{name}/stat").read_text(errors="replace")
    except OSError:
        return "?", 0
    fields = text.rpartition(")")[2].split()  # the program name may contain spaces and brackets
    return fields[0], int(fields[19])


def _is_untouched(entry: os.DirEntry[str]) -> bool:
    """Whether a file, or all files in a folder, are unchanged for a day."""
    try:
        times = [entry.stat(follow_symlinks=False).st_mtime]
        if entry.is_dir(follow_symlinks=False):
            with os.scandir(entry.path) as inside:
                times += [one.stat(follow_symlinks=False).st_mtime for one in inside]
    except OSError:
        return False
    return time.time() - max(times) > DAY


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


@cache
def _host() -> str:
    """Return a hash shared by all processes whose PIDs are comparable with this one's."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
