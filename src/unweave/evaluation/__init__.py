"""Evaluation of trained models: encode once, compute all metrics, cache the scores."""

from unweave.evaluation.evaluate import evaluate

__all__ = ["evaluate"]
