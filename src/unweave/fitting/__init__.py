"""Fitting of images: train many models in rounds, choose one without labels, and judge it."""

from unweave.fitting.api import MIN_IMAGES, fit
from unweave.fitting.baselines import Baselines
from unweave.fitting.plan import MANIFEST, MINUTES, FitError, Plan
from unweave.fitting.portfolio import FIXED_PRECISION, RATE, SEEDS
from unweave.fitting.result import Fit, choose
from unweave.fitting.verdict import Verdict, read_verdict

__all__ = [
    "FIXED_PRECISION",
    "MANIFEST",
    "MINUTES",
    "MIN_IMAGES",
    "RATE",
    "SEEDS",
    "Baselines",
    "Fit",
    "FitError",
    "Plan",
    "Verdict",
    "choose",
    "fit",
    "read_verdict",
]
