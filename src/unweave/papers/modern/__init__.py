"""Recent methods, compared by InfoMEC, DCI and MIG."""

from unweave.papers.modern import comparison
from unweave.papers.recipe import recipes_of

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, comparison)
