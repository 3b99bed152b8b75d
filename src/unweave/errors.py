"""The exceptions that unweave raises for things a user can put right.

Each message is one sentence that names the thing, what was expected and what to do. The command
line prints it and exits with code 2; anything else that escapes is a bug.
"""

import difflib
from collections.abc import Iterable

from unweave.text import readable, shown, spelled

__all__ = [
    "DataError",
    "DownloadError",
    "InterruptedTrainingError",
    "UnknownNameError",
    "UnweaveError",
]


class UnweaveError(Exception):
    """The base of every error with a message for the user: one line of plain text."""

    def __str__(self) -> str:
        return readable(super().__str__())


class DataError(UnweaveError):
    """A data set, file or array that cannot be used as it is."""


class DownloadError(DataError):
    """A published file that is not here and could not be fetched."""


class InterruptedTrainingError(UnweaveError):
    """Training was stopped by the user; what was done is kept where a folder was given."""


class UnknownNameError(UnweaveError):
    """A name that nothing has.

    Args:
        kind: What is named, for the message ("data set", "factor", "method").
        name: The name that came; in a file it may be anything.
        valid: The names that exist.
    """

    def __init__(self, kind: str, name: object, valid: Iterable[str]) -> None:
        valid = list(valid)
        word = spelled(name) if isinstance(name, str) else ""
        near = difflib.get_close_matches(word, valid, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(
            f"no {kind} is called {shown(name)}{hint} (there are: {', '.join(valid)})"
        )
