"""What the recipes of this paper train, read from `studies.yaml`."""

from unweave.papers.catalog import data_file

__all__ = ["STUDIES"]

STUDIES = data_file(__package__, "studies.yaml")["studies"]["large"]
"""By scale, the study that all recipes share."""
