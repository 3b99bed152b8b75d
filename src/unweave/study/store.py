"""The folder of a study: what lies where.

study/
  study.json        what to train and measure
  ledger.sqlite     states and claims; can be made again from the rest
  runs/<run>/       a folder per trained model, with its scores
  study.parquet     the table, one row per model
  damaged/          files that were not as they had been written, kept aside
"""

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from unweave.data.origin import check_origin
from unweave.errors import UnweaveError
from unweave.evaluation.score_cache import PROTOCOL, origin_text, protocol_of
from unweave.fleet.checkpoint import checkpoints
from unweave.io.extensions import is_reference
from unweave.io.paths import refuse_inner_links
from unweave.io.plain_data import parse_json, read_json
from unweave.io.schema import Required, Schema, SchemaError
from unweave.io.writing import whole_file
from unweave.models.config import Config
from unweave.models.files import BEST, RUNS
from unweave.progress import say
from unweave.study.ledger import Ledger
from unweave.study.run_folder import Found, Wanted, look, wanted_by
from unweave.study.study import Source, Study

__all__ = ["Store"]

STUDY, LEDGER, TABLE, DAMAGED = "study.json", "ledger.sqlite", "study.parquet", "damaged"
TOKEN = ".ray-"  # noqa: S105 - no password
"""What the names of files begin with by which workers on Ray see that they share a folder."""


FILE = Schema(
    STUDY,
    f"entry of {STUDY}",
    {
        "study": Required[dict[str, Any]],
        "sources": Required[dict[str, dict[str, Any]]],
        "checksum": str,
    },
)


@dataclass(frozen=True)
class _Read:
    """What was read of `study.json`, and when that was written."""

    stamp: int
    study: Study
    sources: Mapping[str, Source]
    wanted: Sequence[Wanted]

    @classmethod
    def of(cls, said: Mapping[str, Any], stamp: int) -> "_Read":
        study = Study.from_dict(said["study"])
        sources = {text: Source.of(one) for text, one in said["sources"].items()}
        return cls(stamp, study, sources, wanted_by(study))


