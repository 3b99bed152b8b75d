"""Whether a study's folder is whole: its runs, its ledger, its table, and whether they agree."""

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import NamedTuple

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import origin_text
from unweave.fleet.checkpoint import damaged_checkpoints
from unweave.io.tables import read_table
from unweave.models.config import Config
from unweave.models.files import UNREADABLE, intact
from unweave.study.ledger import Ledger, Record
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.repair import config_of, leftovers, repair_study, saved_config
from unweave.study.results import Results
from unweave.study.run_folder import Found
from unweave.study.store import LEDGER, TABLE, Store

__all__ = ["Check", "at_work", "check"]

TRAINED = ("trained", "scored", "diverged")
AGREE = {
    "trained": ("trained", "failed"),
    "scored": ("scored",),
    "diverged": ("diverged",),
}
"""What the ledger may say of a run, by what its folder says."""
SHOWN = 3


@dataclass(frozen=True)
class Check:
    """What was found in a study's folder.

    Args:
        whole: How many runs are as they were written.
        unknown: What else is among the runs; it is left alone.
        damaged: Runs whose files are not as they were written.
        misnamed: Folders with the files of another run.
        missing: Runs that the ledger says are trained and whose folders are gone.
        unscored: Runs that the ledger says are scored and some of whose scores are not there.
        unplanned: Runs that the study asks for and the ledger does not.
        unasked: Runs that the ledger asks for and the study does not.
        states: Runs that are in another state than the ledger says.
        numbers: Runs whose settings or results are not those in the ledger.
        checkpoints: Checkpoints that cannot be read.
        leftovers: Files that killed processes left.
        ledger: Why the ledger cannot be used.
        table: Why the table cannot be used.
    """

    whole: int
    unknown: Sequence[str] = ()
    damaged: Sequence[str] = ()
    misnamed: Sequence[str] = ()
    missing: Sequence[str] = ()
    unscored: Sequence[str] = ()
    unplanned: Sequence[str] = ()
    unasked: Sequence[str] = ()
    states: Sequence[str] = ()
    numbers: Sequence[str] = ()
    checkpoints: Sequence[str] = ()
    leftovers: Sequence[str] = ()
    ledger: str | None = None
    table: str | None = None

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        right = ("whole", "unknown")
        return not any(getattr(self, f.name) for f in fields(self) if f.name not in right)

    def __str__(self) -> str:
        parts = [f"{self.whole:,} run{' is' if self.whole == 1 else 's are'} whole"]
        for words, runs in (
            ("damaged", self.damaged),
            ("in a folder with the name of another run", self.misnamed),
            ("missing", self.missing),
            ("with damaged or missing scores", self.unscored),
            ("of the study missing from the ledger", self.unplanned),
            ("in the ledger but not in the study", self.unasked),
            ("in another state than the ledger says", self.states),
            ("with other settings or results than the ledger says", self.numbers),
            ("damaged checkpoints", self.checkpoints),
            ("leftover files of interrupted processes", self.leftovers),
            ("not of this study, left alone", self.unknown),
        ):
            if runs:
                some = ", ".join(runs[:SHOWN]) + (", …" if len(runs) > SHOWN else "")
                parts.append(f"{len(runs):,} {words} ({some})")
        for name, trouble in ((LEDGER, self.ledger), (TABLE, self.table)):
            if trouble:
                parts.append(f"{name} cannot be used: {trouble}")
        return "\n  ".join(parts)


def check(
    store: Store, repair: bool = False, advance: Callable[[int], None] | None = None
) -> Check:
    """Verify all runs of a study and compare them with its ledger and its table.

    While processes are at work, what they are changing is not compared.

    Args:
        store: The study.
        repair: Whether to put right what is wrong; only while nobody is at work. Damaged files
            are moved into `damaged/`, never deleted, the ledger and the table are made again from
            the folders, and runs that are damaged or missing are planned again.
        advance: Called from time to time with the number of runs verified since the last call.

    Returns:
        What was found, before it was put right.
    """
    # Before the folders are listed, so that what is done meanwhile does not seem to be missing.
    ledger, before, trouble = _read_ledger(store)
    quiet = ledger is None or not ledger.workers()
    asked = _asked(store, before)
    paths = sorted(store.runs.glob("[!.]*"))
    seen = _examined(store, [path for path in paths if path.is_dir()], advance)
    own = {run: one.found for run, one in seen.items() if one.found is not None}
    after = {} if ledger is None else ledger.records()
    # What has changed meanwhile, or is in a worker's hands, is not compared.
    still = {
        run: record
        for run, record in before.items()
        if after.get(run) == record and (quiet or record.worker is None)
    }
    differing: dict[str, list[str]] = {}
    for run, config in asked.items():
        if run in still and (run in own or run not in seen):
            kind = next(_disagreements(store, config, still[run], own.get(run)), None)
            if kind is not None:
                differing.setdefault(kind, []).append(run)
    result = Check(
        whole=len(own),
        unknown=[path.name for path in paths if path.name not in {**asked, **seen}]
        + [run for run in own if run not in asked],
        damaged=[run for run, one in seen.items() if not one.whole],
        misnamed=[run for run, one in seen.items() if one.whole and one.found is None],
        unplanned=[] if ledger is None else _unplanned(asked, still, {**before, **after}),
        unasked=[run for run, record in still.items() if record.asked and run not in asked],
        checkpoints=[path.name for path in damaged_checkpoints(store.runs)],
        leftovers=leftovers(store) if quiet else [],
        ledger=trouble,
        table=_table_trouble(store, ledger) if ledger is not None and quiet else None,
        **differing,
    )
    if repair and not result.good:
        bad = [store.runs / run for run in (*result.damaged, *result.misnamed)]
        repair_study(store, asked, bad, in_order=list(before))
    return result


