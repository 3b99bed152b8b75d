"""Challenging Common Assumptions: 6 methods × 6 strengths × 50 seeds × 7 data sets."""

from unweave.papers.common_assumptions import results
from unweave.papers.recipe import recipes_of

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, results)
