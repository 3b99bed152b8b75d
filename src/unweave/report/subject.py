"""What a report is about: the table, models and data of a study, of runs, or of a fleet."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.origin import origin_of, rebuild
from unweave.data.origin_steps import apply_steps
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.models.files import BEST, UNREADABLE
from unweave.models.finding import Models, Run, find_runs
from unweave.models.model import Fleet, Model, load
from unweave.report.labels import data_names
from unweave.report.saved_runs import (
    DIVERGED,
    TRAINED,
    fate,
    last_losses,
    order,
    scores_of,
    whole_config,
)
from unweave.study.remote import is_url
from unweave.study.results import Results, table_of
from unweave.study.results import load as load_study
from unweave.study.store import STUDY

__all__ = ["Given", "opened"]

ABOUT = ("run", "data", "method", "strength", "seed", "steps", "state")
"""Columns of a study table that are neither settings nor numbers."""


@dataclass(frozen=True, eq=False)
class Given:
    """What was given, whatever it is.

    Args:
        title: The heading.
        kind: `"study"`, `"runs"` or `"fleet"`.
        place: Where it is, as the user said it; empty for a fleet.
        table: A study table: one row per trained model.
        configs: The settings of every run of the table, as plain data.
        model: Opens the model of a run.
        data: Opens the data set of an origin.
        folders: Where each model is, as the user would say it.
        trouble: Of runs about which something is to be said: `run`, `state`, `error`.
        waiting: How many runs are in each state that has no row in the table yet.
        best: The run that somebody chose before, where there is one.
        study: What the study's file says, where it is a study.
        command: What made all this, where the caller knows.
    """

    title: str
    kind: str
    place: str
    table: pd.DataFrame
    configs: Mapping[str, Mapping[str, Any]]
    model: Callable[[str], Model]
    data: Callable[[Sequence[Any]], Dataset]
    folders: Mapping[str, Path] = field(default_factory=dict)
    trouble: Sequence[tuple[str, str, str]] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    best: str | None = None
    study: Mapping[str, Any] | None = None
    command: str | None = None


def opened(
    source: Models,
    data: Dataset | str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    scores: pd.DataFrame | None = None,
    title: str | None = None,
) -> Given:
    """Open a study, runs or a fleet; arguments as for `report`."""
    images = _Images(data, dict(options or {}))
    if isinstance(source, Fleet):
        return _of_fleet(source, images, scores, title)
    if scores is not None:
        raise UnweaveError("scores are given for a fleet in memory; those of runs lie beside them")
    if isinstance(source, Results):
        return _of_study(source, images, title)
    if isinstance(source, str | Path) and (is_url(source) or (Path(source) / STUDY).is_file()):
        return _of_study(load_study(source), images, title)
    return _of_runs(source, images, title)


class _Images:
    """Opens data sets: the one given, or those that models remember.

    Args:
        given: A data set, or where it is.
        options: How it is loaded.
    """

    def __init__(self, given: Dataset | str | Path | None, options: Mapping[str, Any]) -> None:
        if given is None and options:
            raise UnweaveError(
                f"{', '.join(options)} say how data are loaded; name the data as well"
            )
        path = isinstance(given, str | Path)
        self.given = load_data(str(given), **options) if path else given

    def open(self, origin: Sequence[Any]) -> Dataset:
        """The data set of an origin."""
        return rebuild(origin) if self.given is None else self._changed(self.given, origin)

    @staticmethod
    def _changed(given: Any, origin: Sequence[Any]) -> Dataset:
        """The data set given, or what it was made into, where that is what is asked for."""
        made = origin_of(given)
        if origin and origin_text(made[:1]) == origin_text(origin[:1]) and len(made) == 1:
            return apply_steps(given, origin[1:])
        return given


def _of_study(results: Results, images: _Images, title: str | None) -> Given:
    store, table = results.store, results.table
    runs = table["run"].tolist()

    def model(run: str) -> Model:
        store.bring([run])
        return load(store.runs / run)

    configs = {run: whole_config(plain) for run, plain in store.ledger.configs(runs).items()}
    failures = results.failures
    waiting = {state: n for state, n in results.counts.items() if n}
    for state, count in table["state"].value_counts().items():
        waiting[str(state)] = waiting.get(str(state), 0) - int(count)
    return Given(
        title or store.study.name,
        "study",
        store.place,
        table,
        configs,
        model,
        images.open,
        {run: store.runs / run for run in runs},
        [(str(r), str(s), str(e)) for r, s, e in failures.itertuples(index=False)],
        {state: n for state, n in waiting.items() if n > 0},
        _best([Run(store.folder / BEST, best=True)], configs),
        store.study.to_dict(),
    )


def _of_runs(source: Models, images: _Images, title: str | None) -> Given:
    found = find_runs(source)
    where = _named([run for run in found if not run.best] or found)
    rows, trouble, configs = [], [], {}
    for name, run in where.items():
        try:
            config = whole_config(run.settings)
            state, losses = fate(run)
            scores, errors = scores_of(run.folder, origin_text(config["data"]))
        except (*UNREADABLE, UnweaveError) as error:
            trouble.append((name, "damaged", f"its folder cannot be read: {error}"))
            continue
        rows.append((name, state, config, {**losses, **scores}))
        configs[name] = config
        trouble += [(name, state, error) for error in errors]
    if not rows:
        raise UnweaveError(
            f"none of the {len(where)} runs in {source} can be read: {trouble[0][2]}"
        )
    rows.sort(key=lambda row: order(row[2]))
    names = data_names([config["data"] for config in configs.values()])
    place = source if isinstance(source, str | Path) else None
    return Given(
        title or (f"{len(where)} models" if place is None else Path(place).resolve().name),
        "runs",
        "" if place is None else str(place),
        table_of(rows, names),
        configs,
        lambda name: where[name].open(),
        images.open,
        {name: run.folder for name, run in where.items() if run.folder is not None},
        trouble,
        best=_best(found, configs),
    )


def _named(runs: Sequence[Run]) -> dict[str, Run]:
    """Runs by the names of their folders, or by their paths where two have one name."""
    named: dict[str, Run] = {}
    for run in runs:
        folder = run.folder
        name = run.config.hash if folder is None else folder.resolve().name
        named[str(folder) if name in named else name] = run
    return named


def _of_fleet(
    fleet: Fleet, images: _Images, scores: pd.DataFrame | None, title: str | None
) -> Given:
    configs = {config.hash: config.to_dict() for config in fleet.configs}
    places = {config.hash: k for k, config in enumerate(fleet.configs)}
    measured: Mapping[str, Mapping[str, float]] = {}
    if scores is not None:
        if "run" not in scores:
            raise UnweaveError("scores need a column 'run', as in the table of uw.evaluate")
        settings = {name for config in configs.values() for name in config["method"]}
        latest = scores.drop_duplicates("run", keep="last")
        numbers = latest.drop(columns=[*ABOUT[1:], *settings], errors="ignore")
        measured = numbers.set_index("run").select_dtypes("number").to_dict("index")
        if not set(measured) & set(configs):
            raise UnweaveError("these scores are of other models; give those of this fleet")
    curves = dict(iter(fleet.curve.groupby("run")))
    rows = [
        (
            run,
            DIVERGED if fleet.diverged_at[places[run]] >= 0 else TRAINED,
            config,
            {**last_losses(curves.get(run)), **measured.get(run, {})},
        )
        for run, config in configs.items()
    ]
    names = data_names([config["data"] for config in configs.values()])
    return Given(
        title or f"{len(fleet)} models",
        "fleet",
        "",
        table_of(rows, names),
        configs,
        lambda run: fleet[places[run]],
        images.open,
    )


def _best(found: Sequence[Run], configs: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The run of which there is a copy in `best`."""
    for run in found:
        if run.best:
            with suppress(*UNREADABLE, UnweaveError):
                chosen = whole_config(run.settings)
                return next((name for name, own in configs.items() if own == chosen), None)
    return None
