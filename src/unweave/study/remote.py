"""Studies stored at a URL that fsspec supports, such as `s3://bucket/study`.

Every process works in its own local folder, uploads its results and downloads what it needs:

    URL/study.json     also study.parquet and ledger.sqlite, uploaded by the process in charge
    URL/runs/<run>/    SHA256SUMS is uploaded last; without it the run is incomplete
    URL/states/        an empty file LINEAGE-STEPS-RUN for each run with its optimiser state
    URL/fleets/        checkpoints; NAME.json, uploaded last, lists the runs and the file

An incomplete upload is therefore never mistaken for a complete one. The files may come from
someone else, so names are checked before they become paths, runs are verified by their checksums,
and file sizes are limited.
"""

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import SCORES
from unweave.fleet.checkpoint import CHECKPOINT, checkpoints
from unweave.io.plain_data import MAX_BYTES, parse_json
from unweave.io.writing import cache_folder, whole_file, whole_folder
from unweave.models.config import Config
from unweave.models.files import (
    CONFIG,
    CURVE,
    OPTIMISER,
    RUNS,
    SUMS,
    WEIGHTS,
    intact,
    read_settings,
)
from unweave.models.lineage import lineage, lineage_of
from unweave.study.ledger import Ledger
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.store import LEDGER, STUDY, Store
from unweave.study.workers import TOKEN

__all__ = ["RemoteStore", "is_url", "open_store"]

FLEETS, STATES = "fleets", "states"
SMALL = (CONFIG, SUMS, SCORES, STUDY)
"""Text files, which are never large."""
RUN = re.compile(r"[0-9a-f]{16}")
STATE = re.compile(r"([0-9a-f]{16})-(\d{1,10})-([0-9a-f]{16})", re.ASCII)
NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
FILE = re.compile(r"[\w-]{1,96}\.safetensors", re.ASCII)
"""Patterns for the names of runs, of files in `states`, of checkpoints, and of their files."""


class _Fleet(NamedTuple):
    """A checkpoint at a URL: its runs and the name of its file."""

    runs: list[str]
    file: str

    @classmethod
    def of(cls, content: Any) -> "_Fleet":
        """Parse the content of `NAME.json`, and raise a ValueError if it is invalid."""
        parts = content if isinstance(content, dict) else {}
        runs, file = parts.get("runs"), parts.get("file", "")
        if not isinstance(runs, list) or not runs or not all(_is_name(run, RUN) for run in runs):
            raise ValueError("it does not list runs")
        if not _is_name(file, FILE):
            raise ValueError("it does not name a checkpoint")
        return cls(runs, file)


def is_url(place: str | Path) -> bool:
    """Whether the location of a study is a URL."""
    return "://" in str(place)


def open_store(place: str | Path) -> Store:
    """Open the study in a folder, or at a URL with a local copy in the cache folder."""
    if not is_url(place):
        return Store(place)
    name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    store = RemoteStore(str(place), cache_folder() / "studies" / name)
    store.download_files(STUDY, LEDGER)
    return store


