"""Challenging Common Assumptions: six methods, six strengths, 50 seeds, seven data sets."""

from unweave.papers.catalog import Steps, recipes_of
from unweave.papers.common_assumptions import figures, results

__all__ = ["RECIPES"]

RECIPES = recipes_of(
    __name__,
    {
        "total-correlation": Steps(
            obtain=results.total_correlation, plot=figures.total_correlation
        ),
        "metric-agreement": Steps(obtain=results.metric_agreement, plot=figures.metric_agreement),
        "method-overlap": Steps(obtain=results.method_overlap, plot=figures.scores),
        "seed-against-strength": Steps(obtain=results.seed_against_strength, plot=figures.scores),
        "variance-explained": Steps(
            published=results.published_variance,
            obtain=results.variance_explained,
            plot=figures.variance_explained,
        ),
        "choice-rules": Steps(obtain=results.choice_rules, plot=figures.scores),
        "unsupervised-selection": Steps(
            obtain=results.unsupervised_selection, plot=figures.unsupervised_selection
        ),
        "data-agreement": Steps(obtain=results.data_agreement, plot=figures.data_agreement),
        "transfer": Steps(
            published=results.published_transfer, obtain=results.transfer, plot=figures.transfer
        ),
        "downstream-agreement": Steps(
            obtain=results.downstream_agreement, plot=figures.downstream_agreement
        ),
        "downstream-efficiency": Steps(
            obtain=results.downstream_efficiency, plot=figures.downstream_efficiency
        ),
    },
)
