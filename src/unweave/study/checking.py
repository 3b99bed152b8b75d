"""Verification and repair of a study folder: its runs, its ledger and its table.

Repairs lose no data: damaged files are moved to `damaged/`, incomplete files of killed processes
are removed, and the ledger and the table are rebuilt.
"""

import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import SCORES, origin_text
from unweave.fleet import checkpoint
from unweave.fleet.checkpoint import CHECKPOINT, checkpoints, damaged_checkpoints
from unweave.io.extensions import ExtensionError
from unweave.io.tables import read_table
from unweave.io.writing import whole_file
from unweave.models.config import Config
from unweave.models.files import UNREADABLE, intact, read_config
from unweave.study.ledger import Ledger, Record, RunOutcome
from unweave.study.ledger_file import DamagedLedgerError, journal_files
from unweave.study.results import Results
from unweave.study.store import LEDGER, STUDY, TABLE, Store

__all__ = ["Check", "check", "make_ledger", "tidy"]

TRAINED = ("trained", "scored", "diverged")
CONSISTENT = {
    "trained": ("trained", "failed"),
    "scored": ("scored",),
    "diverged": ("diverged",),
}
"""States that a run may have in the ledger, by the state of its folder."""
SHOWN = 3
FINDINGS = {
    "damaged": "damaged",
    "misnamed": "in a folder with the name of another run",
    "missing": "missing",
    "unscored": "with damaged or missing scores",
    "unplanned": "of the study missing from the ledger",
    "obsolete": "in the ledger but not in the study",
    "states": "with a state that differs from the ledger",
    "numbers": "with settings or results that differ from the ledger",
    "checkpoints": "damaged checkpoints",
    "leftovers": "temporary files of interrupted processes",
    "unknown": "not part of this study (ignored)",
}
"""Fields of a `Check` that are lists of names, and their descriptions."""
TEMPORARY = re.compile(rf"\.[0-9a-f]{{16}}\..*|\.\{CHECKPOINT}.*|\.tmp\w{{6}}")
"""Temporary names of runs, of checkpoints and of safetensors; nothing else may be removed."""
QUIET_SECONDS = 600.0
"""Age in seconds at which a temporary file in the study's folder counts as abandoned."""


@dataclass(frozen=True)
class Check:
    """Result of checking a study folder; `FINDINGS` describes the lists of names.

    Args:
        intact: Number of intact runs.
        ledger: Reason why the ledger cannot be used.
        table: Reason why the table cannot be used.
    """

    intact: int
    unknown: Sequence[str] = ()
    damaged: Sequence[str] = ()
    misnamed: Sequence[str] = ()
    missing: Sequence[str] = ()
    unscored: Sequence[str] = ()
    unplanned: Sequence[str] = ()
    obsolete: Sequence[str] = ()
    states: Sequence[str] = ()
    numbers: Sequence[str] = ()
    checkpoints: Sequence[str] = ()
    leftovers: Sequence[str] = ()
    ledger: str | None = None
    table: str | None = None

    @property
    def good(self) -> bool:
        """Whether no problem was found."""
        wrong = (*(name for name in FINDINGS if name != "unknown"), "ledger", "table")
        return not any(getattr(self, name) for name in wrong)

    def __str__(self) -> str:
        parts = [f"{self.intact:,} run{' is' if self.intact == 1 else 's are'} intact"]
        for name, description in FINDINGS.items():
            runs = getattr(self, name)
            if runs:
                some = ", ".join(runs[:SHOWN]) + (", …" if len(runs) > SHOWN else "")
                parts.append(f"{len(runs):,} {description} ({some})")
        for name, reason in ((LEDGER, self.ledger), (TABLE, self.table)):
            if reason:
                parts.append(f"{name} cannot be used: {reason}")
        return "\n  ".join(parts)


