"""An estimator with scikit-learn's manners: `estimator.py` has it, the others what it needs."""

from unweave.estimator.unweaver import Unweaver

__all__ = ["Unweaver"]
