"""A study at a URL, any place that fsspec knows, such as `s3://bucket/study`, not in a folder.

Every process works in a folder of its own, hands in what it has done and brings what it needs:

    URL/study.json     and study.parquet and ledger.sqlite, as last handed in by who runs the study
    URL/runs/<run>/    SHA256SUMS comes last: without it the run is not there
    URL/fleets/        NAME.json has the runs of a checkpoint, and its file, which came before it

So whatever is killed, nothing that is half there is taken for whole. Others may have written what
is there, so names are checked before they become paths, runs are verified by their checksums, and
nothing is fetched that is larger than it can be.
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
from unweave.io.plain_data import MOST_BYTES, parse_json
from unweave.io.writing import cache_folder, whole_file, whole_folder
from unweave.models.files import CONFIG, CURVE, RUNS, SUMS, WEIGHTS, intact
from unweave.study.ledger import Ledger
from unweave.study.ledger_file import DamagedLedgerError
from unweave.study.store import LEDGER, STUDY, TOKEN, Store

__all__ = ["RemoteStore", "is_url", "open_store"]

FLEETS = "fleets"
SMALL = (CONFIG, SUMS, SCORES, STUDY)
"""Files of text, which are never large."""
RUN = re.compile(r"[0-9a-f]{16}")
NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
FILE = re.compile(r"[\w-]{1,96}\.safetensors", re.ASCII)
"""Names of runs, of checkpoints, and of their files."""


class _Fleet(NamedTuple):
    """A checkpoint at a URL: its runs, and the name of its file."""

    runs: list[str]
    file: str

    @classmethod
    def of(cls, said: Any) -> "_Fleet":
        """What `NAME.json` says; a ValueError where it is not as `hand_in_checkpoints` has it."""
        parts = said if isinstance(said, dict) else {}
        runs, file = parts.get("runs"), parts.get("file", "")
        if not isinstance(runs, list) or not runs or not all(_is_name(run, RUN) for run in runs):
            raise ValueError("it does not name runs")
        if not _is_name(file, FILE):
            raise ValueError("it does not name a checkpoint")
        return cls(runs, file)


def is_url(place: str | Path) -> bool:
    """Whether a study is kept at a URL."""
    return "://" in str(place)


def open_store(place: str | Path) -> Store:
    """The study in a folder, or at a URL; of the latter this machine's cache keeps the ledger."""
    if not is_url(place):
        return Store(place)
    name = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    store = RemoteStore(str(place), cache_folder() / "studies" / name)
    store.bring_ledger()
    return store


