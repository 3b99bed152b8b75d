"""Unsupervised Disentanglement Ranking: choosing models that others resemble."""

from unweave.papers.udr.ranking import RANKING

__all__ = ["RECIPES"]

RECIPES = (RANKING,)
