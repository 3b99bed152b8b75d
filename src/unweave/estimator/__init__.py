"""The scikit-learn estimator `uw.Unweaver`."""

from unweave.estimator.unweaver import Unweaver

__all__ = ["Unweaver"]