def check(
    store: Store, repair: bool = False, advance: Callable[[int], None] | None = None
) -> Check:
    """Verify all runs of a study and compare them with its ledger and its table.

    Runs that other processes are changing at the same time are not compared.

    Args:
        store: The study.
        repair: Whether to repair problems; allowed only while no process works on the study.
            Damaged files are moved to `damaged/`, never deleted, the ledger and the table are
            rebuilt from the run folders, and damaged or missing runs are planned again.
        advance: Progress callback, called with the number of newly verified runs.

    Returns:
        The problems found before the repair.
    """
    # Read before the folders are listed, so that runs finished in between do not seem missing.
    ledger, before, problem = _read_ledger(store)
    quiet = ledger is None or not ledger.workers()
    planned = _planned_runs(store, before)
    paths = sorted(store.runs.glob("[!.]*"))
    folders = _examine_all(store, [path for path in paths if path.is_dir()], advance)
    valid = {run: one.outcome for run, one in folders.items() if one.outcome is not None}
    after = {} if ledger is None else ledger.records()
    # Runs that have changed in between or are claimed by a worker are not compared.
    unchanged = {
        run: record
        for run, record in before.items()
        if after.get(run) == record and (quiet or record.worker is None)
    }
    differing: dict[str, list[str]] = {}
    for run, config in planned.items():
        if run in unchanged and (run in valid or run not in folders):
            kind = next(_disagreements(config, unchanged[run], valid.get(run)), None)
            if kind is not None:
                differing.setdefault(kind, []).append(run)
    result = Check(
        intact=len(valid),
        unknown=[path.name for path in paths if path.name not in {**planned, **folders}]
        + [run for run in valid if run not in planned],
        damaged=[run for run, one in folders.items() if not one.intact],
        misnamed=[run for run, one in folders.items() if one.intact and one.outcome is None],
        unplanned=[] if ledger is None else _unplanned(planned, unchanged, {**before, **after}),
        obsolete=[run for run, one in unchanged.items() if one.requested and run not in planned],
        checkpoints=[path.name for path in damaged_checkpoints(store.runs)],
        leftovers=_leftovers(store) if quiet else [],
        ledger=problem,
        table=_table_problem(store, ledger) if ledger is not None and quiet else None,
        **differing,
    )
    if repair and not result.good:
        bad = [store.runs / run for run in (*result.damaged, *result.misnamed)]
        _repair(store, planned, bad, in_order=list(before))
    return result


class _RunFolder(NamedTuple):
    """Whether a run folder is intact, and its outcome if its settings match its name."""

    intact: bool
    outcome: RunOutcome | None = None


def _read_ledger(store: Store) -> tuple[Ledger | None, dict[str, Record], str | None]:
    """Return the ledger and its records, or the reason why it cannot be used."""
    if not os.path.lexists(store.folder / LEDGER):
        return None, {}, "it is missing"
    try:
        return store.ledger, store.ledger.records(), None
    except DamagedLedgerError as error:
        return None, {}, error.why


def _planned_runs(store: Store, records: Mapping[str, Record]) -> dict[str, Config]:
    """The runs of the study, on its data sets as recorded when it was planned.

    The data sets are not opened: the study may come from someone else and name any folder.
    """
    recorded = (
        _config(Config.from_dict, record.config) for record in records.values() if record.requested
    )
    latest = {origin_text(config.data) for config in recorded if config is not None}
    runs = store.recorded_runs(latest)
    return {config.hash: config for config in runs}


def _examine_all(
    store: Store, folders: Sequence[Path], advance: Callable[[int], None] | None
) -> dict[str, _RunFolder]:
    found = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for folder, one in zip(folders, pool.map(partial(_examine, store), folders), strict=True):
            found[folder.name] = one
            if advance is not None:
                advance(1)
    return found


def _examine(store: Store, folder: Path) -> _RunFolder:
    if not intact(folder):
        return _RunFolder(False)
    config = _saved_config(folder)
    if config is None:
        return _RunFolder(True)
    try:
        return _RunFolder(True, store.outcome(config))
    except (*UNREADABLE, UnweaveError):
        return _RunFolder(False)


def _disagreements(config: Config, record: Record, found: RunOutcome | None) -> Iterator[str]:
    """Yield disagreements between ledger and run folder as fields of `Check`, worst first."""
    if found is None:
        if record.state in TRAINED:
            yield "missing"
        elif record.results is not None:
            yield "numbers"
    elif record.state == "scored" and found.state == "trained":
        yield "unscored"
    elif record.state not in CONSISTENT[found.state]:
        yield "states"
    elif not _same_numbers(record, found):
        yield "numbers"
    plain = json.loads(json.dumps(config.to_dict()))
    if record.config != plain or record.kind != config.kind:
        yield "numbers"


def _same_numbers(record: Record, found: RunOutcome) -> bool:
    recorded, results = record.results or {}, found.results or {}
    if record.state == "scored":
        same = (record.error, record.scored_for) == (found.error, found.scored_for)
        return same and _equal(recorded, results)
    # Some scores may have been added or dropped since.
    both = recorded.keys() & results.keys()
    return _equal({n: recorded[n] for n in both}, {n: results[n] for n in both})


def _equal(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        value == other[name] or (math.isnan(value) and math.isnan(other[name]))
        for name, value in one.items()
    )


