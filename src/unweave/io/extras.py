"""Import of optional dependencies, which extras install."""

from importlib import import_module
from types import ModuleType

from unweave.errors import UnweaveError

__all__ = ["import_extra"]


def import_extra(module: str, label: str, extra: str, use: str = "") -> ModuleType:
    """Import a module of an optional dependency.

    Args:
        module: Name of the module.
        label: Name of the library, for the error.
        extra: Name of the extra that installs it.
        use: What it is needed for, for the error, such as `"reads cells.ome.tif"`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        need = f"{label}, which {use}," if use else label
        raise UnweaveError(
            f"{need} is not installed; install it with pip install 'unweave[{extra}]'",
            subject=extra,
        ) from error
