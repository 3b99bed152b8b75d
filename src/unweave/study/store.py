"""The folder of a study: what lies where, whether it is whole, and the ledger made again from it.

study/
  study.json        what to train and measure
  ledger.sqlite     states and claims; can be made again from the rest
  runs/<run>/       a folder per trained model, with its scores
  study.parquet     the table, one row per model
  damaged/          runs whose files were not those that had been written
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import safetensors

from unweave.data.cache import whole_file
from unweave.errors import UnweaveError
from unweave.evaluation.choice import choose
from unweave.evaluation.evaluate import column
from unweave.evaluation.kept import SCORES, Key, Outcome, kept, origin_text
from unweave.fleet.config import Config
from unweave.fleet.models import CONFIG, CURVE, WEIGHTS, intact
from unweave.fleet.train import CHECKPOINT, checkpoints
from unweave.metrics import Metric
from unweave.study.columns import SAMPLED
from unweave.study.ledger import Ledger
from unweave.study.study import Source, Study

__all__ = ["Check", "Store", "Wanted"]

STUDY, LEDGER, RUNS, TABLE, DAMAGED = (
    "study.json",
    "ledger.sqlite",
    "runs",
    "study.parquet",
    "damaged",
)
SEED = 0
"""Of the metrics, as in the large study."""


@dataclass(frozen=True)
class Wanted:
    """A metric that a study wants, of mean or of sampled codes."""

    metric: Metric
    sampled: bool

    def key(self, config: Config) -> Key:
        """Under which its outcome is kept beside a run."""
        codes: Any = "sampled" if self.sampled else "mean"
        return Key(self.metric.name, codes, SEED, origin_text(config.data))

    def columns(self, outcome: Outcome) -> dict[str, float]:
        """Its numbers by the names of their columns."""
        start = SAMPLED if self.sampled else ""
        return {start + column(self.metric, p): s for p, s in outcome.scores.items()}


@dataclass(frozen=True)
class Found:
    """What the folder of a run says.

    Args:
        state: What has become of it, as in the ledger.
        results: Its last losses, and the scores that are kept.
        error: Why some metrics could not score it.
        missing: What is still to be measured.
    """

    state: str
    results: dict[str, float]
    error: str | None
    missing: Sequence[Wanted]


@dataclass(frozen=True)
class Check:
    """What was found in a study's folder.

    Args:
        whole: How many runs are as they were written.
        damaged: The runs that are not.
        missing: Runs that the ledger says are trained and whose folders are gone.
        unknown: Folders of runs that the study does not ask for; they are left alone.
    """

    whole: int
    damaged: Sequence[str]
    missing: Sequence[str]
    unknown: Sequence[str]

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damaged or self.missing)

    def __str__(self) -> str:
        parts = [f"{self.whole:,} runs are whole"]
        for word, runs in (
            ("damaged", self.damaged),
            ("missing", self.missing),
            ("not of this study", self.unknown),
        ):
            if runs:
                some = ", ".join(runs[:3]) + (", …" if len(runs) > 3 else "")
                parts.append(f"{len(runs):,} {word} ({some})")
        return "; ".join(parts)


class Store:
    """The folder of a study.

    Args:
        folder: Where it is.
        ledger: Its ledger, where that is not the one in its folder.
    """

    def __init__(self, folder: str | Path, ledger: Ledger | None = None) -> None:
        self.folder = Path(folder)
        self._given = ledger
        self.runs = self.folder / RUNS
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

    @cached_property
    def ledger(self) -> Ledger:
        """Its ledger."""
        return self._given or Ledger(self.folder / LEDGER)

    @cached_property
    def study(self) -> Study:
        """What it trains and measures."""
        return Study.from_dict(self._said()["study"])

    @cached_property
    def sources(self) -> dict[str, Source]:
        """Every data set that was ever asked for, by its origin as text."""
        return {text: Source.of(said) for text, said in self._said()["sources"].items()}

    def source(self, config: Config) -> Source:
        """The data set of a run."""
        origin = origin_text(config.data)
        if origin not in self.sources:
            # Another process may have added to the study.
            self._forget()
        if origin not in self.sources:
            raise UnweaveError(
                f"the study in {self.folder} does not say how to load {origin}; run its file again"
            )
        return self.sources[origin]

    @cached_property
    def wanted(self) -> list[Wanted]:
        """What to measure."""
        study = self.study
        mean = [Wanted(metric, False) for metric in choose(study.metrics)] if study.metrics else []
        sampled = choose(study.sampled) if study.sampled else []
        return mean + [Wanted(m, True) for m in sampled if m.needs != "posterior"]

    def plan(self, study: Study) -> tuple[int, dict[str, str]]:
        """Write down a study and its runs.

        Returns:
            How many runs are new, and for each data set that cannot be had, why.
        """
        runs, sources, errors = self._runs(study)
        before = self._said() if (self.folder / STUDY).exists() else {"sources": {}}
        said = {
            "study": study.to_dict(),
            "sources": {**before["sources"], **{t: s.to_dict() for t, s in sources.items()}},
        }
        if said != before:
            with whole_file(self.folder / STUDY) as temporary:
                temporary.write_text(json.dumps(said, indent=1) + "\n")
        self._forget()
        asked = ("metrics", "sampled")
        if [said["study"][n] for n in asked] != [before.get("study", {}).get(n) for n in asked]:
            # Whoever looks at them finds what is missing.
            done = [run for run, state in self._states() if state == "scored"]
            self.ledger.reopen(done, "trained")
        return self._write_down(self.ledger, runs), errors

    def _runs(self, study: Study) -> tuple[list[Config], dict[str, Source], dict[str, str]]:
        runs: list[Config] = []
        sources, errors = {}, {}
        for source in study.sources:
            try:
                runs += study.runs_on(source)
                sources[origin_text(source.origin)] = source
            except UnweaveError as error:
                errors[source.name] = str(error)
        return runs, sources, errors

    def _write_down(self, ledger: Ledger, runs: Sequence[Config]) -> int:
        names = {config.hash: config for config in runs}
        return ledger.plan(
            {name: config.to_dict() for name, config in names.items()},
            {name: config.fleet for name, config in names.items()},
        )

    def look(self, config: Config) -> "Found":
        """What the folder of a run says has become of it."""
        folder = self.runs / config.hash
        if not folder.exists():
            return Found("planned", {}, None, self.wanted)
        outcomes = kept(folder)
        results, errors, missing = _last_losses(folder / CURVE), [], []
        for wanted in self.wanted:
            outcome = outcomes.get(wanted.key(config))
            if outcome is None:
                missing.append(wanted)
                continue
            results |= wanted.columns(outcome)
            if outcome.error:
                errors.append(f"no {wanted.metric.name}: {outcome.error}")
        state = "trained" if missing else "scored"
        said = "; ".join(dict.fromkeys(errors)) or None
        return Found("diverged" if _diverged(folder) else state, results, said, missing)

    def check(self, repair: bool = False, advance: Callable[[int], None] | None = None) -> Check:
        """Verify the checksums of all runs; with `repair`, make the ledger again.

        Runs that are damaged are put aside into `damaged/`, never deleted, and trained again.
        """
        known = self._known(repair)
        folders = [f for f in sorted(self.runs.glob("[!.]*")) if f.is_dir()]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            whole = []
            for good in pool.map(intact, folders):
                whole.append(good)
                if advance is not None:
                    advance(1)
        damaged = [f.name for f, good in zip(folders, whole, strict=True) if not good]
        found = {folder.name for folder in folders}
        states = dict(self._states()) if (self.folder / LEDGER).exists() and not repair else {}
        missing = [
            run
            for run, state in states.items()
            if state in ("trained", "scored", "diverged") and run not in found
        ]
        check = Check(len(folders) - len(damaged), damaged, missing, sorted(found - known.keys()))
        if repair:
            self._put_aside(damaged)
            self.tidy()
            self._make_ledger(known)
        return check

    def tidy(self) -> None:
        """Remove what killed processes left half-written; only while nobody is at work."""
        for path, runs in checkpoints(self.runs).items():
            if all((self.runs / run).exists() for run in runs):
                path.unlink(missing_ok=True)
        for folder in (self.folder, self.runs):
            for path in folder.glob(".*"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif not path.name.startswith(CHECKPOINT):
                    path.unlink(missing_ok=True)
        for path in self.runs.glob(f"*/.{SCORES}.*"):
            path.unlink(missing_ok=True)

    def at_work(self) -> bool:
        """Whether some process works on the study; not where the ledger cannot be read."""
        try:
            return bool(self.ledger.workers())
        except UnweaveError:
            return False

    def _known(self, repair: bool) -> dict[str, Config]:
        """All runs that were ever asked for, as far as can be known."""
        runs = {config.hash: config for config in self._runs(self.study)[0]}
        if repair:
            # What the study no longer asks for stays, as its folders do.
            for folder in self.runs.glob("[!.]*"):
                config = _config(folder)
                if config is not None and config.hash == folder.name:
                    runs.setdefault(config.hash, config)
        return runs

    def _states(self) -> Iterable[tuple[str, str]]:
        table = self.ledger.table()
        return zip(table["run"], table["state"], strict=True)

    def _put_aside(self, runs: Sequence[str]) -> None:
        for run in runs:
            place = self.folder / DAMAGED / run
            place.parent.mkdir(exist_ok=True)
            count = 1
            while place.exists():
                place, count = place.with_name(f"{run}-{count}"), count + 1
            (self.runs / run).rename(place)

    def _make_ledger(self, runs: Mapping[str, Config]) -> None:
        """Write a ledger that says what the folders say, and put it in place of the old one."""
        with whole_file(self.folder / LEDGER) as temporary:
            # What a killed process was writing to the old ledger must not reach the new one.
            (self.folder / f"{LEDGER}-journal").unlink(missing_ok=True)
            ledger = Ledger(temporary)
            self._write_down(ledger, list(runs.values()))
            present = [c for name, c in runs.items() if (self.runs / name).exists()]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = list(pool.map(self.look, present))
            alike: dict[tuple[str, str | None], list[tuple[str, dict[str, float]]]] = {}
            for config, one in zip(present, found, strict=True):
                alike.setdefault((one.state, one.error), []).append((config.hash, one.results))
            for (state, error), rows in alike.items():
                ledger.mark([run for run, _ in rows], state, error, [r for _, r in rows])
        self._forget()

    def _forget(self) -> None:
        """Read anew what was read before."""
        for name in ("ledger", "study", "sources", "wanted"):
            self.__dict__.pop(name, None)

    def _said(self) -> dict[str, Any]:
        path = self.folder / STUDY
        try:
            said: dict[str, Any] = json.loads(path.read_text())
            said["study"], said["sources"]
        except FileNotFoundError:
            raise UnweaveError(
                f"there is no study in {self.folder}; `unweave study run FILE --out {self.folder}`"
                " starts one"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnweaveError(
                f"{path} cannot be read ({error}); run the study's file again to write it anew"
            ) from error
        return said


def _last_losses(path: Path) -> dict[str, float]:
    """The last row of a run's curve, without its run and step."""
    table = pq.read_table(path)
    if not table.num_rows:
        return {}
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    return {n: float(v) for n, v in last.items() if n not in ("run", "step") and _finite(v)}


def _finite(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _diverged(folder: Path) -> bool:
    with safetensors.safe_open(folder / WEIGHTS, "pt") as file:
        return int(file.metadata()["diverged_at"]) >= 0


def _config(folder: Path) -> Config | None:
    try:
        return Config.from_dict(json.loads((folder / CONFIG).read_text()))
    except (OSError, ValueError, KeyError, TypeError, UnweaveError):
        return None
