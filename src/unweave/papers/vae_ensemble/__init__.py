"""The VAE ensemble: plain VAEs whose codes are mapped onto each other."""

from unweave.papers.catalog import Steps, recipes_of
from unweave.papers.vae_ensemble import (
    ablations,
    alignment,
    beyond,
    curves,
    pictures,
    polarised_regime,
    scores,
)

__all__ = ["RECIPES"]

RECIPES = recipes_of(
    __name__,
    {
        "table-1": Steps(
            obtain=scores.obtain_scores, findings=scores.controls, plot=scores.plot_scores
        ),
        "table-2": Steps(
            extend=scores.extend_within, obtain=scores.obtain_within, plot=scores.plot_within
        ),
        "figure-2": Steps(
            extend=alignment.extend, statistics=alignment.STATISTICS, plot=alignment.plot
        ),
        "figure-3": Steps(
            extend=polarised_regime.extend,
            prepare=polarised_regime.prepare,
            statistics=polarised_regime.STATISTICS,
            plot=polarised_regime.plot,
        ),
        "figure-4": Steps(
            prepare=ablations.prepare, statistics=ablations.STATISTICS, plot=ablations.plot_4
        ),
        "figure-6": Steps(
            extend=curves.extend_6,
            prepare=curves.prepare,
            more=curves.throughout,
            plot=curves.plot_6,
        ),
        "figure-7": Steps(
            extend=curves.extend_7,
            prepare=curves.prepare,
            statistics=curves.STATISTICS,
            plot=curves.plot_7,
        ),
        "figure-8": Steps(
            extend=ablations.extend_8,
            prepare=ablations.prepare,
            statistics=ablations.STATISTICS,
            plot=ablations.plot_8,
        ),
        "figures-9-10": Steps(
            extend=polarised_regime.extend,
            prepare=polarised_regime.prepare,
            statistics=polarised_regime.STATISTICS,
            plot=polarised_regime.plot,
        ),
        "figure-11": Steps(
            extend=pictures.extend_11,
            prepare=pictures.prepare,
            statistics=pictures.STATISTICS,
            plot=pictures.plot,
        ),
        "figures-12-13": Steps(
            extend=pictures.extend_12_13,
            prepare=pictures.prepare,
            statistics=pictures.STATISTICS,
            plot=pictures.plot,
        ),
        "beyond": Steps(
            prepare=beyond.prepare,
            statistics=ablations.STATISTICS,
            more=beyond.slower,
            plot=beyond.plot,
        ),
    },
)
