"""Fleets of disentangling generative models: train, score, select, show.

    import unweave as uw

    data = uw.data.load("dsprites")

Rooms are imported when they are first used, so that importing unweave is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave import data, show

__version__ = "0.1.0.dev0"
__all__ = ["__version__", "data", "show"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"unweave.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
