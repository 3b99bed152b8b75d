"""Whether a study's folder is whole, and how it is put right."""

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from unweave.data.cache import whole_file
from unweave.errors import UnweaveError
from unweave.evaluation.kept import SCORES
from unweave.fleet import checkpoint_files
from unweave.fleet.checkpoint_files import CHECKPOINT, damaged_checkpoints
from unweave.fleet.config import Config
from unweave.fleet.model_files import UNREADABLE, intact, read_config
from unweave.study.ledger import Ledger
from unweave.study.store import DAMAGED, LEDGER, STUDY, TABLE, Store

__all__ = ["Check", "at_work", "check", "put_checkpoints_aside", "tidy"]

TRAINED = ("trained", "scored", "diverged")
HALF_A_RUN = re.compile(rf"\.[0-9a-f]{{16}}\..*|\.\{CHECKPOINT}.*|\.tmp\w{{6}}")
"""Temporary names of runs, of checkpoints and of safetensors; nothing else may be removed."""
QUIET_SECONDS = 600.0
"""So old is a temporary file in the study's folder that nobody is writing it any more."""


@dataclass(frozen=True)
class Check:
    """What was found in a study's folder.

    Args:
        whole: How many runs are as they were written.
        damaged: The runs that are not.
        missing: Runs that the ledger says are trained and whose folders are gone.
        unscored: Runs that the ledger says are scored and some of whose scores are not there.
        unknown: Folders of runs that the study does not ask for; they are left alone.
    """

    whole: int
    damaged: Sequence[str]
    missing: Sequence[str]
    unscored: Sequence[str]
    unknown: Sequence[str]

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damaged or self.missing or self.unscored)

    def __str__(self) -> str:
        parts = [f"{self.whole:,} run{' is' if self.whole == 1 else 's are'} whole"]
        for word, runs in (
            ("damaged", self.damaged),
            ("missing", self.missing),
            ("with damaged scores", self.unscored),
            ("not of this study", self.unknown),
        ):
            if runs:
                some = ", ".join(runs[:3]) + (", …" if len(runs) > 3 else "")
                parts.append(f"{len(runs):,} {word} ({some})")
        return "; ".join(parts)


def check(
    store: Store, repair: bool = False, advance: Callable[[int], None] | None = None
) -> Check:
    """Verify the checksums of all runs; with `repair`, make the ledger again.

    Runs that are damaged are put aside into `damaged/`, never deleted, and trained again.

    Args:
        store: The study.
        repair: Whether to put things right; only while nobody is at work.
        advance: Told how many runs were verified, now and then.
    """
    # Before the folders are listed, so that what is done meanwhile does not seem to be missing.
    states = {} if repair else _states(store)
    asked = {config.hash: config for config in store.runs_of(store.study)[0]}
    folders = [f for f in sorted(store.runs.glob("[!.]*")) if f.is_dir()]
    whole = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for good in pool.map(intact, folders):
            whole.append(good)
            if advance is not None:
                advance(1)
    damaged = [f.name for f, good in zip(folders, whole, strict=True) if not good]
    found = {folder.name for folder in folders}
    scored = [run for run in found - set(damaged) if states.get(run) == "scored" and run in asked]
    result = Check(
        len(folders) - len(damaged),
        damaged,
        [run for run, state in states.items() if state in TRAINED and run not in found],
        sorted(run for run in scored if store.look(asked[run]).missing),
        sorted(found - asked.keys()),
    )
    if repair:
        _put_aside(store, [store.runs / run for run in damaged])
        put_checkpoints_aside(store)
        tidy(store)
        _make_ledger(store, asked)
    return result


def tidy(store: Store) -> None:
    """Remove what killed processes left half-written; only while nobody is at work."""
    checkpoint_files.tidy(store.runs)
    for path in store.runs.glob(".*"):
        if HALF_A_RUN.fullmatch(path.name):
            _remove(path)
    for path in store.runs.glob(f"*/.{SCORES}.*"):
        _remove(path)
    old = time.time() - QUIET_SECONDS
    for name in (STUDY, LEDGER, TABLE):
        for path in store.folder.glob(f".{name}.*"):
            if path.stat().st_mtime < old:
                _remove(path)


def put_checkpoints_aside(store: Store) -> None:
    """Put checkpoints that cannot be read into `damaged/`; their fleets begin anew."""
    _put_aside(store, damaged_checkpoints(store.runs))


def at_work(store: Store) -> bool:
    """Whether some process works on the study; not where the ledger cannot be read."""
    try:
        return bool(store.ledger.workers())
    except UnweaveError:
        return False


def _states(store: Store) -> dict[str, str]:
    return store.ledger.states() if (store.folder / LEDGER).exists() else {}


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _put_aside(store: Store, paths: Sequence[Path]) -> None:
    for path in paths:
        place = store.folder / DAMAGED / path.name.lstrip(".")
        place.parent.mkdir(exist_ok=True)
        free = place
        count = 1
        while free.exists():
            free, count = place.with_name(f"{place.name}-{count}"), count + 1
        path.rename(free)


def _make_ledger(store: Store, asked: Mapping[str, Config]) -> None:
    """Write a ledger that says what the folders say, and put it in place of the old one."""
    with whole_file(store.folder / LEDGER) as temporary:
        # What a killed process was writing to the old ledger must not reach the new one.
        (store.folder / f"{LEDGER}-journal").unlink(missing_ok=True)
        ledger = Ledger(temporary)
        runs = {**asked, **_saved(store)}
        store.write_down(ledger, list(runs.values()))
        store.write_down(ledger, list(asked.values()))
        present = [config for run, config in runs.items() if store.has(run)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(store.look, present))
        alike: dict[tuple[str, str | None], list[tuple[str, dict[str, float]]]] = {}
        for config, one in zip(present, found, strict=True):
            alike.setdefault((one.state, one.error), []).append((config.hash, one.results))
        for (state, error), rows in alike.items():
            names, results = [run for run, _ in rows], [numbers for _, numbers in rows]
            ledger.mark(names, state, error, results, store.asked if state == "scored" else None)
    store.renew()


def _saved(store: Store) -> dict[str, Config]:
    """All runs that have a folder, also those that the study no longer asks for."""
    configs = [_config(folder) for folder in store.runs.glob("[!.]*")]
    return {config.hash: config for config in configs if config is not None}


def _config(folder: Path) -> Config | None:
    try:
        config = read_config(folder)
    except (*UNREADABLE, UnweaveError):
        return None
    return config if config.hash == folder.name else None
