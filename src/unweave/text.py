"""Formatting of counts, sizes and names for messages and figures."""

import unicodedata
from collections.abc import Sequence
from pathlib import PurePath

__all__ = ["canonical_name", "counted", "printable", "shown", "size_text"]

MAX_SHOWN_LENGTH = 100
ESCAPED = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories that are escaped: control characters, bytes that are not UTF-8, and line
separators."""
DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the text after them."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 model`, `1,200 models`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def shown(value: object) -> str:
    """Return the `repr` of a value for error messages, shortened if it is long.

    Example:
        >>> shown("heart"), len(shown([0] * 1_000))
        ("'heart'", 101)
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer with thousands of digits
        return f"a very large {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


def size_text(shape: Sequence[int]) -> str:
    """Format a shape: `32 × 32 × 1`."""
    return " × ".join(map(str, shape))


def canonical_name(name: str) -> str:
    """Normalise a name: `Beta-VAE` becomes `beta_vae`; `package.module:Name` is unchanged."""
    return name if ":" in name else name.replace("-", "_").lower()


def printable(name: str | PurePath) -> str:
    r"""Escape characters of a name that cannot be printed or written as text.

    File names are bytes, which need not be UTF-8. Files are opened by their real names; tables,
    pages, messages and terminals show the escaped name.

    Example:
        >>> print(printable(b"caf\xe9.png".decode(errors="surrogateescape")), printable("a\nb"))
        caf\xe9.png a\nb
    """
    text = str(name)
    if text.isprintable():
        return text
    return "".join(
        _escape(letter)
        if letter in DIRECTIONS or unicodedata.category(letter) in ESCAPED
        else letter
        for letter in text
    )


def _escape(letter: str) -> str:
    byte = ord(letter) - 0xDC00  # how Python represents a byte that is not UTF-8
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else ascii(letter)[1:-1]
