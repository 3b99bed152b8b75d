"""Published files: where they come from, and how they get here complete."""

from dataclasses import dataclass

__all__ = ["RemoteFile"]


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