def at_work(store: Store) -> bool:
    """Whether some process works on the study; not where the ledger cannot be read."""
    try:
        return (store.folder / LEDGER).is_file() and bool(store.ledger.workers())
    except UnweaveError:
        return False


class _Seen(NamedTuple):
    """Whether the folder of a run is as it was written, and what it says if it is that run's."""

    whole: bool
    found: Found | None = None


def _read_ledger(store: Store) -> tuple[Ledger | None, dict[str, Record], str | None]:
    """The ledger and what it says, or why it cannot be used."""
    if not os.path.lexists(store.folder / LEDGER):
        return None, {}, "it is missing"
    try:
        return store.ledger, store.ledger.records(), None
    except DamagedLedgerError as error:
        return None, {}, error.why


def _asked(store: Store, records: Mapping[str, Record]) -> dict[str, Config]:
    """The runs of the study, on its data as they were when it was planned.

    The data themselves are not opened: the study may be a stranger's, and name any folder.
    """
    noted = (config_of(record.config) for record in records.values() if record.asked)
    latest = {origin_text(config.data) for config in noted if config is not None}
    runs = store.recorded_runs(latest)
    return {config.hash: config for config in runs}


def _examined(
    store: Store, folders: Sequence[Path], advance: Callable[[int], None] | None
) -> dict[str, _Seen]:
    seen = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for folder, one in zip(folders, pool.map(partial(_examine, store), folders), strict=True):
            seen[folder.name] = one
            if advance is not None:
                advance(1)
    return seen


def _examine(store: Store, folder: Path) -> _Seen:
    if not intact(folder):
        return _Seen(False)
    config = saved_config(folder)
    if config is None:
        return _Seen(True)
    try:
        return _Seen(True, store.look(config))
    except (*UNREADABLE, UnweaveError):
        return _Seen(False)


def _disagreements(
    store: Store, config: Config, record: Record, found: Found | None
) -> Iterator[str]:
    """In what the ledger and the folder of a run disagree: fields of `Check`, the worst first."""
    if found is None:
        if record.state in TRAINED:
            yield "missing"
        elif record.results is not None:
            yield "numbers"
    elif record.state == "scored" and found.state == "trained":
        yield "unscored"
    elif record.state not in AGREE[found.state]:
        yield "states"
    elif not _same_numbers(store, record, found):
        yield "numbers"
    plain = json.loads(json.dumps(config.to_dict()))
    if record.config != plain or record.kind != config.fleet:
        yield "numbers"


def _same_numbers(store: Store, record: Record, found: Found) -> bool:
    noted = record.results or {}
    if record.state == "scored":
        same = (record.error, record.scored_for) == (found.error, store.asked)
        return same and _equal(noted, found.results)
    # Some scores may have been added or dropped since.
    both = noted.keys() & found.results.keys()
    return _equal({n: noted[n] for n in both}, {n: found.results[n] for n in both})


def _equal(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        value == other[name] or (math.isnan(value) and math.isnan(other[name]))
        for name, value in one.items()
    )


def _unplanned(
    asked: Mapping[str, Config], still: Mapping[str, Record], known: Mapping[str, Record]
) -> list[str]:
    """Runs of the study that the ledger does not know, or does not count."""
    return [run for run in asked if run not in known or (run in still and not still[run].asked)]


def _table_trouble(store: Store, ledger: Ledger) -> str | None:
    """What is wrong with the table; while there is work to do, it may lag behind the ledger."""
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
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / TABLE
        expected.to_parquet(copy, index=False)
        same = busy or written.equals(read_table(copy))
    return None if same else "it is not what the ledger says"
