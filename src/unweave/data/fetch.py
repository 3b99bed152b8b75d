"""Published files: where they come from, and how they get here complete.

A download grows in `name.part`, goes on there after a break, and is called `name` only once its
size and checksum are those published. Where none is published, the SHA-256 of the first download
is recorded, and other content is refused from then on. The record is that of all cached files, see
`checked.py`, so many gigabytes are read once only; processes that want the same file lock it.

A shared folder may hold what somebody else has placed there: symbolic links are not followed, and
a download that another user began is not continued.
"""

import fcntl
import http.client
import os
import re
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from unweave.data.cached_files import Sums, has_sample, read_sums, sums_of, sums_path, write_sums
from unweave.errors import DownloadError
from unweave.io.temporary import remove_leftovers
from unweave.io.writing import open_plain, refuse_link, write_errors

__all__ = ["MismatchError", "RemoteFile", "check_whole", "fetch"]

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
        limit: The most bytes to accept where nobody states the size.
    """

    name: str
    size: int | None = None
    md5: str | None = None
    urls: tuple[str, ...] = ()
    limit: int = 1 << 30

    def __str__(self) -> str:
        size = "size unknown" if self.size is None else f"{self.size:,} bytes"
        return f"{self.name} ({size}, md5 {self.md5 or 'unknown'})"

    @property
    def most(self) -> int:
        """The most bytes that it may have."""
        return self.limit if self.size is None else self.size


class MirrorError(Exception):
    """One address did not give the file."""


class MismatchError(Exception):
    """A file is not the published one."""


def fetch(file: RemoteFile, folder: Path) -> Path:
    """The path of a published file in `folder`, downloaded and checked if that is not done yet."""
    path = folder / file.name
    refuse_link(path)
    if _is_recorded(path, file):
        return path
    with _alone(path):
        if not _is_recorded(path, file):  # another process may have been here in the meantime
            if path.exists():
                _check_present(path, file)
            else:
                _download(file, path)
    return path


def _check_present(path: Path, file: RemoteFile) -> None:
    """Check the whole of a downloaded file; DownloadError where it is another one."""
    try:
        check_whole(path, file)
    except MismatchError as error:
        record = "" if file.md5 else f" and {sums_path(path).name}"
        raise DownloadError(
            f"{path} is not the published {file}: {error}; remove it{record} so that it can be "
            "fetched, or give its path to load it as it is"
        ) from error


def check_whole(path: Path, file: RemoteFile) -> None:
    """Check the whole of a downloaded file and record its checksums; MismatchError if it fails."""
    write_sums(path, _matching_sums(path, file, read_sums(path)))


def _is_recorded(path: Path, file: RemoteFile) -> bool:
    """Whether a file is there, unchanged since it was checked, by a sample of its checksums."""
    sums = read_sums(path)
    if sums is None or file.md5 not in (None, sums.md5):
        return False
    try:
        with open_plain(path) as opened:
            status = os.fstat(opened.fileno())
            unchanged = (status.st_size, status.st_mtime_ns) == (sums.size, sums.mtime_ns)
            return unchanged and has_sample(opened, sums)
    except OSError:
        return False


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A time in which no other process fetches the file."""
    lock = path.with_name(f".{path.name}.lock")
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_link(lock)
        remove_leftovers(path.parent)
        path.with_name(f".{path.name}.checked").unlink(missing_ok=True)  # of unweave 0.1
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(lock, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _matching_sums(path: Path, file: RemoteFile, pinned: Sums | None) -> Sums:
    """The checksums of the file at `path`, if they are those published or else those pinned."""
    try:
        with open_plain(path) as opened:
            size = os.fstat(opened.fileno()).st_size
            if size > file.most or file.size not in (None, size):
                raise MismatchError(f"it has {size:,} bytes")
            sums = sums_of(opened, file.name, md5=file.md5 is not None)
    except OSError as error:
        raise MismatchError(f"it cannot be read: {error.strerror or error}") from error
    if file.md5 is not None and sums.md5 != file.md5:
        raise MismatchError(f"its md5 is {sums.md5}")
    if file.md5 is None and pinned is not None and sums.sha256 != pinned.sha256:
        raise MismatchError(
            f"its SHA-256 is {sums.sha256}, but was {pinned.sha256} when it was first used"
        )
    return sums


def _download(file: RemoteFile, path: Path) -> None:
    part = path.with_name(f"{path.name}.part")
    refuse_link(part)
    reasons = []
    for url in file.urls:
        try:
            sums = _download_from(url, file, part, read_sums(path))
        except MirrorError as error:
            reasons.append(f"{urlsplit(url).netloc}: {error}")
            continue
        with write_errors(path):
            with part.open("rb+") as opened:
                os.fsync(opened.fileno())
            part.replace(path)
        write_sums(path, sums)
        return
    raise DownloadError(
        f"{file} could not be fetched ({'; '.join(reasons) or 'it has no public address'}); "
        f"get it some other way and put it into {path.parent} yourself"
    )


def _download_from(url: str, file: RemoteFile, part: Path, pinned: Sums | None) -> Sums:
    """Make `part` the complete file, or raise MirrorError and leave what is worth continuing."""
    begun_elsewhere = _size(part) > 0
    try:
        _receive_all(url, file, part)
        return _matching_sums(part, file, pinned)
    except MismatchError as error:
        part.unlink(missing_ok=True)
        if not begun_elsewhere:
            raise MirrorError(f"sent something else, {error}") from error
    return _download_from(url, file, part, pinned)


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
            except ValueError as error:  # of addresses to which it redirects
                raise MirrorError(str(error)) from error
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
    opener = _opener()
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
        if total is not None and (total > file.most or file.size not in (None, total)):
            raise MirrorError(f"it has a file of {total:,} bytes")
        with write_errors(part):
            out = _open_part(part, goes_on=start > 0)
        with out:
            while block := response.read1(BLOCK):
                if out.tell() + len(block) > file.most:
                    part.unlink(missing_ok=True)
                    raise MirrorError(f"it sent more than {file.most:,} bytes")
                with write_errors(part):
                    out.write(block)
                    out.flush()
                show(out.tell(), total)
            return total is None or out.tell() == total


def _opener() -> urllib.request.OpenerDirector:
    """What follows http and https only: not file, ftp or data, where a redirection leads there."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        _Redirections,
    ):
        opener.add_handler(handler())
    opener.addheaders = [("User-Agent", "unweave")]
    return opener


class _Redirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old == "https" and new == "http"):
            raise MirrorError(f"it redirected from {old} to {new or 'nowhere'}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open_part(part: Path, goes_on: bool) -> BinaryIO:
    """The growing file: that of before, or a new one that was not there a moment ago."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
    if not goes_on:
        part.unlink(missing_ok=True)
        flags |= os.O_CREAT | os.O_EXCL
    return os.fdopen(os.open(part, flags, 0o666), "ab")


def _size(part: Path) -> int:
    """Bytes received so far; what is not this user's own file is not counted, and is replaced."""
    try:
        status = part.lstat()
    except FileNotFoundError:
        return 0
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
    return status.st_size if own else 0


def _is_whole(part: Path, headers: Any) -> bool:
    """When nothing lies beyond `part`: whether it is complete; too long a one is removed."""
    total = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", ""))
    if total and int(total[1]) == _size(part):
        return True
    part.unlink(missing_ok=True)
    return False


def _extent(response: Any) -> tuple[int, int | None]:
    """Where in the file an answer starts, and how long the whole file is."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if span is None:
            return -1, None
        return int(span[1]), None if span[2] == "*" else int(span[2])
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None


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