class RemoteStore(Store):
    """A study at a URL, with a local working folder for this process; methods as in `Store`."""

    def __init__(self, url: str, folder: str | Path) -> None:
        super().__init__(folder)
        self.url = url.rstrip("/")
        self.files, self.root = _file_system(self.url)
        self.uploaded: dict[Path, int] = {}

    @property
    def place(self) -> str:
        return self.url

    @property
    def address(self) -> str:
        return self.url

    def has(self, run: str) -> bool:
        return bool(self.files.exists(self._at(RUNS, run, SUMS)))

    def interrupted(self) -> list[list[str]]:
        return [fleet.runs for fleet in self._fleets().values()]

    def download(self, runs: Sequence[str]) -> None:
        self._download(runs, (CONFIG, WEIGHTS, CURVE, SUMS))

    def download_states(self, configs: Sequence[Config]) -> None:
        self.files.invalidate_cache()
        if not self.files.exists(self._at(STATES)):
            return
        names = [path.rpartition("/")[2] for path in self.files.ls(self._at(STATES), detail=False)]
        found = [match.groups() for match in map(STATE.fullmatch, names) if match is not None]
        for config in configs:
            shorter = [
                (int(steps), run)
                for name, steps, run in found
                if name == lineage(config) and int(steps) < config.steps
            ]
            run = max(shorter, default=(0, ""))[1]
            if not run or (self.runs / run / OPTIMISER).exists():
                continue
            if self.files.exists(self._at(RUNS, run, OPTIMISER)):
                # It may be here without its state, for scoring or as a first-stage model.
                shutil.rmtree(self.runs / run, ignore_errors=True)
                self._download([run], (CONFIG, WEIGHTS, CURVE, OPTIMISER, SUMS))

    def _download(self, runs: Sequence[str], names: Sequence[str]) -> None:
        """Download the given files of runs, unless they are here, and the scores."""
        for run in runs:
            if not (self.runs / run).exists() and self.has(run):
                with whole_folder(self.runs / run) as temporary:
                    for name in names:
                        self._get(self._at(RUNS, run, name), temporary / name)
                    if not intact(temporary):
                        raise UnweaveError(
                            f"the run at {self.url}/{RUNS}/{run} is damaged: its files do not "
                            f"match its {SUMS}; delete it and run the study again",
                            subject=run,
                        )
            if (self.runs / run).exists() and self.files.exists(self._at(RUNS, run, SCORES)):
                with whole_file(self.runs / run / SCORES) as temporary:
                    self._get(self._at(RUNS, run, SCORES), temporary)

    def download_checkpoint(self, runs: Sequence[str]) -> None:
        for name, fleet in self._fleets().items():
            path = self.runs / f"{CHECKPOINT}{name}.safetensors"
            if set(runs) <= set(fleet.runs) and not path.exists():
                with whole_file(path) as temporary:
                    self._get(self._at(FLEETS, fleet.file), temporary)
                self.uploaded[path] = path.stat().st_mtime_ns

    def upload(self, runs: Sequence[str]) -> None:
        """Upload trained models and their scores, and delete their checkpoints."""
        for run in runs:
            there = self.has(run)
            for name in (SCORES,) if there else (CONFIG, WEIGHTS, CURVE, SCORES, OPTIMISER, SUMS):
                if (self.runs / run / name).exists():
                    self._put(self.runs / run / name, self._at(RUNS, run, name))
            if not there and (self.runs / run / OPTIMISER).exists():
                plain = read_settings(self.runs / run)
                name = f"{lineage_of(plain)}-{plain['steps']}-{run}"
                self.files.makedirs(self._at(STATES), exist_ok=True)
                self.files.pipe_file(self._at(STATES, name), b"")
        for name, fleet in self._fleets().items():
            if set(runs) & set(fleet.runs) and all(map(self.has, fleet.runs)):
                self._remove(self._at(FLEETS, f"{name}.json"), self._at(FLEETS, fleet.file))

    def upload_checkpoints(self) -> None:
        for path, runs in checkpoints(self.runs).items():
            made = path.stat().st_mtime_ns
            if self.uploaded.get(path) == made:
                continue
            name = path.stem.removeprefix(CHECKPOINT)
            before = self._fleets().get(name)
            file = f"{name}-{made}.safetensors"
            self._put(path, self._at(FLEETS, file))
            content = json.dumps({"runs": runs, "file": file})
            self.files.pipe_file(self._at(FLEETS, f"{name}.json"), content.encode())
            if before is not None and before.file != file:
                self._remove(self._at(FLEETS, before.file))
            self.uploaded[path] = made

    def _open_ledger(self, create: bool) -> Ledger:
        try:
            return super()._open_ledger(create)
        except DamagedLedgerError as error:
            raise UnweaveError(
                f"the ledger of {self.url} cannot be used: {error.why}; delete "
                f"{self.folder / LEDGER} and {self.url}/{LEDGER}, and run the study again",
                subject=f"{self.url}/{LEDGER}",
                value=error.why,
            ) from error

    def download_files(self, *names: str) -> None:
        """Download `study.json` or the ledger unless there is a local copy."""
        for name in names:
            if not (self.folder / name).exists() and self.files.exists(self._at(name)):
                with whole_file(self.folder / name) as temporary:
                    self._get(self._at(name), temporary)

    def upload_ledger(self) -> None:
        with whole_file(self.folder / f"copy-of-{LEDGER}") as copy:
            _copy_database(self.ledger.path, copy)
            self._put(copy, self._at(LEDGER))
        for path in (self.folder / STUDY, self.table_file):
            if path.exists():
                self._put(path, self._at(path.name))

    def write_token(self, token: str) -> None:
        self.files.makedirs(self._at(), exist_ok=True)
        self.files.pipe_file(self._at(token), b"")

    def remove_token(self, token: str) -> None:
        self._remove(self._at(token))

    def has_token(self, token: str) -> bool:
        return bool(self.files.exists(self._at(token)))

    def tokens(self) -> list[str]:
        self.files.invalidate_cache()
        if not self.files.exists(self._at()):
            return []
        names = [path.rpartition("/")[2] for path in self.files.ls(self._at(), detail=False)]
        return [name for name in names if name.startswith(TOKEN)]

    def _fleets(self) -> dict[str, _Fleet]:
        self.files.invalidate_cache()
        if not self.files.exists(self._at(FLEETS)):
            return {}
        found = {}
        for path in self.files.ls(self._at(FLEETS), detail=False):
            name = path.rpartition("/")[2].removesuffix(".json")
            if path.endswith(".json") and _is_name(name, NAME):
                try:
                    self._check_size(path, MAX_BYTES)
                    found[name] = _Fleet.of(parse_json(self.files.cat_file(path)))
                except (FileNotFoundError, ValueError, UnweaveError):
                    continue  # being deleted or written by another worker, or not from unweave
        return found

    def _at(self, *parts: str) -> str:
        return "/".join([self.root, *parts])

    def _put(self, path: Path, url: str) -> None:
        self.files.makedirs(url.rpartition("/")[0], exist_ok=True)
        self.files.put_file(str(path), url)

    def _get(self, url: str, path: Path) -> None:
        small = url.rpartition("/")[2] in SMALL
        self._check_size(url, MAX_BYTES if small else shutil.disk_usage(path.parent).free)
        self.files.get_file(url, str(path))

    def _check_size(self, url: str, limit: int) -> None:
        """Raise an error if a file is too large; some file systems do not report sizes."""
        size = self.files.size(url)
        if size is not None and size > limit:
            raise UnweaveError(
                f"{url} must have at most {limit:,} bytes, got {size:,}; check the file",
                subject=url,
                value=size,
            )

    def _remove(self, *urls: str) -> None:
        for url in urls:
            try:
                self.files.rm_file(url)
            except FileNotFoundError:
                continue  # removed by another worker


def _is_name(text: Any, kind: re.Pattern[str]) -> bool:
    return isinstance(text, str) and kind.fullmatch(text) is not None


def _file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UnweaveError(f"cannot open {url}: {error}", subject=url) from error
    return files, root


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database consistently, even while another process is writing."""
    with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
        here.backup(there)
