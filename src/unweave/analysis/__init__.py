"""The five results of the large study, as functions of any study table.

1. `total_correlation`, `total_correlation_trend`: of mean against sampled codes, by strength;
2. `metric_agreement`: how far metrics rank the same models alike;
3. `score_distributions`, `method_wins`, `seed_against_strength`, `variance_explained`: objective
   and strength against the seed;
4. `unsupervised_selection`, `transfer`, `data_agreement`: choosing models and hyperparameters;
5. `downstream_agreement`: accuracy and statistical efficiency of learning from codes.

Each takes a study table, one row per model, and returns a tidy frame that counts the models left
out and whose `.attrs["note"]` says how to read it. `unweave.plots.study_plots` draws them.
"""

from unweave.analysis.correlation import metric_agreement
from unweave.analysis.distributions import method_wins, score_distributions, seed_against_strength
from unweave.analysis.downstream import downstream_agreement
from unweave.analysis.published import (
    Ordering,
    compare_variance,
    order,
    published_variance,
    variance_orderings,
)
from unweave.analysis.selection import unsupervised_selection
from unweave.analysis.total_correlation import total_correlation, total_correlation_trend
from unweave.analysis.transfer import data_agreement, transfer
from unweave.analysis.variance import variance_explained

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
