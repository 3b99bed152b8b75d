"""Unsupervised Disentanglement Ranking: choosing models that others resemble."""

from unweave.papers.catalog import Steps, recipes_of
from unweave.papers.udr.ranking import extend, obtain, plot

__all__ = ["RECIPES"]

RECIPES = recipes_of(__name__, {"ranking": Steps(extend=extend, obtain=obtain, plot=plot)})
