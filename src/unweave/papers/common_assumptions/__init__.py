"""Challenging Common Assumptions: six methods, six strengths, 50 seeds, seven data sets."""

from unweave.papers.common_assumptions.downstream import (
    DOWNSTREAM_AGREEMENT,
    DOWNSTREAM_EFFICIENCY,
)
from unweave.papers.common_assumptions.metric_agreement import METRIC_AGREEMENT
from unweave.papers.common_assumptions.scores import (
    CHOICE_RULES,
    METHOD_OVERLAP,
    SEED_AGAINST_STRENGTH,
)
from unweave.papers.common_assumptions.selection import UNSUPERVISED_SELECTION
from unweave.papers.common_assumptions.total_correlation import TOTAL_CORRELATION
from unweave.papers.common_assumptions.transfer import DATA_AGREEMENT, TRANSFER
from unweave.papers.common_assumptions.variance_explained import VARIANCE_EXPLAINED

__all__ = ["RECIPES"]

RECIPES = (
    TOTAL_CORRELATION,
    METRIC_AGREEMENT,
    METHOD_OVERLAP,
    SEED_AGAINST_STRENGTH,
    VARIANCE_EXPLAINED,
    CHOICE_RULES,
    UNSUPERVISED_SELECTION,
    DATA_AGREEMENT,
    TRANSFER,
    DOWNSTREAM_AGREEMENT,
    DOWNSTREAM_EFFICIENCY,
)
