"""Downloads of published files, with resumption and verification.

A download is written to `name.part`, resumed after an interruption, and renamed to `name` once its
size and checksum match the published ones. If no checksum is published, the SHA-256 of the first
download is recorded, and different content is rejected from then on. Checksums are stored as for
all cached files (see `cached_files.py`), so that large files are read completely only once. A lock
prevents two processes from downloading the same file.

Shared folders may contain files of other users: symbolic links are not followed, and a download
that another user started is not resumed.
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
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from unweave.data.cached_files import (
    Sums,
    matches_sample,
    read_sums,
    sums_of,
    sums_path,
    write_sums,
)
from unweave.data.catalog import RemoteFile
from unweave.errors import DownloadError
from unweave.io.temporary import remove_leftovers
from unweave.io.writing import open_plain, refuse_link, write_errors
from unweave.progress import bars

__all__ = ["MismatchError", "check_whole", "fetch"]

TIMEOUT = 30.0
MAX_FAILURES = 4
PAUSE = 1.0
BLOCK = 1 << 20


class MirrorError(Exception):
    """The file could not be downloaded from one address."""


class MismatchError(Exception):
    """A file is not the published one."""


def fetch(file: RemoteFile, folder: Path) -> Path:
    """Return the path of a published file in `folder`, downloading and checking it if needed."""
    path = folder / file.name
    refuse_link(path)
    if _is_recorded(path, file):
        return path
    with _locked(path):
        if not _is_recorded(path, file):  # another process may have finished it in the meantime
            if path.exists():
                _check_present(path, file)
            else:
                _download(file, path)
    return path


def _check_present(path: Path, file: RemoteFile) -> None:
    """Check a downloaded file completely; raise DownloadError if it is not the published one."""
    try:
        check_whole(path, file)
    except MismatchError as error:
        record = "" if file.md5 else f" and {sums_path(path).name}"
        raise DownloadError(
            f"{path} differs from the published {file}: {error}; delete it{record} to download "
            "it again, or set path to load it unchanged",
            subject=path,
        ) from error


def check_whole(path: Path, file: RemoteFile) -> None:
    """Check a downloaded file completely and record its checksums, or raise MismatchError."""
    write_sums(path, _matching_sums(path, file, read_sums(path)))


def _is_recorded(path: Path, file: RemoteFile) -> bool:
    """Whether a file exists and is unchanged since its last check, by a sample of checksums."""
    sums = read_sums(path)
    if sums is None or file.md5 not in (None, sums.md5):
        return False
    try:
        with open_plain(path) as opened:
            status = os.fstat(opened.fileno())
            unchanged = (status.st_size, status.st_mtime_ns) == (sums.size, sums.mtime_ns)
            return unchanged and matches_sample(opened, sums)
    except OSError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, so that no other process downloads it."""
    lock = path.with_name(f".{path.name}.lock")
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_link(lock)
        remove_leftovers(path.parent)
        path.with_name(f".{path.name}.checked").unlink(missing_ok=True)  # left by unweave 0.1
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(lock, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _matching_sums(path: Path, file: RemoteFile, pinned: Sums | None) -> Sums:
    """Compute the checksums of a file and compare them with the published or pinned ones."""
    try:
        with open_plain(path) as opened:
            size = os.fstat(opened.fileno()).st_size
            if size > file.max_size or file.size not in (None, size):
                bound = "at most " if file.size is None else ""
                raise MismatchError(f"it has {size:,} bytes, expected {bound}{file.max_size:,}")
            sums = sums_of(opened, file.name, md5=file.md5 is not None)
    except OSError as error:
        raise MismatchError(f"it cannot be read: {error.strerror or error}") from error
    if file.md5 is not None and sums.md5 != file.md5:
        raise MismatchError(f"its md5 is {sums.md5}")
    if file.md5 is None and pinned is not None and sums.sha256 != pinned.sha256:
        raise MismatchError(
            f"its SHA-256 is {sums.sha256}, but was {pinned.sha256} at the first download"
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
        f"cannot download {file} ({'; '.join(reasons) or 'it has no public address'}); "
        f"obtain it another way and copy it to {path.parent}",
        subject=path,
    )


def _download_from(url: str, file: RemoteFile, part: Path, pinned: Sums | None) -> Sums:
    """Complete `part`, or raise MirrorError and keep what can be resumed."""
    resumed = _size(part) > 0
    try:
        _receive_all(url, file, part)
        return _matching_sums(part, file, pinned)
    except MismatchError as error:
        part.unlink(missing_ok=True)
        if not resumed:
            raise MirrorError(f"sent a different file, {error}") from error
    return _download_from(url, file, part, pinned)


def _receive_all(url: str, file: RemoteFile, part: Path) -> None:
    """Download until `part` has the size of the file, reconnecting after interruptions."""
    failures = 0
    begun = _size(part)
    with _bar(f"downloading {file.name}", file.size) as show:
        while file.size is None or _size(part) != file.size:
            before = _size(part)
            try:
                if _receive(url, file, part, show):
                    return
                reason = "the connection was interrupted"
            except ValueError as error:  # for invalid redirects
                raise MirrorError(str(error)) from error
            except (OSError, http.client.HTTPException) as error:
                reason = _reason(error)
                refused = isinstance(error, urllib.error.URLError)
                if refused and _size(part) <= begun:
                    raise MirrorError(reason) from error
            failures = 0 if _size(part) > before else failures + 1
            if failures == MAX_FAILURES:
                raise MirrorError(reason)
            time.sleep(PAUSE * failures)


def _receive(
    url: str, file: RemoteFile, part: Path, show: Callable[[int, int | None], None]
) -> bool:
    """Download over one connection; return whether `part` is now complete."""
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
            raise MirrorError("unexpected response")
        if total is not None and (total > file.max_size or file.size not in (None, total)):
            raise MirrorError(f"unexpected size of {total:,} bytes")
        with write_errors(part):
            out = _open_part(part, resume=start > 0)
        with out:
            while block := response.read1(BLOCK):
                if out.tell() + len(block) > file.max_size:
                    part.unlink(missing_ok=True)
                    raise MirrorError(f"sent more than {file.max_size:,} bytes")
                with write_errors(part):
                    out.write(block)
                    out.flush()
                show(out.tell(), total)
            return total is None or out.tell() == total


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that follows redirects to http and https only, not to file, ftp or data."""
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
            raise MirrorError(f"redirected from {old} to {new or 'an address without scheme'}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open_part(part: Path, resume: bool) -> BinaryIO:
    """Open the partial file to append to it, or create a new one."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
    if not resume:
        part.unlink(missing_ok=True)
        flags |= os.O_CREAT | os.O_EXCL
    return os.fdopen(os.open(part, flags, 0o666), "ab")


def _size(part: Path) -> int:
    """Return the bytes downloaded so far; a file of another user counts as 0 and is replaced."""
    try:
        status = part.lstat()
    except FileNotFoundError:
        return 0
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
    return status.st_size if own else 0


def _is_whole(part: Path, headers: Any) -> bool:
    """Whether `part` is complete when the server has no more bytes; if not, delete it."""
    total = re.fullmatch(r"bytes \*/(\d+)", headers.get("Content-Range", ""))
    if total and int(total[1]) == _size(part):
        return True
    part.unlink(missing_ok=True)
    return False


def _extent(response: Any) -> tuple[int, int | None]:
    """Return the offset at which a response starts and the total length of the file."""
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
        return f"no response for {TIMEOUT:g} seconds"
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__)


@contextmanager
def _bar(job: str, total: int | None) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar in bytes; yield a function that updates the bytes done and the total."""
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with bars(*columns) as bar:
        task = bar.add_task(job, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of or total)