class RemoteStore(Store):
    """A study at a URL.

    Args:
        url: Where it is.
        folder: Where this process works.
        ledger: Its ledger, where that is not the one in the folder.
    """

    def __init__(self, url: str, folder: str | Path, ledger: Ledger | None = None) -> None:
        super().__init__(folder, ledger)
        self.url = url.rstrip("/")
        self.files, self.root = _file_system(self.url)
        self.handed_in: dict[Path, int] = {}

    @property
    def place(self) -> str:
        """Where people find it."""
        return self.url

    def has(self, run: str) -> bool:
        """Whether a run is trained and handed in."""
        return bool(self.files.exists(self._at(RUNS, run, SUMS)))

    def interrupted(self) -> list[list[str]]:
        """The runs of every checkpoint."""
        return [fleet.runs for fleet in self._fleets().values()]

    def bring(self, runs: Sequence[str]) -> None:
        """Have what was done of some runs in this folder: models, scores, the last checkpoint."""
        for run in runs:
            if not (self.runs / run).exists() and self.has(run):
                with whole_folder(self.runs / run) as temporary:
                    for name in (CONFIG, WEIGHTS, CURVE, SUMS):
                        self._get(self._at(RUNS, run, name), temporary / name)
                    if not intact(temporary):
                        raise UnweaveError(
                            f"the run at {self.url}/{RUNS}/{run} is damaged: its files do not "
                            f"match its {SUMS}; delete it there, and run the study again"
                        )
            if (self.runs / run).exists() and self.files.exists(self._at(RUNS, run, SCORES)):
                with whole_file(self.runs / run / SCORES) as temporary:
                    self._get(self._at(RUNS, run, SCORES), temporary)

    def bring_checkpoint(self, runs: Sequence[str]) -> None:
        """Have the checkpoint of some runs in this folder."""
        for name, fleet in self._fleets().items():
            path = self.runs / f"{CHECKPOINT}{name}.safetensors"
            if set(runs) <= set(fleet.runs) and not path.exists():
                with whole_file(path) as temporary:
                    self._get(self._at(FLEETS, fleet.file), temporary)
                self.handed_in[path] = path.stat().st_mtime_ns

    def hand_in(self, runs: Sequence[str]) -> None:
        """Put trained models and their scores in their place, and away with their checkpoints."""
        for run in runs:
            there = self.has(run)
            for name in (SCORES,) if there else (CONFIG, WEIGHTS, CURVE, SCORES, SUMS):
                if (self.runs / run / name).exists():
                    self._put(self.runs / run / name, self._at(RUNS, run, name))
        for name, fleet in self._fleets().items():
            if set(runs) & set(fleet.runs) and all(map(self.has, fleet.runs)):
                self._remove(self._at(FLEETS, f"{name}.json"), self._at(FLEETS, fleet.file))

    def hand_in_checkpoints(self) -> None:
        """Put every checkpoint that is newer here in its place."""
        for path, runs in checkpoints(self.runs).items():
            made = path.stat().st_mtime_ns
            if self.handed_in.get(path) == made:
                continue
            name = path.stem.removeprefix(CHECKPOINT)
            before = self._fleets().get(name)
            file = f"{name}-{made}.safetensors"
            self._put(path, self._at(FLEETS, file))
            said = json.dumps({"runs": runs, "file": file})
            self.files.pipe_file(self._at(FLEETS, f"{name}.json"), said.encode())
            if before is not None and before.file != file:
                self._remove(self._at(FLEETS, before.file))
            self.handed_in[path] = made

    def _open_ledger(self, create: bool) -> Ledger:
        try:
            return super()._open_ledger(create)
        except DamagedLedgerError as error:
            raise UnweaveError(
                f"the ledger of {self.url} cannot be used: {error.why}; delete "
                f"{self.folder / LEDGER} and {self.url}/{LEDGER}, and run the study again"
            ) from error

    def bring_study(self) -> None:
        """Have here what the study trains and measures."""
        self._bring_files(STUDY)

    def bring_ledger(self) -> None:
        """Have the study and its ledger here, as last handed in, if they are not here already."""
        self._bring_files(STUDY, LEDGER)

    def _bring_files(self, *names: str) -> None:
        for name in names:
            if not (self.folder / name).exists() and self.files.exists(self._at(name)):
                with whole_file(self.folder / name) as temporary:
                    self._get(self._at(name), temporary)

    def hand_in_ledger(self) -> None:
        """Put the study, its table and a copy of its ledger in their place."""
        with whole_file(self.folder / f"copy-of-{LEDGER}") as copy:
            _copy_database(self.ledger.path, copy)
            self._put(copy, self._at(LEDGER))
        for path in (self.folder / STUDY, self.table_file):
            if path.exists():
                self._put(path, self._at(path.name))

    def leave(self, token: str) -> None:
        """Leave a file by which others see that they are at the same place."""
        self._make_folder(self._at())
        self.files.pipe_file(self._at(token), b"")

    def take_back(self, token: str) -> None:
        """Remove such a file."""
        self._remove(self._at(token))

    def sees(self, token: str) -> bool:
        """Whether such a file is there."""
        return bool(self.files.exists(self._at(token)))

    def tokens(self) -> list[str]:
        """The names of all such files."""
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
                    self._check_size(path, MOST_BYTES)
                    found[name] = _Fleet.of(parse_json(self.files.cat_file(path)))
                except (FileNotFoundError, ValueError, UnweaveError):
                    continue  # another worker is done with it or is writing it, or it is not ours
        return found

    def _at(self, *parts: str) -> str:
        return "/".join([self.root, *parts])

    def _put(self, path: Path, place: str) -> None:
        self._make_folder(place.rpartition("/")[0])
        self.files.put_file(str(path), place)

    def _get(self, place: str, path: Path) -> None:
        small = place.rpartition("/")[2] in SMALL
        self._check_size(place, MOST_BYTES if small else shutil.disk_usage(path.parent).free)
        self.files.get_file(place, str(path))

    def _check_size(self, place: str, most: int) -> None:
        """An error for a file that is too large; some places do not tell."""
        size = self.files.size(place)
        if size is not None and size > most:
            raise UnweaveError(
                f"{place} has {size:,} bytes, more than the {most:,} there can be; see what it is"
            )

    def _make_folder(self, place: str) -> None:
        self.files.makedirs(place, exist_ok=True)

    def _remove(self, *places: str) -> None:
        for place in places:
            try:
                self.files.rm_file(place)
            except FileNotFoundError:
                continue  # by another worker


def _is_name(text: Any, kind: re.Pattern[str]) -> bool:
    return isinstance(text, str) and kind.fullmatch(text) is not None


def _file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec

        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UnweaveError(f"{url} cannot be reached: {error}") from error
    return files, root


def _copy_database(source: Path, target: Path) -> None:
    """A copy that is whole, whoever writes meanwhile."""
    with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
        here.backup(there)
