"""Working on a study: claim runs, train them in fleets, score them meanwhile, until all is done.

Any number of processes may work on one study at once, and any of them may be killed at any moment.
"""

import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.config import Config
from unweave.fleet.size import fits, shares
from unweave.fleet.train import train_runs
from unweave.progress import say
from unweave.study.estimate import device_name, disk_bytes, seconds_per_step
from unweave.study.ledger import Ledger
from unweave.study.remote import open_store
from unweave.study.repair import put_checkpoints_aside, tidy
from unweave.study.results import Results
from unweave.study.scoring import Scorer, sentence
from unweave.study.sources import Sources
from unweave.study.store import Store
from unweave.study.study import Study
from unweave.study.study_file import read
from unweave.study.workers import Worker

__all__ = ["Work", "run"]

BEAT_SECONDS = 10.0
WAIT_SECONDS = 0.5
TABLE_SHARE = 0.02
"""How much of the time writing the table may take."""
DONE = ("trained", "scored")
"""States of runs on which others can build."""


class NoRoomError(UnweaveError):
    """A disk on which the results of the next fleet do not fit."""


def run(
    study: Study | str | Path,
    folder: str | Path | None = None,
    *,
    on: str = "here",
    device: str | torch.device | None = None,
    progress: bool = True,
    fleet_size: int | None = None,
    scorers: int | None = None,
    checkpoint_every: float = 60.0,
) -> Results:
    """Train and score all runs of a study that are not done yet.

    Stopped or killed, the same call goes on where it was. Several processes may work on one
    folder. A run that cannot be trained or scored is marked as failed and says why; the others go
    on, and the next call tries it again.

    Args:
        study: A study, or a file of one.
        folder: Where it is kept, a folder or a URL that fsspec knows; by default a folder with its
            name.
        on: `"here"`, this process; `"ray"`, a Ray of its own on this machine; `"auto"` or
            `"ray://host:port"`, a Ray cluster that runs; see docs/scaling.md.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        fleet_size: How many models to train at once; by default as many as fit.
        scorers: How many processes compute scores, by default by the number of cores; with 0 the
            one that trains does.
        checkpoint_every: Seconds between checkpoints.

    Returns:
        The results, with their table.

    Example:
        >>> import tempfile
        >>> few = {"load": "dsprites", "slice": {"shape": 0, "scale": 5, "orientation": 0}}
        >>> study = Study(
        ...     data=[few],
        ...     methods={"beta_vae": {"beta": [1, 4]}},
        ...     steps=2,
        ...     metrics=["mig"],
        ...     settings={"batch": 8},
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table = run(study, folder, progress=False).table
        >>> table[["data", "method", "strength", "seed", "state"]].values.tolist()
        [['dsprites', 'beta_vae', 1.0, 0, 'scored'], ['dsprites', 'beta_vae', 4.0, 0, 'scored']]
    """
    study = study if isinstance(study, Study) else read(study)
    store = open_store(study.name if folder is None else folder)
    if scorers is not None and scorers < 0:
        raise UnweaveError(f"scores are computed by 0 processes or more, but got {scorers=}")
    errors = prepare(store, study)
    store.hand_in_ledger()
    options: dict[str, Any] = {
        "device": device,
        "fleet_size": fleet_size,
        "scorers": scorers,
        "checkpoint_every": checkpoint_every,
    }
    if on == "here":
        Work(store, progress=progress, **options).go()
    else:
        from unweave.study.on_ray import run_on_ray

        run_on_ray(store, on, progress, options)
    return Results(store, errors)


def prepare(store: Store, study: Study) -> dict[str, str]:
    """Write down what there is to do; what failed before is tried again.

    Returns:
        For each data set that cannot be had, why.
    """
    try:
        store.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnweaveError(
            f"cannot write into {store.folder}: {error.strerror or error}; choose another folder"
        ) from error
    put_checkpoints_aside(store)
    _, errors = store.plan(study)
    for name, reason in errors.items():
        say(f"without {name}: {reason}")
    table = store.ledger.table()
    failed = table.loc[(table["state"] == "failed") & table["asked"], "run"].tolist()
    trained = [run for run in failed if store.has(run)]
    store.ledger.reopen(trained, "trained")
    store.ledger.reopen(sorted(set(failed) - set(trained)), "planned")
    return errors


