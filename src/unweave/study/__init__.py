"""Studies: grids of runs, their ledger, and what can be read from many models together."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave.study import analysis
    from unweave.study.columns import StudyTableError
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
    "Plan": "planning",
    "Results": "results",
    "Study": "study",
    "StudyFileError": "entries",
    "StudyTableError": "columns",
    "load": "results",
    "plan": "planning",
    "read": "study_file",
    "run": "running",
}


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return import_module("unweave.study.analysis")
    if name in _HOMES:
        return getattr(import_module(f"unweave.study.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
