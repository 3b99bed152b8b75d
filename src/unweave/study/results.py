"""Results of a study: its table, the states of its runs, and their errors."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.analysis.study_table import DATA, METHOD, SEED, STRENGTH
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.io.extensions import ExtensionError
from unweave.io.plain_data import is_number
from unweave.io.writing import whole_file
from unweave.methods import known_method
from unweave.models.config import RUN_NAME, Config
from unweave.nets.adam import Adam
from unweave.study.ledger import summary
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.remote import open_store
from unweave.study.store import Store
from unweave.text import shown

__all__ = ["Results", "TableWriter", "load", "table_of"]

SETTINGS = ("batch", "latents", "architecture", "likelihood", "init", "precision")
"""Settings that get a column if the study varies them."""
MAX_COLUMNS = 5_000
"""Largest number of columns; a damaged or untrusted file could name any number of scores."""
RESERVED = ("run", DATA, METHOD, STRENGTH, SEED, "steps", "state", "first", *SETTINGS)
"""Column names that hyperparameters and losses must not overwrite."""
TABLE_SECONDS, TABLE_SHARE = 2.0, 0.02
"""Shortest interval between two updates of the table, and their largest share of the run time."""


class Results:
    """The results of a study.

    Args:
        store: The folder of the study.
        errors: Error message for each data set that could not be opened.
    """

    def __init__(self, store: Store, errors: Mapping[str, str] | None = None) -> None:
        self.store, self.errors = store, dict(errors or {})

    @property
    def table(self) -> pd.DataFrame:
        """One row per trained model: its settings, last losses and scores.

        `strength` is the value of the hyperparameter that the study varies, or of the first one
        if it varies several; see docs/studies.md for the other columns. Settings such as
        `latents` have a column if they vary.
        """
        names = {text: source.name for text, source in self.store.sources.items()}
        ledger = self.store.ledger
        try:
            return table_of([_checked(*row) for row in ledger.rows()], names)
        except ExtensionError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, UnweaveError) as error:
            why = f"some of its settings cannot be read ({error})"
            raise DamagedLedgerError(ledger.path, why) from error

    @property
    def run_folders(self) -> list[Path]:
        """The folder of every trained model, on this machine."""
        runs = self.table["run"].tolist()
        self.store.download(runs)
        return [self.store.runs / run for run in runs]

    @property
    def counts(self) -> dict[str, int]:
        """Number of runs in each state."""
        return self.store.ledger.counts()

    @property
    def failures(self) -> pd.DataFrame:
        """The runs with an error message: `run`, `state`, `error`."""
        table = self.store.ledger.table()
        failed = table[table["error"].notna() & table["asked"]]
        return failed[["run", "state", "error"]].reset_index(drop=True)

    def write(self) -> Path:
        """Write the table to `study.parquet` and return its path."""
        with whole_file(self.store.table_file) as temporary:
            self.table.to_parquet(temporary, index=False)
        return self.store.table_file

    def __str__(self) -> str:
        return summary(self.counts)

    def __repr__(self) -> str:
        return f"study {self.store.folder}: {self}"


class TableWriter:
    """Keeps the table of a study up to date while its runs are scored."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.due, self.scored = 0.0, 0

    def write_if_due(self) -> None:
        """Write the table if it has changed and the last update was long enough ago."""
        start = time.monotonic()
        if start < self.due:
            return
        self.due = start + TABLE_SECONDS
        scored = self.store.ledger.counts()["scored"]
        if scored == self.scored:
            return
        Results(self.store).write()
        self.store.upload_ledger()
        self.scored = scored
        took = time.monotonic() - start
        self.due = time.monotonic() + max(TABLE_SECONDS, took / TABLE_SHARE)


def load(folder: str | Path) -> Results:
    """Load the results of a study from a folder, or from a URL as last uploaded."""
    store = open_store(folder)
    store.demand()
    store.require_ledger()
    return Results(store)


