"""Choosing models, with or without labels: rankings with reasons, and what models agree on."""

from unweave.select.latents import Latents, SelectionError
from unweave.select.udr import UDRScores, udr, udr_scores

__all__ = ["Latents", "SelectionError", "UDRScores", "udr", "udr_scores"]
