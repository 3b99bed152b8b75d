"""User-defined methods, metrics, architectures and data sets, named `package.module:Name`.

Saved runs and studies refer to them in this form. These files are untrusted, so they never cause
an import by themselves. A module is used only if the user named it on the command line (`allow`),
installed it as an entry point of the group `unweave.plugins`, or already imported it, and only
objects of the expected kind are taken from it.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from unweave.errors import UnweaveError
from unweave.text import shown

__all__ = [
    "GROUP",
    "ExtensionError",
    "allow",
    "import_plugin",
    "is_reference",
    "module_file",
    "module_of",
    "plugin_objects",
    "reference_to",
    "references_in",
    "resolve",
]

GROUP = "unweave.plugins"
REFERENCE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
MAX_LENGTH = 200
OWN_PACKAGE = __name__.partition(".")[0]

_allowed: dict[str, None] = {}
"""Modules and packages that the user named in this process, in order."""
_used: dict[str, None] = {}
"""Modules of objects that were used in this process."""


class ExtensionError(UnweaveError):
    """A reference `package.module:Name` that is not available in this process.

    Args:
        reference: The reference.
        message: What is wrong and how to fix it.
    """

    def __init__(self, reference: str, message: str) -> None:
        super().__init__(message, subject=reference)
        self.reference = reference


def is_reference(name: object) -> TypeGuard[str]:
    """Whether a name has the form `package.module:Name`.

    Example:
        >>> is_reference("shop.methods:FreeBits"), is_reference("beta_vae"), is_reference("a:80")
        (True, False, False)
    """
    return isinstance(name, str) and len(name) <= MAX_LENGTH and bool(REFERENCE.fullmatch(name))


def module_of(reference: str) -> str:
    """Return the module of a reference."""
    return reference.partition(":")[0]


def allow(module: str) -> None:
    """Allow saved files to refer to objects of a module, which is imported on demand."""
    _allowed[module] = None


def import_plugin(module: str) -> None:
    """Import a module or package named by the user, and `allow` it."""
    try:
        import_module(module)
    except Exception as error:  # user code may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ExtensionError(
            module, f"cannot import the plugin {shown(module)} ({reason}); check its name and code"
        ) from error
    allow(module)


def resolve(reference: str, kind: str, fits: Callable[[Any], bool]) -> Any:
    """Return the object that a reference names.

    Args:
        reference: `package.module:Name`, possibly from an untrusted file.
        kind: Expected kind of object, for the message: "method".
        fits: Whether an object is of that kind; other objects are never called.
    """
    match = REFERENCE.fullmatch(reference) if is_reference(reference) else None
    if match is None:
        raise ExtensionError(
            reference,
            f"a custom {kind} must be given as package.module:Name, got {shown(reference)}",
        )
    module, name = match.groups()
    if module.partition(".")[0] == OWN_PACKAGE:
        raise ExtensionError(
            reference, f"a built-in {kind} must be given by its plain name, got {shown(reference)}"
        )
    home = _module(module)
    if home is None:
        raise ExtensionError(
            reference,
            f"the {kind} {reference} is in a module that has not been imported; if you trust "
            f"{module}, pass --plugin {module}, or in Python import {module} first",
        )
    # Not `getattr`, which can trigger imports in some modules.
    found = vars(home).get(name)
    if not fits(found):
        raise ExtensionError(reference, f"{module} has no {kind} called {name}; check the name")
    _used[module] = None
    return found


def reference_to(thing: Any, home: str = "") -> str | None:
    """Return a reference to an object in an imported module; None if no module holds it.

    Args:
        thing: The object.
        home: Module that most likely holds it.
    """
    for module in dict.fromkeys([home, *_allowed, *_used, *list(sys.modules)]):
        variables = getattr(sys.modules.get(module), "__dict__", {})
        for name, value in list(variables.items()):
            if value is thing and is_reference(f"{module}:{name}"):
                _used[module] = None
                return f"{module}:{name}"
    return None


def plugin_objects(fits: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield all objects of a kind at the top level of plugins and of modules used so far."""
    for installed in _installed():
        _import_installed(installed)
    for module in dict.fromkeys([*_allowed, *_used]):
        if module in sys.modules:
            yield from (value for value in list(vars(sys.modules[module]).values()) if fits(value))


def references_in(plain: Any) -> Iterator[str]:
    """Yield all references in plain data, such as a study."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from references_in(name)
            yield from references_in(value)
    elif isinstance(plain, list | tuple):
        for value in plain:
            yield from references_in(value)
    elif is_reference(plain):
        yield plain


def module_file(module: str) -> Path | None:
    """Return the folder of a module's top-level package, or the file of a single module."""
    top = sys.modules.get(module.partition(".")[0])
    file = getattr(top, "__file__", None)
    if file is None:
        return None
    return Path(file).parent if hasattr(top, "__path__") else Path(file)


def _module(name: str) -> ModuleType | None:
    """Return a module, imported now if the user allowed it; None otherwise."""
    if name not in sys.modules:
        permitted = [*_allowed, *_installed()]
        if any(name == one or name.startswith(f"{one}.") for one in permitted):
            import_plugin(name)
        else:
            # A plugin may import other modules of its package.
            for one in _installed():
                if one.partition(".")[0] == name.partition(".")[0]:
                    _import_installed(one)
    return sys.modules.get(name)


@cache
def _installed() -> tuple[str, ...]:
    """Return the modules of installed plugins."""
    return tuple(dict.fromkeys(point.module for point in entry_points(group=GROUP)))


def _import_installed(module: str) -> None:
    if module not in _allowed:
        import_plugin(module)
