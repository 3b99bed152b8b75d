"""Fitting of images: train many models in rounds, choose one without labels, and judge it."""

from unweave.fitting.baselines import Baselines, baselines
from unweave.fitting.fit import MIN_IMAGES, Fit, fit
from unweave.fitting.plan import MANIFEST, MINUTES, FitError, Plan
from unweave.fitting.verdict import Verdict, read_verdict

__all__ = [
    "MANIFEST",
    "MINUTES",
    "MIN_IMAGES",
    "Baselines",
    "Fit",
    "FitError",
    "Plan",
    "Verdict",
    "baselines",
    "fit",
    "read_verdict",
]
