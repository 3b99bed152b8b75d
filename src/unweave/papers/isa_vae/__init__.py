"""ISA-VAE: a prior of independent subspaces."""

from unweave.papers.catalog import Steps, recipes_of
from unweave.papers.isa_vae import biases, components, exponents, pictures, trade_off

__all__ = ["RECIPES"]

RECIPES = recipes_of(
    __name__,
    {
        "figure-1": Steps(obtain=components.obtain, plot=components.plot),
        "figure-3": Steps(prepare=pictures.costs, plot=pictures.plot_costs),
        "figure-5a": Steps(prepare=trade_off.score_of, plot=trade_off.plot_distribution),
        "figure-5b": Steps(
            prepare=trade_off.score_of, more=trade_off.wins, plot=trade_off.plot_trade_off
        ),
        "figure-5c": Steps(
            prepare=trade_off.score_of,
            statistics=trade_off.STATISTICS,
            plot=trade_off.plot_trade_off,
        ),
        "figure-6": Steps(
            prepare=trade_off.score_of,
            statistics=trade_off.STATISTICS,
            plot=trade_off.plot_trade_off,
        ),
        "figure-7": Steps(obtain=exponents.obtain, plot=exponents.plot),
        "figures-8-16": Steps(
            extend=pictures.extend,
            prepare=pictures.prepare,
            statistics=pictures.STATISTICS,
            plot=pictures.plot,
        ),
        "appendix-b": Steps(obtain=biases.obtained_free_energy, plot=biases.plot_rotation),
        "appendix-b4-b5": Steps(
            obtain=biases.obtained_factor_analysis, plot=biases.plot_effect_of_beta
        ),
    },
)
