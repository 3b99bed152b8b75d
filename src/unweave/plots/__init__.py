"""Plots of data, models and results; save any of them with `.save(path)`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unweave.plots.activity import activity, polarised
from unweave.plots.animation import Animation, animate
from unweave.plots.contact_sheet import contact_sheet
from unweave.plots.drawn_codes import followed_factors
from unweave.plots.exponents import exponents
from unweave.plots.matrices import heat_map, matrices
from unweave.plots.members import members
from unweave.plots.pairwise import pairwise
from unweave.plots.position import position_maps
from unweave.plots.prior_contours import prior_contours
from unweave.plots.reconstructions import reconstructions, samples
from unweave.plots.saving import save_figure
from unweave.plots.stages import stage_traversals, stages, swaps
from unweave.plots.subspaces import subspaces
from unweave.plots.training import kl_over_training, training
from unweave.plots.traversals import traversals

if TYPE_CHECKING:
    from unweave.plots import study_plots
    from unweave.plots.two_scores import trade_off

__all__ = [
    "Animation",
    "activity",
    "animate",
    "contact_sheet",
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
    # Study plots import the study package, which is slow and not needed to plot a model.
    if name == "study_plots":
        return import_module("unweave.plots.study_plots")
    if name == "trade_off":
        return import_module("unweave.plots.two_scores").trade_off
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
