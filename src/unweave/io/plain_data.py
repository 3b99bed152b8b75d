"""Safe reading of untrusted JSON and YAML: plain data, bounded in size and depth.

All JSON and YAML files, and all JSON in the metadata of binary files, are read here. Errors are
ValueError or OSError, which callers convert to a message that names the file.
"""

import json
import math
import re
import stat
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard, cast

import yaml

__all__ = ["is_number", "parse_json", "parse_yaml", "read_json", "read_text"]

MAX_BYTES = 64 << 20
MAX_YAML_BYTES = 128 << 10
"""Larger than any study file; PyYAML reads about 200 kB per second."""
MAX_DEPTH = 100
MAX_VALUES, MAX_YAML_VALUES = 1_000_000, 100_000
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""JSON escape that may be half of a surrogate pair."""
MAX_MERGED_VALUES = 100_000
MERGE = "tag:yaml.org,2002:merge"


def read_json(path: Path, file_names: bool = False) -> Any:
    """Return the plain data in a JSON file; see `parse_json`."""
    return parse_json(read_text(path), file_names)


def read_text(path: Path, most: int = MAX_BYTES) -> str:
    """Return the text of a regular file of at most `most` bytes.

    Pipes and devices are refused, because reading them could block forever.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.name} is not a regular file")
    if status.st_size > most:
        raise ValueError(f"it has {status.st_size:,} bytes; at most {most:,} are allowed")
    return path.read_text(encoding="utf-8")


def parse_json(text: str | bytes, file_names: bool = False) -> Any:
    """Parse JSON to plain data.

    Args:
        text: JSON text.
        file_names: Whether it contains file names, which may have bytes that are not UTF-8. Python
            represents these as lone surrogates. They are refused in other text, because they can
            be neither printed nor written.

    Example:
        >>> parse_json('{"steps": 3}')
        {'steps': 3}
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ValueError: it is nested more than 100 levels deep
    """
    # `json` would accept lone surrogates.
    text = text if isinstance(text, str) else text.decode("utf-8")
    try:
        value = json.loads(text)
    except RecursionError:
        raise _too_deep() from None
    # Checking a value takes longer than parsing it, so short and shallow texts are skipped.
    large = len(text) > MAX_VALUES or text.count("[") + text.count("{") > MAX_DEPTH
    if large or SURROGATE.search(text):
        _check(value, MAX_VALUES, file_names)
    return value


def parse_yaml(text: str) -> Any:
    """Parse YAML to plain data; each use of an alias counts towards the limits.

    Example:
        >>> parse_yaml("{seeds: &few [0, 1], others: *few}")
        {'seeds': [0, 1], 'others': [0, 1]}
        >>> parse_yaml("&all [*all]")
        Traceback (most recent call last):
        ValueError: it is nested more than 100 levels deep
    """
    if len(text) > MAX_YAML_BYTES:
        raise ValueError(
            f"it has {len(text):,} characters; at most {MAX_YAML_BYTES:,} are allowed"
        )
    try:
        value = yaml.load(text, BoundedLoader)  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise _too_deep() from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        # PyYAML raises these for a value that does not match its tag, such as `!!bool maybe`.
        raise ValueError("a value does not match its tag") from error
    _check(value, MAX_YAML_VALUES)
    return value


class BoundedLoader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """PyYAML's safe loader with a limit on merge keys (`<<: [*a, *a]`).

    Merging copies all entries, so a few lines of mappings that merge each other could otherwise
    expand to billions of entries while loading.
    """

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Apply the merge keys of a mapping, within the limit."""
        for key, value in node.value:
            if key.tag != MERGE:
                continue
            for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(part, yaml.MappingNode):
                    self.flatten_mapping(part)
                    self.merged += len(part.value)
            if self.merged > MAX_MERGED_VALUES:
                raise yaml.YAMLError(f"it merges more than {MAX_MERGED_VALUES:,} entries")
        super().flatten_mapping(node)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite real number; booleans and text are not.

    Example:
        >>> is_number(4), is_number(True), is_number(10**400), is_number("4")
        (True, False, False, False)
    """
    try:
        good = isinstance(value, Real) and not isinstance(value, bool)
        return good and math.isfinite(cast(float, value))
    except OverflowError:  # an integer larger than any float
        return False


def _check(value: Any, most: int, file_names: bool = False) -> None:
    """Raise an error if data is too deep or too large, or has text that is not valid."""
    stack = [(value, 1)]
    count = 0
    while stack:
        item, depth = stack.pop()
        children: Iterable[Any] = ()
        if isinstance(item, Mapping):
            children = [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set):
            children = item
        else:
            if isinstance(item, str) and not item.isascii():
                _check_text(item, file_names)
            continue
        if depth > MAX_DEPTH:
            raise _too_deep()
        stack += [(child, depth + 1) for child in children]
        count += len(item)
        if count > most:
            raise ValueError(f"it has more than {most:,} values")


def _check_text(text: str, file_name: bool) -> None:
    try:
        text.encode(errors="surrogateescape" if file_name else "strict")
    except UnicodeEncodeError as error:
        point = ord(text[error.start])
        raise ValueError(f"it contains the unpaired surrogate U+{point:04X}") from None


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