def _checked(
    run: str, state: str, plain: Any, results: Any
) -> tuple[str, str, Mapping[str, Any], Mapping[str, float]]:
    """Check the settings and numbers of a ledger row, which may come from an untrusted file."""
    numbers = isinstance(results, Mapping) and all(
        value is None or isinstance(value, float) or is_number(value) for value in results.values()
    )
    if not RUN_NAME.fullmatch(run) or not numbers:
        raise ValueError(f"invalid results of the run {shown(run)}: {shown(results)}")
    return run, state, Config.from_dict(plain).to_dict(), results


def table_of(
    rows: Sequence[tuple[str, str, Mapping[str, Any], Mapping[str, float]]],
    names: Mapping[str, str],
) -> pd.DataFrame:
    """Build a study table; see `Results.table`.

    Args:
        rows: Run, state, settings and results of each model.
        names: Names of data sets, by their origin as text.
    """
    columns = {name for _, _, config, results in rows for name in (*config["method"], *results)}
    if len(columns) > MAX_COLUMNS:
        raise UnweaveError(
            f"a study table must have at most {MAX_COLUMNS:,} columns, got {len(columns):,}"
        )
    varied = _varied([config["method"] for _, _, config, _ in rows])
    several = _several([{n: config[n] for n in SETTINGS} for _, _, config, _ in rows])
    defaults = asdict(Adam())
    optimisers = [{**defaults, **config["optimiser"]} for _, _, config, _ in rows]
    rates = _several(optimisers)
    chained = any("first" in config for _, _, config, _ in rows)
    frame = pd.DataFrame(
        [
            {
                "run": run,
                DATA: names.get(origin_text(config["data"]), str(config["data"])),
                METHOD: _method_name(config["method"]["name"]),
                STRENGTH: config["method"].get(varied[config["method"]["name"]]),
                **_settings(config["method"]),
                **{n: config[n] for n in several},
                **{f"optimiser.{n}": optimiser[n] for n in rates},
                **({"first": _first(config)} if chained else {}),
                SEED: config["seed"],
                "steps": config["steps"],
                "state": state,
                **{_loss(n, config["method"]): v for n, v in results.items()},
            }
            for (run, state, config, results), optimiser in zip(rows, optimisers, strict=True)
        ]
    )
    if frame.empty:
        return pd.DataFrame(columns=["run", DATA, METHOD, STRENGTH, SEED, "steps", "state"])
    frame[STRENGTH] = pd.to_numeric(frame[STRENGTH], errors="coerce")
    # Scores of sampled codes come last.
    return frame[sorted(frame.columns, key=lambda name: name.startswith("sampled."))]


def _method_name(name: str) -> str:
    """The name of a method in tables; for custom methods, the name that they define."""
    kind = known_method(name)
    return name if kind is None else kind.name


def _first(config: Mapping[str, Any]) -> str | None:
    """The run of the first-stage model of a second stage, if any."""
    return Config.from_dict(config["first"]).hash if "first" in config else None


def _several(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of settings with more than one value."""
    names = settings[0] if settings else []
    return [name for name in names if len({str(one[name]) for one in settings}) > 1]


def _settings(method: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters by column name, with a prefix for reserved names."""
    return {f"method.{n}" if n in RESERVED else n: v for n, v in method.items() if n != "name"}


def _loss(name: str, method: Mapping[str, Any]) -> str:
    """The column of a loss or score, with a prefix if the name is already taken."""
    return f"loss.{name}" if name in method or name in RESERVED else name


def _varied(methods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The hyperparameter shown as strength of each method: the first that varies, or the first."""
    values: dict[str, dict[str, set[Any]]] = {}
    for method in methods:
        fields = values.setdefault(method["name"], {})
        for name, value in method.items():
            if name != "name":
                fields.setdefault(name, set()).add(value)
    chosen = {}
    for method_name, fields in values.items():
        kind = known_method(method_name)
        known = tuple(fields) if kind is None else kind.strengths()
        varying = [name for name in known if len(fields.get(name, ())) > 1]
        chosen[method_name] = next(iter([*varying, *known]), "")
    return chosen
