"""Unsupervised Disentanglement Ranking: model selection without labels."""

from unweave.papers.recipe import recipes_of
from unweave.papers.udr import ranking

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, ranking)
