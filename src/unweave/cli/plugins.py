"""The flag `--plugin PACKAGE` and references `package.module:Name` on the command line."""

import sys
from collections.abc import Sequence
from pathlib import Path

from unweave.errors import UnweaveError
from unweave.io.extensions import allow, import_plugin, is_reference, module_of

__all__ = ["import_plugins", "references_in_args"]

FLAG = "--plugin"


def import_plugins(args: Sequence[str]) -> list[str]:
    """Import the plugins given with `--plugin`, and allow the modules of references.

    Returns:
        The arguments without `--plugin PACKAGE`.
    """
    rest: list[str] = []
    plugins: list[str] = []
    remaining = iter(args)
    for one in remaining:
        flag, equals, value = one.partition("=")
        if flag != FLAG:
            rest.append(one)
            continue
        plugin = value if equals else next(remaining, "")
        if not plugin or plugin.startswith("-"):
            raise UnweaveError("--plugin requires a package or module, such as --plugin my_models")
        plugins.append(plugin)
    typed = references_in_args(rest)
    if plugins or typed:
        # Appended at the end, so that no file in this folder shadows an installed module.
        sys.path.append(str(Path.cwd()))
    for plugin in plugins:
        import_plugin(plugin)
    for reference in typed:
        allow(module_of(reference))
    return rest


def references_in_args(args: Sequence[str]) -> list[str]:
    """Return arguments and values of `--flag=value` of the form `package.module:Name`."""
    parts = [one.partition("=")[2] if one.startswith("--") else one for one in args]
    return [part for part in parts if is_reference(part)]