class Store:
    """The folder of a study.

    Args:
        folder: Where it is.
        ledger: Its ledger, where that is not the one in its folder.
    """

    def __init__(self, folder: str | Path, ledger: Ledger | None = None) -> None:
        self.folder = Path(folder)
        self._given = ledger
        self._last: _Read | None = None
        self.runs = self.folder / RUNS
        refuse_inner_links(self.folder, (RUNS, DAMAGED, BEST))
        self.table_file = self.folder / TABLE

    @property
    def place(self) -> str:
        """Where people find it."""
        return str(self.folder)

    def has(self, run: str) -> bool:
        """Whether a run is trained."""
        return (self.runs / run).exists()

    def interrupted(self) -> list[list[str]]:
        """The runs of every checkpoint."""
        return list(checkpoints(self.runs).values())

    # What is elsewhere (`RemoteStore`) is brought before it is used and handed in when it is done.

    def bring(self, runs: Sequence[str]) -> None:
        """Have what was done of some runs in this folder."""

    def bring_checkpoint(self, runs: Sequence[str]) -> None:
        """Have the checkpoint of some runs in this folder."""

    def hand_in(self, runs: Sequence[str]) -> None:
        """Put trained models and their scores where others find them."""

    def hand_in_checkpoints(self) -> None:
        """Put checkpoints where others find them."""

    def hand_in_ledger(self) -> None:
        """Put the study, its table and its ledger where others find them."""

    def leave(self, token: str) -> None:
        """Leave a file by which others see that they are at the same place."""
        (self.folder / token).touch()

    def take_back(self, token: str) -> None:
        """Remove such a file."""
        (self.folder / token).unlink(missing_ok=True)

    def sees(self, token: str) -> bool:
        """Whether such a file is there."""
        return (self.folder / token).exists()

    def tokens(self) -> list[str]:
        """The names of all such files."""
        return [path.name for path in self.folder.glob(f"{TOKEN}*")]

    def put_aside(self, paths: Iterable[Path]) -> None:
        """Keep damaged files and folders in `damaged/`, under a name that is free there."""
        for path in paths:
            place = self.folder / DAMAGED / path.name.lstrip(".")
            place.parent.mkdir(exist_ok=True)
            free = place
            count = 1
            while os.path.lexists(free):
                free, count = place.with_name(f"{place.name}-{count}"), count + 1
            path.rename(free)

    @cached_property
    def ledger(self) -> Ledger:
        """Its ledger."""
        return self._given or self._open_ledger(create=True)

    def demand_ledger(self) -> None:
        """An error where the ledger is missing, or lists no runs."""
        if self._given is None:
            self.ledger = self._open_ledger(create=False)

    def _open_ledger(self, create: bool) -> Ledger:
        return Ledger(self.folder / LEDGER, create)

    def demand(self) -> None:
        """An error where there is no study."""
        self._read()

    @property
    def study(self) -> Study:
        """What it trains and measures."""
        return self._read().study

    @property
    def sources(self) -> Mapping[str, Source]:
        """Every data set that was ever asked for, by its origin as text."""
        return self._read().sources

    def source(self, config: Config) -> Source:
        """The data set of a run."""
        origin = origin_text(config.data)
        if origin not in self.sources:
            raise UnweaveError(
                f"the study in {self.folder} does not say how to load {origin}; run its file again"
            )
        return self.sources[origin]

    @property
    def wanted(self) -> Sequence[Wanted]:
        """What to measure."""
        return self._read().wanted

    @property
    def asked(self) -> str:
        """A name for all that is to be measured."""
        names = sorted((wanted.name, wanted.sampled) for wanted in self.wanted)
        users = {w.name: protocol_of(w.metric) for w in self.wanted if is_reference(w.name)}
        said = [PROTOCOL, names, *([users] if users else [])]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def plan(self, study: Study) -> tuple[int, dict[str, str]]:
        """Write down a study and its runs.

        Returns:
            How many runs are new, and for each data set that cannot be had, why.
        """
        runs, sources, errors = self.runs_of(study)
        before = self._said_before()
        said: dict[str, Any] = {
            "study": study.to_dict(),
            "sources": {**before["sources"], **{t: s.to_dict() for t, s in sources.items()}},
        }
        said["checksum"] = _checksum(said)
        if said != before:
            with whole_file(self.folder / STUDY) as temporary:
                temporary.write_text(json.dumps(said, indent=1) + "\n")
        if errors:
            plain = self.ledger.configs(list(self.ledger.states())).values()
            runs += self.on_lost_data(study, errors, map(Config.from_dict, plain))
        added = self.write_down(self.ledger, runs)
        self.ledger.reopen_scored(self.asked)
        return added, errors

    def runs_of(self, study: Study) -> tuple[list[Config], dict[str, Source], dict[str, str]]:
        """The runs of a study, its data sets by origin, and why some of these cannot be had."""
        runs: list[Config] = []
        sources, errors = {}, {}
        for source in study.sources:
            try:
                runs += study.runs_on(source)
                sources[origin_text(source.origin)] = source
            except UnweaveError as error:
                errors[source.name] = str(error)
        return runs, sources, errors

    def recorded_runs(self, latest: Container[str]) -> list[Config]:
        """The runs of the study, on its data sets as `study.json` records them; none is opened.

        Args:
            latest: Origins, as text, that count where one data set had different images in turn.
        """
        runs: list[Config] = []
        for source in self.study.sources:
            said = source.to_dict()
            origins = [text for text, one in self.sources.items() if one.to_dict() == said]
            for text in [text for text in origins if text in latest] or origins[-1:]:
                runs += self.study.runs_of_origin(self._origin(text))
        return runs

    def _origin(self, text: str) -> Sequence[Any]:
        try:
            origin = parse_json(text)
        except ValueError as error:
            raise UnweaveError(f"{self.folder / STUDY} is damaged ({error})") from error
        check_origin(origin)
        return tuple(origin)

    def on_lost_data(
        self, study: Study, names: Container[str], configs: Iterable[Config]
    ) -> list[Config]:
        """Those of some runs that a study still asks for, on data that are not available now.

        Args:
            study: The study.
            names: Its data sets that are not available.
            configs: The runs.
        """
        lost = [source.to_dict() for source in study.sources if source.name in names]
        origins = {text for text, source in self.sources.items() if source.to_dict() in lost}
        return [config for config in configs if origin_text(config.data) in origins]

    @staticmethod
    def write_down(ledger: Ledger, runs: Sequence[Config]) -> int:
        """Make these the runs that a ledger asks for; how many are new."""
        names = {config.hash: config for config in runs}
        return ledger.plan(
            {name: config.to_dict() for name, config in names.items()},
            {name: config.fleet for name, config in names.items()},
        )

    def configs(self, runs: Sequence[str]) -> list[Config]:
        """The settings of some runs, from the ledger."""
        found = self.ledger.configs(runs)
        configs = [Config.from_dict(found[run]) for run in runs]
        for run, config in zip(runs, configs, strict=True):
            if config.hash != run:
                raise UnweaveError(
                    f"the ledger of {self.place} has the settings of another run for {run}; "
                    f"`unweave study check {self.place} --repair` rebuilds it from the run folders"
                )
        return configs

    def look(self, config: Config) -> Found:
        """What the folder of a run says has become of it."""
        return look(self.runs / config.hash, config, self.wanted)

    def renew(self) -> None:
        """Open the ledger anew, after it was replaced."""
        self.__dict__.pop("ledger", None)

    def _read(self) -> "_Read":
        """What `study.json` says; read again when it has changed, by another process perhaps."""
        path = self.folder / STUDY
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if self._last is None or self._last.stamp != stamp:
            said = self._said()
            self._last = _Read.of(said, stamp)
        return self._last

    def _said(self) -> dict[str, Any]:
        path = self.folder / STUDY
        try:
            said = read_json(path, file_names=True)
            _check_said(said)
        except FileNotFoundError:
            raise UnweaveError(
                f"there is no study in {self.folder}; `unweave study run FILE --out {self.folder}`"
                " starts one"
            ) from None
        except (OSError, ValueError, SchemaError) as error:
            raise UnweaveError(
                f"{path} cannot be read ({error}); `unweave study run` with the study's file "
                "writes it again"
            ) from error
        return dict(said)

    def _said_before(self) -> dict[str, Any]:
        """What `study.json` says, before another study is written there; a damaged one goes."""
        path = self.folder / STUDY
        if os.path.lexists(path):
            try:
                return self._said()
            except UnweaveError:
                say(f"{path} was damaged; it is kept in {self.folder / DAMAGED} and written again")
                self.put_aside([path])
        return {"sources": {}}


def _check_said(said: Any) -> None:
    """An error where `study.json` does not hold what `Store.plan` writes."""
    FILE.check(said)
    # There was no checksum in the first edition.
    if "checksum" in said and said["checksum"] != _checksum(said):
        raise ValueError("its checksum is wrong")


def _checksum(said: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps([said["study"], said["sources"]]))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
