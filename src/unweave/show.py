"""All figures, the report and the explorer in one namespace."""

from typing import TYPE_CHECKING, Any

from unweave import plots
from unweave.explorer import explore
from unweave.report import report

if TYPE_CHECKING:
    from unweave.plots import *  # noqa: F403 - re-exported

__all__ = [*plots.__all__, "explore", "report"]  # noqa: PLE0604 - re-exported


def __getattr__(name: str) -> Any:
    return getattr(plots, name)


def __dir__() -> list[str]:
    return sorted(__all__)