class Work:
    """What one process does for a study.

    Args:
        store: The study.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        fleet_size: How many models to train at once; by default as many as fit.
        scorers: How many processes compute scores.
        checkpoint_every: Seconds between checkpoints.
        worker: Under which name it takes runs; by default that of this process.
        stopping: Says whether to stop, with a checkpoint, as on Ctrl-C.
        table: Whether to keep the table up to date; not where some other process does.
    """

    def __init__(
        self,
        store: Store,
        *,
        device: str | torch.device | None = None,
        progress: bool = False,
        fleet_size: int | None = None,
        scorers: int | None = None,
        checkpoint_every: float = 60.0,
        worker: Worker | None = None,
        stopping: Callable[[], bool] = lambda: False,
        table: bool = True,
    ) -> None:
        self.stopping, self.table = stopping, table
        self.store, self.progress, self.fleet_size = store, progress, fleet_size
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise UnweaveError("there is no GPU that torch can use here; leave the device out")
        self.checkpoint_every = checkpoint_every
        self.worker = worker or Worker.here()
        self.sources = Sources(store)
        cores = os.cpu_count() or 1
        # A GPU leaves the cores to the scores; training on the cores takes half of them.
        free = cores - 1 if self.device.type == "cuda" else cores // 2
        self.scorer = Scorer(
            store,
            self.worker,
            self.sources,
            self.device,
            max(1, free) if scorers is None else scorers,
        )
        self.sizes: dict[str, int] = {}
        self.first_of: dict[str, str] = {}
        self.there: set[str] = set()
        self.doing = self.mentioned = ""
        self.table_due = 0.0

    @property
    def ledger(self) -> Ledger:
        """The study's ledger."""
        return self.store.ledger

    def go(self) -> None:
        """Work until nothing is left that this process could do, nor others may leave to it."""
        with self._beating(), self.scorer:
            try:
                while self._advance():
                    pass
            finally:
                self.ledger.release(self.worker)
        if self.table:
            if not self.ledger.workers():
                tidy(self.store)
            Results(self.store).write()
            self.store.hand_in_ledger()

    def _advance(self) -> bool:
        """Train a fleet, or score; whether anything is left."""
        if self.stopping():
            raise InterruptedTrainingError("stopped; run the same again to go on from there")
        self.scorer.tick()
        self._write_table()
        fleet = self._claim()
        if fleet:
            self._train(fleet)
            return True
        self.doing = "scoring"
        if self.scorer.busy:
            self.scorer.wait(WAIT_SECONDS)
            return True
        if not self.ledger.busy():
            return False
        # What others hold may come free.
        time.sleep(WAIT_SECONDS)
        return True

    def _claim(self) -> list[Config]:
        """The next fleet: one that was interrupted, or else of what takes longest."""
        kinds = self._ready(self.ledger.open_runs())
        if not kinds:
            return []
        free = {run for runs in kinds.values() for run in runs}
        for interrupted in self.store.interrupted():
            left = [run for run in interrupted if run in free]
            if left:
                # As many as fit, if it has turned out that all of them do not.
                kind = next(kind for kind, runs in kinds.items() if left[0] in runs)
                left = left[: self.sizes.get(kind, len(left))]
                return self._configs(self.ledger.claim(self.worker, left))
        costs = {kind: len(runs) * self._seconds(runs[0]) for kind, runs in kinds.items()}
        for kind in sorted(kinds, key=lambda kind: -costs[kind]):
            runs = kinds[kind]
            size = self._size(kind, runs)
            if size:
                claimed = self.ledger.claim(self.worker, runs[: self._share(runs, size, kinds)])
                if claimed:
                    return self._configs(claimed)
        return []

    def _ready(self, kinds: dict[str, list[str]]) -> dict[str, list[str]]:
        """Without second stages whose first is not trained; where it never will be, they fail."""
        ready, states = {}, None
        for kind, runs in kinds.items():
            firsts = self._firsts(runs)
            if not firsts:
                ready[kind] = runs
                continue
            states = self.ledger.states() if states is None else states
            fates = {first: self._fate(first, states) for first in set(firsts.values())}
            lost = [run for run in runs if fates[firsts[run]] == "lost"]
            if lost:
                reason = UnweaveError("the model that it builds on has diverged or failed")
                self._fail(self.ledger.claim(self.worker, lost), reason)
            there = [run for run in runs if fates[firsts[run]] == "there"]
            if there:
                ready[kind] = there
        return ready

    def _fate(self, first: str, states: Mapping[str, str]) -> str:
        """Whether a model to build on is there, lost, or yet to come."""
        state = states.get(first, "failed")
        if state == "diverged":
            return "lost"
        if first in self.there or self.store.has(first):
            self.there.add(first)
            return "there"
        if state in DONE:  # somebody has removed it
            self.ledger.reopen([first], "planned")
        return "lost" if state == "failed" else "to come"

    def _firsts(self, runs: Sequence[str]) -> dict[str, str]:
        """The runs that second stages build on, by theirs; nothing for first stages."""
        new = [run for run in runs if run not in self.first_of]
        if new and self._configs(new[:1])[0].first is not None:
            known = [(config.hash, config.first) for config in self._configs(new)]
            self.first_of |= {run: first.hash for run, first in known if first is not None}
        return {run: self.first_of[run] for run in runs if run in self.first_of}

    def _share(self, runs: Sequence[str], size: int, kinds: Any) -> int:
        """How many runs to take: as even fleets as fit, and enough left for other workers."""
        others = len(self.ledger.workers())
        if len(kinds) < others:
            size = min(size, math.ceil(len(runs) * len(kinds) / others))
        return shares(len(runs), size)[0]

    def _seconds(self, run: str) -> float:
        config = self._configs([run])[0]
        try:
            shape = self.store.source(config).shape
        except UnweaveError:
            return 0.0  # it will fail, and say why, when its turn comes
        return config.steps * seconds_per_step(config, shape, self.device, self.ledger)

    def _size(self, kind: str, runs: Sequence[str]) -> int:
        """How many models of a kind fit; 0 where it cannot be trained, which its runs then say."""
        if kind not in self.sizes:
            configs = self._configs(runs)
            try:
                data = self.sources.open(configs[0])
                self.sizes[kind] = self.fleet_size or fits(configs, data, self.device)
            except Exception as error:  # the runs say so, the study goes on
                self._fail(self.ledger.claim(self.worker, runs), error)
                return 0
        return self.sizes[kind]

    def _train(self, configs: list[Config]) -> None:
        """Train a fleet and say what became of it; other fleets do not suffer for this one."""
        runs, kind = [config.hash for config in configs], configs[0].fleet
        self.ledger.mark(runs, "training")
        begun = {run for old in self.store.interrupted() for run in old}
        afresh = not any(run in begun or self.store.has(run) for run in runs)
        start = time.monotonic()
        try:
            data = self.sources.open(configs[0])
            self._demand_room(configs, data.shape)
            self.store.bring([*runs, *self._firsts(runs).values()])
            self.store.bring_checkpoint(runs)
            self._announce(configs)
            train_runs(
                configs,
                data,
                out=self.store.runs,
                device=self.device,
                progress=self.progress,
                checkpoint_every=self.checkpoint_every,
                fleet_size=len(configs),
                meanwhile=self._meanwhile,
            )
            self.store.hand_in(runs)
        except InterruptedTrainingError:
            self.store.hand_in_checkpoints()
            raise
        except NoRoomError:
            raise
        except torch.cuda.OutOfMemoryError as error:
            # Somebody else took memory meanwhile: try again with half as many.
            self._fail(runs, error)
            if len(runs) > 1:
                self.sizes[kind] = len(runs) // 2
                self.ledger.reopen(runs, "planned")
            return
        except Exception as error:  # the runs say so, the study goes on
            self._fail(runs, error)
            return
        if afresh and configs[0].steps:
            each = (time.monotonic() - start) / configs[0].steps / len(configs)
            self.ledger.note_speed(kind, device_name(self.device), each)
        self._note(configs)

    def _announce(self, configs: Sequence[Config]) -> None:
        if self.progress:
            counts = self.ledger.counts()
            done = sum(counts[state] for state in ("trained", "scored", "diverged", "failed"))
            say(
                f"{configs[0].method.name} on {self.store.source(configs[0]).name}: "
                f"{len(configs)} models ({done:,} of {sum(counts.values()):,} runs done)"
            )

    def _note(self, configs: Sequence[Config]) -> None:
        """Tell the ledger what became of runs that were trained."""
        found = {config.hash: self.store.look(config) for config in configs}
        lost = [run for run, one in found.items() if one.state == "diverged"]
        rest = [run for run in found if run not in lost]
        for state, runs in (("diverged", lost), ("trained", rest)):
            self.ledger.mark(runs, state, None, [found[run].results for run in runs])

    def _fail(self, runs: Sequence[str], error: Exception) -> None:
        saved = [run for run in runs if self.store.has(run)]
        self._note(self._configs(saved))
        self.ledger.mark([run for run in runs if run not in saved], "failed", sentence(error))
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _demand_room(self, configs: Sequence[Config], shape: tuple[int, int, int]) -> None:
        """Stop before a fleet whose results would not fit on the disk."""
        need = sum(disk_bytes(config, shape, in_training=True) for config in configs)
        free = shutil.disk_usage(self.store.folder).free
        if need > free:
            raise NoRoomError(
                f"the next fleet needs {need / 1e9:.2g} GB in {self.store.folder}, where "
                f"{free / 1e9:.2g} GB are free; make room and run the same again"
            )

    def _meanwhile(self, doing: str) -> bool:
        self.doing = doing
        try:
            self.scorer.tick()
            self._write_table()
            self.store.hand_in_checkpoints()
        except Exception as error:  # the fleet that trains does not suffer for this
            self._mention(sentence(error))
        return self.stopping()

    def _mention(self, trouble: str) -> None:
        """Say something, but not over and over."""
        if trouble != self.mentioned:
            say(trouble)
            self.mentioned = trouble

    def _write_table(self) -> None:
        """Bring the table up to date, as often as that costs little."""
        now = time.monotonic()
        if self.table and now >= self.table_due and self.scorer.done:
            Results(self.store).write()
            took = time.monotonic() - now
            self.table_due = time.monotonic() + max(2.0, took / TABLE_SHARE)

    def _configs(self, runs: Sequence[str]) -> list[Config]:
        found = self.ledger.configs(runs)
        return [Config.from_dict(found[run]) for run in runs]

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Say every few seconds that this process lives."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_SECONDS):
                # A disk that is full for a moment is no reason to fall silent.
                with suppress(UnweaveError):
                    self.ledger.beat(self.worker, self.doing)

        self.ledger.beat(self.worker)
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
