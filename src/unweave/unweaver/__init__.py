"""An estimator with scikit-learn's manners: `estimator.py` has it, the others what it needs."""
