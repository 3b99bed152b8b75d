"""Inductive biases of VAEs: the supplement, and the main table of the paper."""

from functools import partial

from unweave.papers.catalog import Steps, recipes_of
from unweave.papers.inductive_biases import scores, shapes3d
from unweave.papers.inductive_biases.studies import examples, trained

__all__ = ["RECIPES"]


def _table(slug: str, metric: str) -> Steps:
    return Steps(
        make=trained,
        obtain=partial(scores.obtain, slug, metric),
        findings=scores.changes,
        plot=partial(scores.plot, metric),
    )


RECIPES = recipes_of(
    __name__,
    {
        "main-table-1": _table("main-table-1", "mig"),
        "table-2": _table("table-2", "dci"),
        "table-3": _table("table-3", "factor_vae"),
        "table-4": _table("table-4", "sap"),
        "figure-2": Steps(make=trained, obtain=shapes3d.obtain_2, plot=shapes3d.plot_2),
        "figure-3": Steps(make=trained, obtain=shapes3d.obtain_3, plot=shapes3d.plot_3),
        "figures-4-6": Steps(make=trained, obtain=shapes3d.obtain_4_6, plot=shapes3d.plot_4_6),
        "figures-7-8": Steps(make=examples, prepare=shapes3d.prepare_7_8, plot=shapes3d.plot_7_8),
    },
)