def _unplanned(
    planned: Mapping[str, Config], unchanged: Mapping[str, Record], known: Mapping[str, Record]
) -> list[str]:
    """Runs of the study that are missing from the ledger or marked there as not requested."""
    ignored = {run for run, record in unchanged.items() if not record.requested}
    return [run for run in planned if run not in known or run in ignored]


def _table_problem(store: Store, ledger: Ledger) -> str | None:
    """The problem with the table, if any; during a run it may lag behind the ledger."""
    busy = ledger.busy()
    try:
        expected = Results(store).table
        if not store.table_file.exists():
            return None if busy or expected.empty else "it is missing"
        written = read_table(store.table_file)
    except DamagedLedgerError as error:
        return error.why
    except (OSError, ValueError) as error:
        return f"it is damaged ({' '.join(str(error).split())})"
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / TABLE
        expected.to_parquet(copy, index=False)
        same = busy or written.equals(read_table(copy))
    return None if same else "it differs from the ledger"


def _repair(
    store: Store, planned: Mapping[str, Config], bad: Sequence[Path], in_order: Sequence[str]
) -> None:
    """Repair a study; call only while no process works on it.

    Args:
        store: The study.
        planned: The runs of the study, by name.
        bad: Run folders to move to `damaged/`; these runs are trained again.
        in_order: Names of the runs in the old ledger, whose order is preserved.
    """
    store.put_aside(bad)
    store.put_aside(damaged_checkpoints(store.runs))
    tidy(store)
    known = [run for run in in_order if run in planned]
    make_ledger(store, {run: planned[run] for run in [*known, *planned]})
    if store.table_file.is_dir():
        store.put_aside([store.table_file])
    Results(store).write()


def tidy(store: Store) -> None:
    """Remove incomplete files of killed processes; call only while no process is active."""
    checkpoint.tidy(store.runs)
    for path in _incomplete(store):
        _remove(path)
    store.remove_dead_tokens()


def _leftovers(store: Store) -> list[str]:
    """The names of the files that `tidy` would remove."""
    done = []
    with suppress(UnweaveError):  # damaged checkpoints are reported separately
        done = [
            path
            for path, runs in checkpoints(store.runs).items()
            if all(store.has(run) for run in runs)
        ]
    return [path.name for path in (*done, *_incomplete(store))] + store.dead_tokens()


def _incomplete(store: Store) -> list[Path]:
    found = [path for path in store.runs.glob(".*") if TEMPORARY.fullmatch(path.name)]
    found += store.runs.glob(f"*/.{SCORES}.*")
    old = time.time() - QUIET_SECONDS
    for name in (STUDY, LEDGER, TABLE):
        for path in store.folder.glob(f".{name}.*"):
            with suppress(FileNotFoundError):  # its writer has just finished
                if path.stat().st_mtime < old:
                    found.append(path)
    return found


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def make_ledger(store: Store, planned: Mapping[str, Config]) -> None:
    """Rebuild the ledger from the run folders and replace the old one."""
    with whole_file(store.folder / LEDGER) as temporary:
        temporary.unlink()  # an empty file is not a valid ledger
        ledger = Ledger(temporary)
        runs = {**planned, **_saved_runs(store)}
        store.plan_runs(ledger, list(runs.values()))
        store.plan_runs(ledger, list(planned.values()))
        present = [config for run, config in runs.items() if store.has(run)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(store.outcome, present))
        ledger.record({one.hash: outcome for one, outcome in zip(present, found, strict=True)})
        _put_damaged_ledger_aside(store)
    store.reopen_ledger()


def _put_damaged_ledger_aside(store: Store) -> None:
    """Set a damaged ledger aside, and its journal, so that it is not applied to the new one."""
    path = store.folder / LEDGER
    try:
        Ledger(path)
    except DamagedLedgerError:
        store.put_aside(one for one in (path, *journal_files(path)) if os.path.lexists(one))


def _saved_runs(store: Store) -> dict[str, Config]:
    """All runs that have a folder, including runs no longer in the study."""
    configs = [_saved_config(folder) for folder in store.runs.glob("[!.]*")]
    return {config.hash: config for config in configs if config is not None}


def _saved_config(folder: Path) -> Config | None:
    """The settings in a run folder, or None if they do not match its name."""
    config = _config(read_config, folder)
    return config if config is not None and config.hash == folder.name else None


def _config(read: Callable[[Any], Config], source: Any) -> Config | None:
    """Read settings from a ledger or a file; None if they are invalid."""
    try:
        return read(source)
    except ExtensionError:  # a run of a custom method is not damaged
        raise
    except (*UNREADABLE, UnweaveError):
        return None
