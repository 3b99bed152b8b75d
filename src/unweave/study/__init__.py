"""Studies: many models in one table, and what the table says."""

from unweave.study import analysis
from unweave.study.columns import StudyTableError

__all__ = ["StudyTableError", "analysis"]
