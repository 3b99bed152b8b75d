"""How a study's folder is put right: damaged files kept aside, leftovers removed, a new ledger."""

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import SCORES
from unweave.fleet import checkpoint
from unweave.fleet.checkpoint import CHECKPOINT, checkpoints, damaged_checkpoints
from unweave.io.extensions import ExtensionError
from unweave.io.writing import whole_file
from unweave.models.config import Config
from unweave.models.files import UNREADABLE, read_config
from unweave.study.ledger import Ledger
from unweave.study.ledger_file import DamagedLedgerError, beside
from unweave.study.results import Results
from unweave.study.store import LEDGER, STUDY, TABLE, Store
from unweave.study.tokens import dead_tokens, remove_dead_tokens

__all__ = [
    "config_of",
    "leftovers",
    "put_checkpoints_aside",
    "repair_study",
    "saved_config",
    "saved_runs",
    "tidy",
]

HALF_A_RUN = re.compile(rf"\.[0-9a-f]{{16}}\..*|\.\{CHECKPOINT}.*|\.tmp\w{{6}}")
"""Temporary names of runs, of checkpoints and of safetensors; nothing else may be removed."""
QUIET_SECONDS = 600.0
"""So old is a temporary file in the study's folder that nobody is writing it any more."""


def repair_study(
    store: Store, asked: Mapping[str, Config], bad: Sequence[Path], in_order: Sequence[str]
) -> None:
    """Put a study right; only while nobody is at work on it.

    Args:
        store: The study.
        asked: The runs that it asks for, by name.
        bad: Folders of runs to keep aside, which are then trained again.
        in_order: Names of runs that come first in the new ledger, as in the old one.
    """
    store.put_aside(bad)
    put_checkpoints_aside(store)
    tidy(store)
    known = [run for run in in_order if run in asked]
    make_ledger(store, {run: asked[run] for run in [*known, *asked]})
    if store.table_file.is_dir():
        store.put_aside([store.table_file])
    Results(store).write()


def tidy(store: Store) -> None:
    """Remove what killed processes left half-written; only while nobody is at work."""
    checkpoint.tidy(store.runs)
    for path in _half_written(store):
        _remove(path)
    remove_dead_tokens(store)


def leftovers(store: Store) -> list[str]:
    """The names of what `tidy` would remove."""
    done = []
    with suppress(UnweaveError):  # those that are damaged are not counted here
        done = [
            path
            for path, runs in checkpoints(store.runs).items()
            if all(store.has(run) for run in runs)
        ]
    return [path.name for path in (*done, *_half_written(store))] + dead_tokens(store)


def _half_written(store: Store) -> list[Path]:
    half = [path for path in store.runs.glob(".*") if HALF_A_RUN.fullmatch(path.name)]
    half += store.runs.glob(f"*/.{SCORES}.*")
    old = time.time() - QUIET_SECONDS
    for name in (STUDY, LEDGER, TABLE):
        for path in store.folder.glob(f".{name}.*"):
            with suppress(FileNotFoundError):  # whoever wrote it is done
                if path.stat().st_mtime < old:
                    half.append(path)
    return half


def put_checkpoints_aside(store: Store) -> None:
    """Put checkpoints that cannot be read into `damaged/`; their fleets begin anew."""
    store.put_aside(damaged_checkpoints(store.runs))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def make_ledger(store: Store, asked: Mapping[str, Config]) -> None:
    """Write a ledger that says what the folders say, and put it in place of the old one."""
    with whole_file(store.folder / LEDGER) as temporary:
        temporary.unlink()  # an empty file is no ledger
        ledger = Ledger(temporary)
        runs = {**asked, **saved_runs(store)}
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
        _put_damaged_ledger_aside(store)
    store.renew()


def _put_damaged_ledger_aside(store: Store) -> None:
    """With what a killed process was writing to it, which must not reach the new one."""
    path = store.folder / LEDGER
    try:
        Ledger(path)
    except DamagedLedgerError:
        store.put_aside(one for one in (path, *beside(path)) if os.path.lexists(one))


def saved_runs(store: Store) -> dict[str, Config]:
    """All runs that have a folder, also those that the study no longer asks for."""
    configs = [saved_config(folder) for folder in store.runs.glob("[!.]*")]
    return {config.hash: config for config in configs if config is not None}


def saved_config(folder: Path) -> Config | None:
    """The settings in the folder of a run; None where they are not those of its name."""
    try:
        config = read_config(folder)
    except ExtensionError:  # a run of a user's method is not damaged
        raise
    except (*UNREADABLE, UnweaveError):
        return None
    return config if config.hash == folder.name else None


def config_of(plain: Mapping[str, Any]) -> Config | None:
    """Settings as the ledger has them; None where they are none."""
    try:
        return Config.from_dict(plain)
    except ExtensionError:
        raise
    except (*UNREADABLE, UnweaveError):
        return None
