"""Scores of trained models: encode once, read by every metric, kept beside the run."""

from unweave.evaluation.evaluate import evaluate

__all__ = ["evaluate"]
