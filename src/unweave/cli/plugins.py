"""`--plugin PACKAGE` on every command, and `package.module:Name` typed on the command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

from unweave.errors import UnweaveError
from unweave.io.extensions import allow, import_plugin, is_reference, module_of

__all__ = ["typed_references", "use_plugins"]

FLAG = "--plugin"


def use_plugins(words: Sequence[str]) -> list[str]:
    """Import the plugins that are named, and allow modules of typed references.

    Returns:
        The words without `--plugin PACKAGE`.
    """
    rest: list[str] = []
    plugins: list[str] = []
    left = iter(words)
    for word in left:
        flag, equals, value = word.partition("=")
        if flag != FLAG:
            rest.append(word)
            continue
        plugin = value if equals else next(left, "")
        if not plugin or plugin.startswith("-"):
            raise UnweaveError("--plugin takes a package or module: --plugin my_models")
        plugins.append(plugin)
    typed = typed_references(rest)
    if plugins or typed:
        # Last, so that no file in this folder takes the place of an installed module.
        sys.path.append(str(Path.cwd()))
    for plugin in plugins:
        import_plugin(plugin)
    for reference in typed:
        allow(module_of(reference))
    return rest


def typed_references(words: Sequence[str]) -> list[str]:
    """The words, or values after an equals sign, that have the form `package.module:Name`."""
    parts = [word.partition("=")[2] if word.startswith("--") else word for word in words]
    return [part for part in parts if is_reference(part)]
