"""Shared computations of metrics: bins, groups of rows, predictors, confidence intervals."""
