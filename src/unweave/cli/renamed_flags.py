"""Flags that have been renamed; the old names work for one release."""

from collections.abc import Mapping, Sequence

from unweave.progress import say

__all__ = ["RENAMED", "with_new_flags"]

RENAMED: Mapping[str, Mapping[str, str]] = {
    "evaluate": {"--again": "--recompute", "--no-again": "--no-recompute"},
    "show": {"--over": "--axes"},
    "theory": {"--ending": "--format"},
}
"""New name of each old flag, by command."""


def with_new_flags(args: Sequence[str], renamed: Mapping[str, str]) -> list[str]:
    """Replace old flags by new ones, and print a message for each.

    Example:
        >>> with_new_flags(["runs", "--overwrite"], RENAMED["evaluate"])
        ['runs', '--overwrite']
    """
    replaced = []
    for arg in args:
        flag, equals, value = arg.partition("=")
        new = renamed.get(flag, flag)
        if new != flag:
            say(f"{flag} is deprecated; use {new}")
        replaced.append(f"{new}{equals}{value}")
    return replaced
