"""Unsupervised Disentanglement Ranking: choosing models that others resemble."""

from unweave.recipes.udr.ranking import RANKING

__all__ = ["RECIPES"]

RECIPES = (RANKING,)
