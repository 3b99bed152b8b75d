"""Pictures of data and models."""

from unweave.show.contact_sheet import contact_sheet
from unweave.show.explorer import explore
from unweave.show.matrices import heat_map, matrices, save_figure
from unweave.show.traversals import traversals

__all__ = ["contact_sheet", "explore", "heat_map", "matrices", "save_figure", "traversals"]
