"""Studies: grids of runs, their ledger, and what can be read from many models together."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave import analysis
    from unweave.analysis.columns import StudyTableError
    from unweave.study.entries import StudyFileError
    from unweave.study.planning import Plan, plan
    from unweave.study.results import Results, load
    from unweave.study.running import run
    from unweave.study.study import Study
    from unweave.study.study_file import read

__all__ = [
    "Plan",
    "Results",
    "Study",
    "StudyFileError",
    "StudyTableError",
    "analysis",
    "load",
    "plan",
    "read",
    "run",
]

_HOMES = {
    "Plan": "unweave.study.planning",
    "Results": "unweave.study.results",
    "Study": "unweave.study.study",
    "StudyFileError": "unweave.study.entries",
    "StudyTableError": "unweave.analysis.columns",
    "load": "unweave.study.results",
    "plan": "unweave.study.planning",
    "read": "unweave.study.study_file",
    "run": "unweave.study.running",
}


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return import_module("unweave.analysis")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
