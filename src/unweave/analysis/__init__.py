"""The five results of the large study, as functions of any study table.

1. `total_correlation`, `total_correlation_trend`: mean and sampled codes, by strength;
2. `metric_agreement`: whether metrics rank the same models alike;
3. `score_distributions`, `method_wins`, `seed_against_strength`, `variance_explained`: objective
   and strength compared with the seed;
4. `unsupervised_selection`, `transfer`, `data_agreement`: choosing models and hyperparameters;
5. `downstream_agreement`: accuracy and statistical efficiency of downstream tasks.

Each function takes a study table with one row per model and returns a tidy frame, which counts the
models left out. `.attrs["note"]` explains how to read it. `unweave.plots.study_plots` plots them.
"""

from unweave.analysis.correlation import (
    downstream_agreement,
    metric_agreement,
    unsupervised_selection,
)
from unweave.analysis.distributions import method_wins, score_distributions, seed_against_strength
from unweave.analysis.total_correlation import total_correlation, total_correlation_trend
from unweave.analysis.transfer import data_agreement, transfer
from unweave.analysis.variance import (
    Ordering,
    compare_variance,
    order,
    published_variance,
    variance_explained,
    variance_orderings,
)

__all__ = [
    "Ordering",
    "compare_variance",
    "data_agreement",
    "downstream_agreement",
    "method_wins",
    "metric_agreement",
    "order",
    "published_variance",
    "score_distributions",
    "seed_against_strength",
    "total_correlation",
    "total_correlation_trend",
    "transfer",
    "unsupervised_selection",
    "variance_explained",
    "variance_orderings",
]
