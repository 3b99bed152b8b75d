"""Subject of a report: the table, models and data of a study, saved runs or a fleet."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.origin import apply_steps, origin_of, rebuild
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.fitting.verdict import Verdict, read_verdict
from unweave.models.files import BEST, UNREADABLE, last_losses
from unweave.models.finding import Models, Run, find_runs
from unweave.models.model import Fleet, Model, load
from unweave.models.names import names_folder
from unweave.report.labels import data_names
from unweave.report.saved_runs import order, scores_of, state_of, whole_config
from unweave.study.remote import is_url
from unweave.study.results import Results, table_of
from unweave.study.results import load as load_study
from unweave.study.store import STUDY

__all__ = ["Given", "opened"]

Images: TypeAlias = Callable[[Sequence[Any]], Dataset]
"""Function that loads the data set of an origin."""
ABOUT = ("run", "data", "method", "strength", "seed", "steps", "state")
"""Columns of a study table that are neither settings nor numbers."""


@dataclass(frozen=True, eq=False)
class Given:
    """Subject of a report, independent of its kind."""

    title: str  # heading
    kind: str  # `"study"`, `"runs"` or `"fleet"`
    place: str  # path or address as the user gave it; empty for a fleet
    table: pd.DataFrame  # study table with one row per trained model
    configs: Mapping[str, Mapping[str, Any]]  # settings of every run in the table, as plain data
    model: Callable[[str], Model]  # function that loads the model of a run
    data: Images  # function that loads the data set of an origin
    folders: Mapping[str, Path] = field(default_factory=dict)  # folder of each model
    trouble: Sequence[tuple[str, str, str]] = ()  # problems with runs: `run`, `state`, `error`
    # Number of unfinished runs by state, which have no row in the table yet.
    waiting: Mapping[str, int] = field(default_factory=dict)
    best: str | None = None  # run that was chosen earlier, if any
    study: Mapping[str, Any] | None = None  # contents of the study file, if it is a study
    command: str | None = None  # command that produced the models, if known
    verdict: Verdict | None = None  # how far to trust them, if they are a fit
    names: Callable[[str], Mapping[int, str]] | None = None  # recorded names of latents of a run

    def latent_names(self, run: str) -> Mapping[int, str]:
        """Return the names of latents of a run; none if they cannot be read."""
        with suppress(UnweaveError):
            return {} if self.names is None else self.names(run)
        return {}


def opened(
    source: Models,
    data: Dataset | str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    scores: pd.DataFrame | None = None,
    title: str | None = None,
) -> Given:
    """Load a study, runs or a fleet; arguments as for `report`."""
    images = _images(data, dict(options or {}))
    if isinstance(source, Fleet):
        return _of_fleet(source, images, scores, title)
    if scores is not None:
        raise UnweaveError(
            "scores can only be set for a fleet in memory; saved runs have their own scores",
            subject="scores",
        )
    if isinstance(source, Results):
        return _of_study(source, images, title)
    if isinstance(source, str | Path) and (is_url(source) or (Path(source) / STUDY).is_file()):
        return _of_study(load_study(source), images, title)
    return _of_runs(source, images, title)


def _images(data: Dataset | str | Path | None, options: Mapping[str, Any]) -> Images:
    """Return a function that loads the data of an origin, or the given data instead."""
    if data is None:
        if options:
            raise UnweaveError(
                f"data must be set to use the loading options {', '.join(options)}",
                subject="options",
                value=dict(options),
            )
        return rebuild
    given: Any = load_data(str(data), **options) if isinstance(data, str | Path) else data
    made = origin_of(given)

    def changed(origin: Sequence[Any]) -> Dataset:
        """Return the given data, with the steps of the origin applied if the source matches."""
        if origin and origin_text(made[:1]) == origin_text(origin[:1]) and len(made) == 1:
            return apply_steps(given, origin[1:])
        return given

    return changed


def _of_study(results: Results, images: Images, title: str | None) -> Given:
    store, table = results.store, results.table
    runs = table["run"].tolist()

    def model(run: str) -> Model:
        store.download([run])
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
        images,
        {run: store.runs / run for run in runs},
        [(str(r), str(s), str(e)) for r, s, e in failures.itertuples(index=False)],
        {state: n for state, n in waiting.items() if n > 0},
        _best([Run(store.folder / BEST, best=True)], configs),
        store.study.to_dict(),
    )


def _of_runs(source: Models, images: Images, title: str | None) -> Given:
    found = find_runs(source)
    named = _named([run for run in found if not run.best] or found)
    rows, trouble, configs = [], [], {}
    for name, run in named.items():
        try:
            config = whole_config(run.settings)
            state, losses = state_of(run.diverged_at), last_losses(run.curve)
            scores, errors = scores_of(run.folder, origin_text(config["data"]))
        except (*UNREADABLE, UnweaveError) as error:
            trouble.append((name, "damaged", f"cannot read its folder: {error}"))
            continue
        rows.append((name, state, config, {**losses, **scores}))
        configs[name] = config
        trouble += [(name, state, error) for error in errors]
    if not rows:
        raise UnweaveError(
            f"cannot read any of the {len(named)} runs in {source}: {trouble[0][2]}",
            subject="source",
            value=source,
        )
    rows.sort(key=lambda row: order(row[2]))
    names = data_names([config["data"] for config in configs.values()])
    place = source if isinstance(source, str | Path) else None
    trouble += _names_trouble({name: named[name] for name in configs})
    return Given(
        title or (f"{len(named)} models" if place is None else Path(place).resolve().name),
        "runs",
        "" if place is None else str(place),
        table_of(rows, names),
        configs,
        lambda name: named[name].open(),
        images,
        {name: run.folder for name, run in named.items() if run.folder is not None},
        trouble,
        best=_best(found, configs),
        verdict=None if place is None else _verdict(Path(place)),
        names=lambda name: named[name].names,
    )


def _names_trouble(runs: Mapping[str, Run]) -> list[tuple[str, str, str]]:
    """Return the problems with recorded names of latents, at most one for each file."""
    first = {names_folder(run.folder): name for name, run in runs.items() if run.folder}
    trouble = []
    for name in first.values():
        try:
            _ = runs[name].names
        except UnweaveError as error:
            trouble.append((name, "unnamed", str(error)))
    return trouble


def _verdict(folder: Path) -> Verdict | None:
    """Return the verdict on the fit in a folder, or on the fit that a folder `best` belongs to."""
    return read_verdict(folder.parent if folder.name == BEST else folder)


def _named(runs: Sequence[Run]) -> dict[str, Run]:
    """Return runs by folder name, or by path if two folders have the same name."""
    named: dict[str, Run] = {}
    for run in runs:
        folder = run.folder
        name = run.config.hash if folder is None else folder.resolve().name
        named[str(folder) if name in named else name] = run
    return named


def _of_fleet(
    fleet: Fleet, images: Images, scores: pd.DataFrame | None, title: str | None
) -> Given:
    configs = {config.hash: config.to_dict() for config in fleet.configs}
    places = {config.hash: k for k, config in enumerate(fleet.configs)}
    measured: Mapping[str, Mapping[str, float]] = {}
    if scores is not None:
        if "run" not in scores:
            raise UnweaveError(
                "scores must have a column 'run', as returned by uw.evaluate",
                subject="scores",
                value=list(scores),
            )
        settings = {name for config in configs.values() for name in config["method"]}
        latest = scores.drop_duplicates("run", keep="last")
        numbers = latest.drop(columns=[*ABOUT[1:], *settings], errors="ignore")
        measured = numbers.set_index("run").select_dtypes("number").to_dict("index")
        if not set(measured) & set(configs):
            raise UnweaveError(
                "scores has no row for any run of this fleet; pass the table that uw.evaluate "
                "returns for it",
                subject="scores",
                value=list(measured),
            )
    curves = dict(iter(fleet.curve.groupby("run")))
    rows = [
        (
            run,
            state_of(int(fleet.diverged_at[places[run]])),
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
        images,
    )


def _best(found: Sequence[Run], configs: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the run that was copied to the folder `best`."""
    for run in found:
        if run.best:
            with suppress(*UNREADABLE, UnweaveError):
                chosen = whole_config(run.settings)
                return next((name for name, own in configs.items() if own == chosen), None)
    return None
