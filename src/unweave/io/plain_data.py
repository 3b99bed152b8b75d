"""Read small text files that a stranger may have written: bounded in size and depth, plain data.

Every JSON and YAML file, and every piece of JSON in the metadata of a binary file, is read here.
Trouble is a ValueError or an OSError, which callers turn into a sentence that names the file.
"""

import json
import math
import re
import stat
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard, cast

__all__ = ["is_number", "parse_json", "parse_yaml", "read_json", "read_text"]

MOST_BYTES = 64 << 20
MOST_YAML_BYTES = 128 << 10
"""PyYAML reads some 200 kB a second, and study files have a few."""
DEEPEST = 100
MOST_VALUES, MOST_YAML_VALUES = 1_000_000, 100_000
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape in JSON that may be half a character."""


def read_json(path: Path, file_names: bool = False) -> Any:
    """The plain data in a JSON file; see `parse_json`."""
    return parse_json(read_text(path), file_names)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file of at most so many bytes.

    A pipe or a device in place of a file would never end.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    if status.st_size > most:
        raise ValueError(f"it has {status.st_size:,} bytes, more than the {most:,} expected")
    return path.read_text(encoding="utf-8")


def parse_json(text: str | bytes, file_names: bool = False) -> Any:
    """The plain data that JSON stands for.

    Args:
        text: The JSON.
        file_names: Whether it names files, whose names may hold bytes that are not UTF-8. Python
            keeps such a byte as half a character, which no other text may have: it can be
            neither printed nor written.

    Example:
        >>> parse_json('{"steps": 3}')
        {'steps': 3}
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ValueError: it is nested more than 100 levels deep
    """
    # Not left to `json`, which would take half characters.
    text = text if isinstance(text, str) else text.decode("utf-8")
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    # Walking through a value takes longer than parsing it, so short and shallow texts are spared.
    large = len(text) > MOST_VALUES or text.count("[") + text.count("{") > DEEPEST
    if large or SURROGATE.search(text):
        _check(value, MOST_VALUES, file_names)
    return value


def parse_yaml(text: str) -> Any:
    """The plain data that YAML stands for; aliases count as often as they are used.

    Example:
        >>> parse_yaml("{seeds: &few [0, 1], others: *few}")
        {'seeds': [0, 1], 'others': [0, 1]}
        >>> parse_yaml("&all [*all]")
        Traceback (most recent call last):
        ValueError: it is nested more than 100 levels deep
    """
    import yaml

    from unweave.io.yaml_loader import BoundedLoader

    if len(text) > MOST_YAML_BYTES:
        raise ValueError(f"it has {len(text):,} characters, more than {MOST_YAML_BYTES:,}")
    try:
        value = yaml.load(text, BoundedLoader)  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise _too_deep() from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        # PyYAML's own, of a tag that does not fit its value, such as `!!bool maybe`.
        raise ValueError("a value does not fit its tag") from error
    _check(value, MOST_YAML_VALUES)
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite real number, which neither `true` nor `"4"` is.

    Example:
        >>> is_number(4), is_number(True), is_number(10**400), is_number("4")
        (True, False, False, False)
    """
    try:
        good = isinstance(value, Real) and not isinstance(value, bool)
        return good and math.isfinite(cast(float, value))
    except OverflowError:  # an integer beyond all floats
        return False


def _check(value: Any, most: int, file_names: bool = False) -> None:
    """Refuse data that is too deep or too much to be walked through in a moment, and bad text."""
    left = [(value, 1)]
    count = 0
    while left:
        one, depth = left.pop()
        children: Iterable[Any] = ()
        if isinstance(one, Mapping):
            children = [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set):
            children = one
        else:
            if isinstance(one, str) and not one.isascii():
                _check_text(one, file_names)
            continue
        if depth > DEEPEST:
            raise _too_deep()
        left += [(child, depth + 1) for child in children]
        count += len(one)
        if count > most:
            raise ValueError(f"it holds more than {most:,} values")


def _check_text(text: str, file_name: bool) -> None:
    try:
        text.encode(errors="surrogateescape" if file_name else "strict")
    except UnicodeEncodeError:
        raise ValueError("it holds half of a character, which cannot be written") from None


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEEPEST} levels deep")
