"""Studies: grids of training runs, their execution, and their results.

definition   `study`, its data sets in `sources`, its methods in `method_grids`
plan         `planning`
folder       `store`, for one run `run_folder`, at a URL `remote`
ledger       `ledger`, its file in `ledger_file`, active processes in `workers`
execution    `running`: in this process `local`, on a cluster `on_ray`; `training`, `scoring`
results      `results`; `checking` verifies and repairs a study folder
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unweave import analysis
    from unweave.analysis.study_table import StudyTableError
    from unweave.study.method_grids import StudyFileError
    from unweave.study.planning import Plan, plan
    from unweave.study.results import Results, load
    from unweave.study.running import run
    from unweave.study.study import Study, read

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
    "StudyFileError": "unweave.study.method_grids",
    "StudyTableError": "unweave.analysis.study_table",
    "load": "unweave.study.results",
    "plan": "unweave.study.planning",
    "read": "unweave.study.study",
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
