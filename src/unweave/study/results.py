"""What a study has found so far: its table, its states, what went wrong."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unweave.analysis.columns import DATA, METHOD, SEED, STRENGTH
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.io.extensions import ExtensionError
from unweave.io.plain_data import is_number
from unweave.io.writing import whole_file
from unweave.methods import known_method
from unweave.models.config import RUN_NAME, Config
from unweave.study.ledger import summary
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.remote import open_store
from unweave.study.store import Store
from unweave.text import shown

__all__ = ["Results", "TableWriter", "load", "table_of"]

SETTINGS = ("batch", "latents", "architecture", "likelihood", "init", "precision")
"""Settings that have a column where a study varies them."""
MOST_COLUMNS = 5_000
"""Of settings, losses and scores, whose names a file may have made up."""
OWN = ("run", DATA, METHOD, STRENGTH, SEED, "steps", "state", "first", *SETTINGS)
"""Columns that a table has by itself."""
TABLE_SECONDS, TABLE_SHARE = 2.0, 0.02
"""Least time between two writings of the table, and the share of the time that they may take."""


class Results:
    """The results of a study.

    Args:
        store: Its folder.
        errors: For each data set that could not be had, why.
    """

    def __init__(self, store: Store, errors: Mapping[str, str] | None = None) -> None:
        self.store, self.errors = store, dict(errors or {})

    @property
    def table(self) -> pd.DataFrame:
        """One row per trained model: what it is, its last losses, its scores.

        `strength` is the value of the setting that the study varies, of the first that varies
        where there are several; see docs/studies.md for the other columns. Settings such as
        `latents` have one where they vary.
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
        self.store.bring(runs)
        return [self.store.runs / run for run in runs]

    @property
    def counts(self) -> dict[str, int]:
        """How many runs are in each state."""
        return self.store.ledger.counts()

    @property
    def failures(self) -> pd.DataFrame:
        """The runs about which something is to be said: `run`, `state`, `error`."""
        table = self.store.ledger.table()
        said = table[table["error"].notna() & table["asked"]]
        return said[["run", "state", "error"]].reset_index(drop=True)

    def write(self) -> Path:
        """Bring `study.parquet` up to date."""
        with whole_file(self.store.table_file) as temporary:
            self.table.to_parquet(temporary, index=False)
        return self.store.table_file

    def __str__(self) -> str:
        return summary(self.counts)

    def __repr__(self) -> str:
        return f"study {self.store.folder}: {self}"


class TableWriter:
    """Keeps the table of a study up to date while its runs are scored.

    Args:
        store: The study.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.due, self.scored = 0.0, 0

    def write_if_due(self) -> None:
        """Write the table where it has changed, as often as that costs little."""
        start = time.monotonic()
        if start < self.due:
            return
        self.due = start + TABLE_SECONDS
        scored = self.store.ledger.counts()["scored"]
        if scored == self.scored:
            return
        Results(self.store).write()
        self.store.hand_in_ledger()
        self.scored = scored
        took = time.monotonic() - start
        self.due = time.monotonic() + max(TABLE_SECONDS, took / TABLE_SHARE)


def load(folder: str | Path) -> Results:
    """The results of the study in a folder, or at a URL as last handed in there."""
    store = open_store(folder)
    store.demand()
    store.demand_ledger()
    return Results(store)


def _checked(
    run: str, state: str, plain: Any, results: Any
) -> tuple[str, str, Mapping[str, Any], Mapping[str, float]]:
    """A row of a ledger, which may be a stranger's, with its settings and numbers checked."""
    numbers = isinstance(results, Mapping) and all(
        value is None or isinstance(value, float) or is_number(value) for value in results.values()
    )
    if not RUN_NAME.fullmatch(run) or not numbers:
        raise ValueError(f"it says {shown(results)} of the run {shown(run)}")
    return run, state, Config.from_dict(plain).to_dict(), results


def table_of(
    rows: Sequence[tuple[str, str, Mapping[str, Any], Mapping[str, float]]],
    names: Mapping[str, str],
) -> pd.DataFrame:
    """A study table, see `Results.table`.

    Args:
        rows: Of each model its run, state, settings and numbers.
        names: What data sets are called, by their origin as text.
    """
    columns = {name for _, _, config, results in rows for name in (*config["method"], *results)}
    if len(columns) > MOST_COLUMNS:
        raise UnweaveError(f"there are {len(columns):,} kinds of scores, more than {MOST_COLUMNS}")
    varied = _varied([config["method"] for _, _, config, _ in rows])
    several = _several([{n: config[n] for n in SETTINGS} for _, _, config, _ in rows])
    rates = _several([config["optimiser"] for _, _, config, _ in rows])
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
                **{f"optimiser.{n}": config["optimiser"][n] for n in rates},
                **({"first": _first(config)} if chained else {}),
                SEED: config["seed"],
                "steps": config["steps"],
                "state": state,
                **{_loss(n, config["method"]): v for n, v in results.items()},
            }
            for run, state, config, results in rows
        ]
    )
    if frame.empty:
        return pd.DataFrame(columns=["run", DATA, METHOD, STRENGTH, SEED, "steps", "state"])
    frame[STRENGTH] = pd.to_numeric(frame[STRENGTH], errors="coerce")
    return frame[_ordered(frame.columns)]


def _method_name(name: str) -> str:
    """A method as tables name it; a user's by its own name."""
    kind = known_method(name)
    return name if kind is None else kind.name


def _first(config: Mapping[str, Any]) -> str | None:
    """The run that another builds on."""
    return Config.from_dict(config["first"]).hash if "first" in config else None


def _several(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of settings of which there are several values."""
    names = settings[0] if settings else []
    return [name for name in names if len({str(one[name]) for one in settings}) > 1]


def _settings(method: Mapping[str, Any]) -> dict[str, Any]:
    """By their columns; a setting that is called as one of the table's is not that."""
    return {f"method.{n}" if n in OWN else n: v for n, v in method.items() if n != "name"}


def _loss(name: str, method: Mapping[str, Any]) -> str:
    """The column of a number; a loss that is called as a setting does not hide it."""
    return f"loss.{name}" if name in method or name in OWN else name


def _varied(methods: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Which setting of each method its strength is: the first that varies, or else the first."""
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


def _ordered(columns: Sequence[str]) -> list[str]:
    """Scores of mean codes before those of sampled ones, whichever came first."""
    return sorted(columns, key=lambda name: name.startswith("sampled."))
