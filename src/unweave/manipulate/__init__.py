"""Small changes of images that keep every factor and yet make variational methods entangle."""

from unweave.manipulate.classifier import factor_accuracies
from unweave.manipulate.directions import turn_directions
from unweave.manipulate.exemplars import exemplars
from unweave.manipulate.figures import (
    line_search,
    show_gaps,
    show_histogram,
    show_line_search,
)
from unweave.manipulate.images import with_noise
from unweave.manipulate.manipulation import Manipulation
from unweave.manipulate.measure import (
    active_by_noise,
    change_sizes,
    factor_gaps,
    over_pruned,
    show_changes,
)
from unweave.manipulate.training import manipulate

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
