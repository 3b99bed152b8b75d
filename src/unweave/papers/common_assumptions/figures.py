"""The figures of this paper, drawn from a study table."""

from pathlib import Path

import pandas as pd

from unweave.papers.common_assumptions.results import EFFICIENCY, METRICS, SCORES, on

__all__ = [
    "data_agreement",
    "downstream_agreement",
    "downstream_efficiency",
    "metric_agreement",
    "scores",
    "total_correlation",
    "transfer",
    "unsupervised_selection",
    "variance_explained",
]


def total_correlation(table: pd.DataFrame, path: Path) -> None:
    """Total correlation by strength, a panel per method."""
    from unweave import analysis
    from unweave.plots import study_plots

    found = analysis.total_correlation(on(table, "color_dsprites"))
    study_plots.total_correlation(found, path)


def metric_agreement(table: pd.DataFrame, path: Path) -> None:
    """A panel of rank correlations per data set."""
    from unweave import analysis
    from unweave.plots import study_plots

    found = analysis.metric_agreement(on(table, "noisy_dsprites"), METRICS)
    study_plots.metric_agreement(found, path)


def scores(table: pd.DataFrame, path: Path) -> None:
    """Violins of the FactorVAE score by method and by strength."""
    from unweave.plots import study_plots

    study_plots.score_distributions(on(table, "cars3d"), "factor_vae", path)


def variance_explained(table: pd.DataFrame, path: Path) -> None:
    """R² of every metric and data set, a panel per grouping."""
    from unweave import analysis
    from unweave.plots import study_plots

    study_plots.variance_explained(analysis.variance_explained(table, METRICS), path)


def unsupervised_selection(table: pd.DataFrame, path: Path) -> None:
    """A panel of rank correlations per data set."""
    from unweave import analysis
    from unweave.plots import study_plots

    found = analysis.unsupervised_selection(table, list(SCORES), METRICS)
    study_plots.unsupervised_selection(found, path)


def data_agreement(table: pd.DataFrame, path: Path) -> None:
    """A panel of rank correlations between data sets per metric."""
    from unweave import analysis
    from unweave.plots import study_plots

    study_plots.data_agreement(analysis.data_agreement(table, METRICS), path)


def transfer(table: pd.DataFrame, path: Path) -> None:
    """Bars with the published numbers and chance."""
    from unweave import analysis
    from unweave.plots import study_plots

    study_plots.transfer(analysis.transfer(table, METRICS), path)


def downstream_agreement(table: pd.DataFrame, path: Path) -> None:
    """A panel of rank correlations, accuracies and efficiencies."""
    from unweave import analysis
    from unweave.plots import study_plots

    found = analysis.downstream_agreement(on(table, "dsprites"), metrics=METRICS)
    study_plots.downstream_agreement(found, path)


def downstream_efficiency(table: pd.DataFrame, path: Path) -> None:
    """Efficiency against the FactorVAE score, a point per model."""
    from unweave.plots.plot import SMALL, TEXT, panels

    figure, axes = panels(1, 1, (4.5, 3.5))
    panel = axes[0, 0]
    for data, rows in on(table, "dsprites").groupby("data", sort=False):
        panel.scatter(rows["factor_vae"], rows[EFFICIENCY], s=8, alpha=0.6, label=data)
    panel.set_xlabel("FactorVAE score", fontsize=TEXT)
    panel.set_ylabel("accuracy from 100 rows / from 10,000 (trees)", fontsize=TEXT)
    panel.legend(fontsize=SMALL, frameon=False)
    figure.save(path)
