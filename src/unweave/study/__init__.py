"""Studies: grids of runs, their ledger, and what can be read from many models together."""

from unweave.study import analysis
from unweave.study.columns import StudyTableError

__all__ = ["StudyTableError", "analysis"]
