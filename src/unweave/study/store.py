"""The folder of a study.

study/
  study.json        the definition: what to train and which metrics to compute
  ledger.sqlite     states and claims of runs; can be rebuilt from the other files
  runs/<run>/       one folder per trained model, with its scores
  study.parquet     the study table, one row per model
  damaged/          damaged files that were moved away
"""

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch

from unweave.data.dataset import Dataset
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
from unweave.study.ledger import Ledger, RunOutcome
from unweave.study.run_folder import StudyMetric, metrics_of, missing, outcome
from unweave.study.sources import Source
from unweave.study.study import Study
from unweave.study.workers import TOKEN, driver_ended

__all__ = ["Store"]

STUDY, LEDGER, TABLE, DAMAGED = "study.json", "ledger.sqlite", "study.parquet", "damaged"
FILE = Schema(
    STUDY,
    f"entry of {STUDY}",
    {
        "study": Required[dict[str, Any]],
        "sources": Required[dict[str, dict[str, Any]]],
        "checksum": str,
    },
)


class _StudyFile(NamedTuple):
    """The content of `study.json`, and its modification time."""

    stamp: int
    study: Study
    sources: Mapping[str, Source]
    metrics: Sequence[StudyMetric]


class Store:
    """The folder of a study."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / RUNS
        refuse_inner_links(self.folder, (RUNS, DAMAGED, BEST))
        self.table_file = self.folder / TABLE
        self._last: _StudyFile | None = None
        self._data: dict[str, Dataset] = {}
        self._data_on_device: tuple[str, Dataset] | None = None

    @property
    def place(self) -> str:
        """The location of the study for messages."""
        return str(self.folder)

    @property
    def address(self) -> str:
        """The location of the study for other machines."""
        return str(self.folder.absolute())

    def has(self, run: str) -> bool:
        """Whether a run is trained."""
        return (self.runs / run).exists()

    def interrupted(self) -> list[list[str]]:
        """The runs of every checkpoint."""
        return list(checkpoints(self.runs).values())

    # Overridden by `RemoteStore` for studies at a URL; no transfer is needed in a folder.

    def download(self, runs: Sequence[str]) -> None:
        """Download models and scores of the given runs."""

    def download_checkpoint(self, runs: Sequence[str]) -> None:
        """Download the checkpoint of the given runs."""

    def download_states(self, configs: Sequence[Config]) -> None:
        """Download the saved runs that the given runs continue, with their optimiser states."""

    def upload(self, runs: Sequence[str]) -> None:
        """Upload trained models and their scores."""

    def upload_checkpoints(self) -> None:
        """Upload checkpoints."""

    def upload_ledger(self) -> None:
        """Upload the study file, the table and the ledger."""

    def write_token(self, token: str) -> None:
        """Write a file by which tasks on Ray recognise the location of the study."""
        (self.folder / token).touch()

    def remove_token(self, token: str) -> None:
        """Remove a token."""
        (self.folder / token).unlink(missing_ok=True)

    def has_token(self, token: str) -> bool:
        """Whether a token exists."""
        return (self.folder / token).exists()

    def tokens(self) -> list[str]:
        """The names of all tokens."""
        return [path.name for path in self.folder.glob(f"{TOKEN}*")]

    def dead_tokens(self) -> list[str]:
        """The tokens whose driver is no longer running."""
        ended = {token: driver_ended(token) for token in self.tokens()}
        unowned = None in ended.values() and not self.at_work()
        return [token for token, dead in ended.items() if (unowned if dead is None else dead)]

    def remove_dead_tokens(self) -> None:
        """Remove the tokens of killed drivers."""
        for token in self.dead_tokens():
            self.remove_token(token)

    def put_aside(self, paths: Iterable[Path]) -> None:
        """Move damaged files and folders to `damaged/` under an unused name."""
        for path in paths:
            target = self.folder / DAMAGED / path.name.lstrip(".")
            target.parent.mkdir(exist_ok=True)
            free = target
            count = 1
            while os.path.lexists(free):
                free, count = target.with_name(f"{target.name}-{count}"), count + 1
            path.rename(free)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger of the study."""
        return self._open_ledger(create=True)

    def require_ledger(self) -> None:
        """Raise an error if the ledger is missing or lists no runs."""
        self.ledger = self._open_ledger(create=False)

    def reopen_ledger(self) -> None:
        """Open the ledger again on next use, after it was replaced."""
        self.__dict__.pop("ledger", None)

    def _open_ledger(self, create: bool) -> Ledger:
        return Ledger(self.folder / LEDGER, create)

    def at_work(self) -> bool:
        """Whether a process is working on the study; False if the ledger is damaged."""
        try:
            return (self.folder / LEDGER).is_file() and bool(self.ledger.workers())
        except UnweaveError:
            return False

    def demand(self) -> None:
        """Raise an error if there is no study."""
        self._read()

    @property
    def study(self) -> Study:
        """The definition of the study."""
        return self._read().study

    @property
    def sources(self) -> Mapping[str, Source]:
        """All data sets that the study has ever used, by their origin as text."""
        return self._read().sources

    def source(self, config: Config) -> Source:
        """The data set of a run."""
        origin = origin_text(config.data)
        if origin not in self.sources:
            raise UnweaveError(
                f"the study in {self.folder} does not define the data set {origin}; run its "
                "study file again",
                subject=origin,
            )
        return self.sources[origin]

    def data_of(self, config: Config, device: torch.device | None = None) -> Dataset:
        """The data set of a run, cached; on a GPU, only the last one used stays in memory."""
        origin = origin_text(config.data)
        if origin not in self._data:
            self._data[origin] = self.source(config).open_as(config.data)
        if device is None or device.type == "cpu":
            return self._data[origin]
        if self._data_on_device is None or self._data_on_device[0] != origin:
            self._data_on_device = None  # free the memory before the next one is loaded
            self._data_on_device = (origin, self._data[origin].to(device))
        return self._data_on_device[1]

    @property
    def metrics(self) -> Sequence[StudyMetric]:
        """The metrics to compute."""
        return self._read().metrics

    @property
    def metrics_hash(self) -> str:
        """Hash of the metrics and their versions."""
        names = sorted((metric.name, metric.sampled) for metric in self.metrics)
        custom = {m.name: protocol_of(m.metric) for m in self.metrics if is_reference(m.name)}
        parts = [PROTOCOL, names, *([custom] if custom else [])]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def missing(self, config: Config) -> list[StudyMetric]:
        """The metrics that are still to be computed for a trained run."""
        return missing(self.runs / config.hash, config, self.metrics)

    def outcome(self, config: Config, problems: Sequence[str] = ()) -> RunOutcome:
        """The outcome of a run as read from its folder; `problems` explain missing scores."""
        # Read the hash first: if the metrics change in between, the run is scored again.
        metrics_hash = self.metrics_hash
        found = outcome(self.runs / config.hash, config, self.metrics, problems)
        return found._replace(scored_for=metrics_hash) if found.state == "scored" else found

    def configs(self, runs: Sequence[str]) -> list[Config]:
        """The settings of the given runs, from the ledger."""
        found = self.ledger.configs(runs)
        configs = [Config.from_dict(found[run]) for run in runs]
        for run, config in zip(runs, configs, strict=True):
            if config.hash != run:
                raise UnweaveError(
                    f"the ledger of {self.place} has the settings of another run for {run}; "
                    f"`unweave study check {self.place} --repair` rebuilds it from the run "
                    "folders",
                    subject=run,
                    value=config.hash,
                )
        return configs

    def plan(self, study: Study) -> dict[str, str]:
        """Save a study and its runs; return the errors of data sets that cannot be opened."""
        runs: list[Config] = []
        sources, errors = {}, {}
        for source in study.sources:
            try:
                runs += study.runs_on(source)
                sources[origin_text(source.origin)] = source.to_dict()
            except UnweaveError as error:
                errors[source.name] = str(error)
        before = self._previous_content()
        content: dict[str, Any] = {
            "study": study.to_dict(),
            "sources": {**before["sources"], **sources},
        }
        content["checksum"] = _checksum(content)
        if content != before:
            with whole_file(self.folder / STUDY) as temporary:
                temporary.write_text(json.dumps(content, indent=1) + "\n")
        if errors:
            runs += self._runs_on_missing_data(study, errors)
        self.plan_runs(self.ledger, runs)
        self.ledger.reopen_scored(self.metrics_hash)
        return errors

    def _runs_on_missing_data(self, study: Study, names: Container[str]) -> list[Config]:
        """Runs in the ledger that belong to the study but whose data are not available now."""
        missing = [source.to_dict() for source in study.sources if source.name in names]
        origins = {text for text, source in self.sources.items() if source.to_dict() in missing}
        plain = self.ledger.configs(list(self.ledger.states())).values()
        return [c for c in map(Config.from_dict, plain) if origin_text(c.data) in origins]

    def recorded_runs(self, latest: Container[str]) -> list[Config]:
        """The runs of the study on the data sets recorded in `study.json`, without loading them.

        Args:
            latest: Origins as text to prefer if the images of a data set have changed over time.
        """
        runs: list[Config] = []
        for source in self.study.sources:
            plain = source.to_dict()
            origins = [text for text, one in self.sources.items() if one.to_dict() == plain]
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

    @staticmethod
    def plan_runs(ledger: Ledger, runs: Sequence[Config]) -> None:
        """Set the runs that a ledger lists as part of the study."""
        names = {config.hash: config for config in runs}
        ledger.plan(
            {name: config.to_dict() for name, config in names.items()},
            {name: config.kind for name, config in names.items()},
        )

    def _read(self) -> _StudyFile:
        """Read `study.json`, again only after it has changed."""
        path = self.folder / STUDY
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if self._last is None or self._last.stamp != stamp:
            content = self._content()
            study = Study.from_dict(content["study"])
            sources = {text: Source.of(one) for text, one in content["sources"].items()}
            self._last = _StudyFile(stamp, study, sources, metrics_of(study))
        return self._last

    def _content(self) -> dict[str, Any]:
        path = self.folder / STUDY
        try:
            content = FILE.check(read_json(path, file_names=True))
            # The first version had no checksum.
            if "checksum" in content and content["checksum"] != _checksum(content):
                raise ValueError("its checksum is wrong")  # noqa: TRY301 - reported below
        except FileNotFoundError:
            raise UnweaveError(
                f"there is no study in {self.folder}; start one with "
                f"`unweave study run FILE --out {self.folder}`",
                subject=self.folder,
            ) from None
        except (OSError, ValueError, SchemaError) as error:
            raise UnweaveError(
                f"cannot read {path}: {error}; run `unweave study run` with the study file to "
                "write it again",
                subject=path,
            ) from error
        return content

    def _previous_content(self) -> dict[str, Any]:
        """The content of `study.json` before it is replaced; a damaged file is moved away."""
        path = self.folder / STUDY
        if os.path.lexists(path):
            try:
                return self._content()
            except UnweaveError:
                say(f"{path} was damaged; moved it to {self.folder / DAMAGED} and wrote a new one")
                self.put_aside([path])
        return {"sources": {}}


def _checksum(content: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps([content["study"], content["sources"]]))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
