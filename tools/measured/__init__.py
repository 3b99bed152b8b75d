"""The numbers on pages of methods and metrics, from benchmarks/results."""

from tools.measured.costs import cost_of_method
from tools.measured.methods import scores_of_method
from tools.measured.metrics import known_codes, scores_by_metric

__all__ = ["cost_of_method", "known_codes", "scores_by_metric", "scores_of_method"]
