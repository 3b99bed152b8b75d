"""The base class of trackers: one tracker run per call, with a series per model and value."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import pandas as pd

from unweave.fleet.callbacks import Callback

__all__ = ["Tracker", "series_name"]


class Tracker(Callback):
    """Base class of trackers.

    NaN is not written, so the series of a diverged model ends where it diverged.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    @abstractmethod
    def open(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        """Begin the series of new models, given their run, method, seed and strengths."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, Mapping[str, float]]) -> None:
        """Write values of a step, by series and name."""

    @abstractmethod
    def close(self, finished: bool) -> None:
        """End all series; `finished` is False if training was interrupted."""

    def on_window(self, table: pd.DataFrame) -> None:
        self._log(table)

    def on_diagnostics(self, table: pd.DataFrame) -> None:
        self._log(table)

    def on_end(self, result: Any) -> None:
        if self._names:  # otherwise nothing was trained
            self._names = {}
            self.close(finished=result is not None)

    def _log(self, table: pd.DataFrame) -> None:
        end = table.columns.get_loc("step")
        new = table.loc[~table["run"].isin(list(self._names))].iloc[:, :end]
        if len(new):
            models = [row.dropna().to_dict() for _, row in new.astype(object).iterrows()]
            names = [series_name(**model) for model in models]
            self._names |= dict(zip(new["run"], names, strict=True))
            self.open(dict(zip(names, models, strict=True)))
        columns = table.columns[end + 1 :].tolist()
        values = {
            self._names[run]: {
                name: value
                for name, value in zip(columns, row, strict=True)
                if value == value  # noqa: PLR0124 - not NaN
            }
            for run, row in zip(
                table["run"], table.iloc[:, end + 1 :].to_numpy(float).tolist(), strict=True
            )
        }
        self.log(int(table["step"].iloc[0]), values)


def series_name(run: str, method: str, seed: int, **strengths: float) -> str:
    """Return a unique name without characters that are special in paths and metric names.

    Example:
        >>> series_name("1cd63c2cb2d8b54c", "beta_vae", 3, beta=0.5)
        'beta_vae-beta0.5-seed3-1cd63c2c'
    """
    values = [f"{name}{value:g}" for name, value in strengths.items()]
    return "-".join([method, *values, f"seed{seed}", run[:8]])
