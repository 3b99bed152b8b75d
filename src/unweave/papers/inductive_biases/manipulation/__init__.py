"""Small image changes that preserve every factor but entangle variational methods."""

from unweave.papers.inductive_biases.manipulation.directions import turn_directions
from unweave.papers.inductive_biases.manipulation.figures import (
    line_search,
    show_gaps,
    show_histogram,
    show_line_search,
)
from unweave.papers.inductive_biases.manipulation.images import with_noise
from unweave.papers.inductive_biases.manipulation.manipulation import Manipulation
from unweave.papers.inductive_biases.manipulation.measure import (
    active_by_noise,
    change_sizes,
    factor_accuracies,
    factor_gaps,
    over_pruned,
    show_changes,
)
from unweave.papers.inductive_biases.manipulation.pairs import exemplars, manipulate

__all__ = [
    "Manipulation",
    "active_by_noise",
    "change_sizes",
    "exemplars",
    "factor_accuracies",
    "factor_gaps",
    "line_search",
    "manipulate",
    "over_pruned",
    "show_changes",
    "show_gaps",
    "show_histogram",
    "show_line_search",
    "turn_directions",
    "with_noise",
]
