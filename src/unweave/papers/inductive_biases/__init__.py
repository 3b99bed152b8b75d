"""Inductive biases of VAEs: the supplement, and the main table of the paper."""

from unweave.papers.inductive_biases import figures, studies
from unweave.papers.recipe import recipes_of

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, figures, studies)
