"""Pictures of data, models and results, each saved with `.save(path)`; and pages about them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unweave.show.activity import activity
from unweave.show.animation import Animation, animate
from unweave.show.contact_sheet import contact_sheet
from unweave.show.explorer import explore
from unweave.show.exponents import exponents
from unweave.show.look import followed_factors
from unweave.show.matrices import heat_map, matrices
from unweave.show.members import members
from unweave.show.pairwise import pairwise
from unweave.show.polarised import polarised
from unweave.show.position import position_maps
from unweave.show.prior_contours import prior_contours
from unweave.show.reconstructions import reconstructions, samples
from unweave.show.report import report
from unweave.show.saving import save_figure
from unweave.show.stages import stage_traversals, stages, swaps
from unweave.show.subspaces import subspaces
from unweave.show.training import kl_over_training, training
from unweave.show.traversals import traversals

if TYPE_CHECKING:
    from unweave.show import study_plots
    from unweave.show.two_scores import trade_off

__all__ = [
    "Animation",
    "activity",
    "animate",
    "contact_sheet",
    "explore",
    "exponents",
    "followed_factors",
    "heat_map",
    "kl_over_training",
    "matrices",
    "members",
    "pairwise",
    "polarised",
    "position_maps",
    "prior_contours",
    "reconstructions",
    "report",
    "samples",
    "save_figure",
    "stage_traversals",
    "stages",
    "study_plots",
    "subspaces",
    "swaps",
    "trade_off",
    "training",
    "traversals",
]


def __getattr__(name: str) -> Any:
    # Plots of studies import studies, which whoever draws a model need not wait for.
    if name == "study_plots":
        return import_module("unweave.show.study_plots")
    if name == "trade_off":
        return import_module("unweave.show.two_scores").trade_off
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
