"""MS-VAE: a second stage adds what a disentangled first stage blurs."""

from unweave.papers.catalog import Steps, recipes_of
from unweave.papers.ms_vae import (
    ablations,
    conditioning,
    flow,
    gan,
    pendulum,
    pictures,
    quality,
    separation,
    sizes,
)
from unweave.papers.ms_vae.stages import arranged, measured, predicted

__all__ = ["RECIPES"]

RECIPES = recipes_of(
    __name__,
    {
        "table-1": Steps(obtain=quality.obtain_table_1, plot=quality.plot_4),
        "tables-2-3": Steps(
            obtain=separation.obtained, findings=separation.products, plot=separation.plot
        ),
        "figures-1-and-3": Steps(extend=pictures.extend_1_and_3, plot=pictures.plot_1_and_3),
        "figure-4": Steps(prepare=arranged, statistics=quality.STATISTICS, plot=quality.plot_4),
        "figure-5": Steps(
            extend=measured, statistics=conditioning.STATISTICS, plot=conditioning.plot_5
        ),
        "figure-6": Steps(
            extend=predicted, statistics=conditioning.STATISTICS, plot=conditioning.plot_6
        ),
        "figure-7": Steps(extend=sizes.extend_7, more=sizes.ranks_of_c, plot=sizes.plot_7),
        "figure-8": Steps(extend=sizes.extend_8, more=sizes.ranks_of_z, plot=sizes.plot_8),
        "figures-9-12": Steps(
            extend=sizes.extend_9_12, statistics=sizes.STATISTICS, plot=sizes.plot_9_12
        ),
        "figures-13-14": Steps(
            extend=pictures.extend_13_14, obtain=pictures.obtain_13_14, plot=pictures.plot_13_14
        ),
        "figures-15-16": Steps(make=pendulum.make, obtain=pendulum.obtain, plot=pendulum.plot),
        "figures-18-20": Steps(make=flow.make, obtain=flow.obtain, plot=flow.plot),
        "figures-21-31": Steps(extend=gan.extend, plot=gan.plot),
        "figures-32-33": Steps(extend=pictures.extend_32_33, plot=pictures.plot_32_33),
        "figures-34-35": Steps(
            prepare=arranged, statistics=quality.STATISTICS, plot=quality.plot_34_35
        ),
        "figures-37-40": Steps(
            extend=ablations.extend, statistics=ablations.STATISTICS, plot=ablations.plot
        ),
    },
)
