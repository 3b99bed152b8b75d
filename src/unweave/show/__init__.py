"""Pictures of data and models, and the page that tells of a study."""

from unweave.show.contact_sheet import contact_sheet
from unweave.show.matrices import heat_map, matrices, save_figure
from unweave.show.report import report
from unweave.show.traversals import traversals

__all__ = ["contact_sheet", "heat_map", "matrices", "report", "save_figure", "traversals"]
