"""Exceptions for errors that the user can fix.

Each message is one sentence that states what is wrong, the value and how to fix it. The command
line prints it and exits with code 2; any other exception is a bug. Programs should use the fields
of an error, not its message.
"""

import difflib
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Self

from unweave.text import canonical_name, printable, shown

__all__ = [
    "CallbackError",
    "DataError",
    "DownloadError",
    "InterruptedTrainingError",
    "UnknownNameError",
    "UnweaveError",
]


class UnweaveError(Exception):
    """Base class of all errors with a message for the user: one line of plain text.

    Args:
        message: One sentence for the user.
        subject: Name of the argument, option, key, column or path with the error.
        value: Offending value, if any.
    """

    def __init__(
        self, message: object = "", *, subject: object = None, value: object = None
    ) -> None:
        super().__init__(message)
        self.subject = subject
        self.value = value

    @classmethod
    def must(cls, subject: str, requirement: str, value: object) -> Self:
        """Return an error about an argument: `steps must be at least 1, got 0`."""
        if type(value) is int and abs(value) < 10**15:
            got = f"{value:,}"
        else:
            got = shown(str(value) if isinstance(value, PurePath) else value)
        error = cls(f"{subject} must {requirement}, got {got}")
        error.subject, error.value = subject, value
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with the message alone, which not every subclass supports.
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def __str__(self) -> str:
        return printable(super().__str__())


class DataError(UnweaveError):
    """A data set, file or array that cannot be used."""


class DownloadError(DataError):
    """A published file that could not be downloaded."""


class InterruptedTrainingError(UnweaveError):
    """Training was interrupted by the user; progress is saved if an output folder was given."""


class CallbackError(InterruptedTrainingError):
    """A callback raised an exception, which is its `value` and cause.

    Attributes:
        result: The trained fleet, if the exception came after the last step; otherwise None.
    """

    result: Any = None


class UnknownNameError(UnweaveError):
    """An unknown name.

    Args:
        kind: What is named, for the message ("data set", "factor", "method").
        name: The unknown name; if read from a file, it may be of any type.
        valid: Available names.
    """

    def __init__(self, kind: str, name: object, valid: Iterable[str]) -> None:
        valid = list(valid)
        text = canonical_name(name) if isinstance(name, str) else ""
        closest = difflib.get_close_matches(text, valid, n=1, cutoff=0.5)
        hint = f"; did you mean {closest[0]!r}?" if closest else ""
        super().__init__(
            f"unknown {kind} {shown(name)}{hint} (available: {', '.join(valid)})",
            subject=kind,
            value=name,
        )
        self.valid = valid
