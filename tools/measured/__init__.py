"""Measured numbers on documentation pages, from benchmarks/results."""

from tools.measured.attacks import attacks
from tools.measured.costs import cost_of_method
from tools.measured.methods import scores_of_method
from tools.measured.metrics import known_codes, scores_by_metric

__all__ = ["attacks", "cost_of_method", "known_codes", "scores_by_metric", "scores_of_method"]
