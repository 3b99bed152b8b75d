"""What the recipes of this paper train, read from `studies.yaml`."""

from unweave.papers.catalog import studies_of

__all__ = ["STUDIES"]

STUDIES = studies_of(__package__)["large"]
"""By scale, the study that all recipes share."""
