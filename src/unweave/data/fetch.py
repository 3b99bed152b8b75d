"""Published files: where they come from, and how they get here complete.

A download grows in `name.part`, goes on there after a break, and is called `name` only once its
size and checksum are those published. A hidden file beside it, `.name.checked`, remembers the
check, so that many gigabytes are read once only; processes that want the same file lock it.
"""

import fcntl
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from unweave.data.cache import write_errors
from unweave.errors import DownloadError

__all__ = ["RemoteFile", "fetch"]

TIMEOUT = 30.0
FRUITLESS_TRIES = 4
PAUSE = 1.0
BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteFile:
    """A file that its authors publish.

    Args:
        name: Its name in the data set's folder of the cache.
        size: In bytes; None where nobody states it.
        md5: Its checksum, as published; None where there is none.
        urls: Where it can be fetched, in order of preference.
    """

    name: str
    size: int | None = None
    md5: str | None = None
    urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        size = "size unknown" if self.size is None else f"{self.size:,} bytes"
        return f"{self.name} ({size}, md5 {self.md5 or 'unknown'})"


class MirrorError(Exception):
    """One address did not give the file."""


def fetch(file: RemoteFile, folder: Path) -> Path:
    """The path of a published file in `folder`, downloaded and checked if that is not done yet."""
    path = folder / file.name
    if _is_recorded(path, file):
        return path
    with _alone(path) as record:
        if not _is_recorded(path, file):  # another process may have been here in the meantime
            if path.exists():
                _check_present(path, file)
            else:
                _download(file, path)
            record.truncate(0)
            record.write(_stamp(path, file))
    return path


def _stamp(path: Path, file: RemoteFile) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns} {file.md5}\n"


def _record(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _is_recorded(path: Path, file: RemoteFile) -> bool:
    try:
        return _record(path).read_text() == _stamp(path, file)
    except OSError:
        return False


@contextmanager
def _alone(path: Path) -> Iterator[TextIO]:
    """The open record of a file, held by no other process."""
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        record = _record(path).open("a+")
    with record:
        fcntl.flock(record, fcntl.LOCK_EX)
        yield record


def _check_present(path: Path, file: RemoteFile) -> None:
    fault = _fault(path, file)
    if fault:
        raise DownloadError(
            f"{path} is not the published {file}: {fault}; remove it so that it can be fetched, "
            "or give its path to load it as it is"
        )


def _fault(path: Path, file: RemoteFile) -> str | None:
    """What is wrong with the file at `path`, if anything."""
    size = path.stat().st_size
    if file.size is not None and size != file.size:
        return f"it has {size:,} bytes"
    if file.md5 is None:
        return None
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as opened, _bar(f"checking {file.name}", size) as show:
        while block := opened.read(BLOCK):
            digest.update(block)
            show(opened.tell(), size)
    return None if digest.hexdigest() == file.md5 else f"its md5 is {digest.hexdigest()}"


def _download(file: RemoteFile, path: Path) -> None:
    part = path.with_name(f"{path.name}.part")
    reasons = []
    for url in file.urls:
        try:
            _download_from(url, file, part)
        except MirrorError as error:
            reasons.append(f"{urlsplit(url).netloc}: {error}")
            continue
        with write_errors(path):
            with part.open("rb+") as opened:
                os.fsync(opened.fileno())
            part.replace(path)
        return
    raise DownloadError(
        f"{file} could not be fetched ({'; '.join(reasons) or 'it has no public address'}); "
        f"get it some other way and put it into {path.parent} yourself"
    )


def _download_from(url: str, file: RemoteFile, part: Path) -> None:
    """Make `part` the complete file, or raise MirrorError and leave what is worth continuing."""
    begun_elsewhere = _size(part) > 0
    _receive_all(url, file, part)
    fault = _fault(part, file)
    if fault and begun_elsewhere:
        part.unlink()
        _receive_all(url, file, part)
        fault = _fault(part, file)
    if fault:
        part.unlink()
        raise MirrorError(f"sent something else, {fault}")


def _receive_all(url: str, file: RemoteFile, part: Path) -> None:
    """Connect until `part` has as many bytes as the file, going on after each break."""
    fruitless = 0
    begun = _size(part)
    with _bar(f"fetching {file.name}", file.size) as show:
        while file.size is None or _size(part) != file.size:
            before = _size(part)
            try:
                if _receive(url, file, part, show):
                    return
                reason = "the connection broke off"
            except (OSError, http.client.HTTPException) as error:
                reason = _reason(error)
                refused = isinstance(error, urllib.error.URLError)
                if refused and _size(part) <= begun:
                    raise MirrorError(reason) from error
            fruitless = 0 if _size(part) > before else fruitless + 1
            if fruitless == FRUITLESS_TRIES:
                raise MirrorError(reason)
            time.sleep(PAUSE * fruitless)


def _receive(
    url: str, file: RemoteFile, part: Path, show: Callable[[int, int | None], None]
) -> bool:
    """Receive over one connection; whether `part` is now all that the server has."""
    begun = _size(part)
    opener = urllib.request.build_opener()
    opener.addheaders = [("User-Agent", "unweave")]
    if begun:
        opener.addheaders.append(("Range", f"bytes={begun}-"))
    try:
        response = opener.open(url, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return _is_whole(part, error.headers)
            raise MirrorError(f"HTTP {error.code} {error.reason}") from error
    with response:
        start, total = _extent(response)
        if start not in (0, begun) or response.headers.get_content_type() == "text/html":
            raise MirrorError("it answered with something else")
        if None not in (total, file.size) and total != file.size:
            raise MirrorError(f"it has a file of {total:,} bytes")
        with write_errors(part):
            out = part.open("ab" if start else "wb")
        with out:
            while block := response.read1(BLOCK):
                with write_errors(part):
                    out.write(block)
                    out.flush()
                show(out.tell(), total)
            return total is None or out.tell() == total


def _is_whole(part: Path, headers: Any) -> bool:
    """When nothing lies beyond `part`: whether it is complete; too long a one is removed."""
    total = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", ""))
    if total and int(total[1]) == _size(part):
        return True
    part.unlink()
    return False


def _extent(response: Any) -> tuple[int, int | None]:
    """Where in the file an answer starts, and how long the whole file is."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if span is None:
            return -1, None
        return int(span[1]), None if span[2] == "*" else int(span[2])
    length = response.headers.get("Content-Length")
    return 0, None if length is None else int(length)


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"silent for {TIMEOUT:g} seconds"
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__)


@contextmanager
def _bar(job: str, total: int | None) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar in bytes; the function it gives is told how many are done, of how many."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(job, total=total)
        yield lambda done, of: progress.update(task, completed=done, total=of or total)
