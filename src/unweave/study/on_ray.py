"""A study on Ray: a worker for every GPU of a cluster, and what to do when some of them die.

Workers train, score and write into the study's folder, just as one process does on its own; the
process that runs the study starts them, answers for the ledger (`unweave.study.far`) and watches.
A worker that dies leaves its claims, which are released, and its last checkpoint, from which
whoever claims the runs goes on. Nodes that join get workers, nodes that leave are not missed.
"""

import math
import os
import signal
import socket
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.train import interruptible
from unweave.progress import say
from unweave.study.far import Answer, FarLedger, Mailbox, Request, answer
from unweave.study.ledger import Ledger
from unweave.study.remote import RemoteStore, is_url
from unweave.study.repair import tidy
from unweave.study.results import Results
from unweave.study.store import Store
from unweave.study.watch import StudyWatch
from unweave.study.work import BEAT_SECONDS, TABLE_SHARE, Work
from unweave.study.workers import Worker

__all__ = ["Place", "places", "run_on_ray"]

GLANCE_SECONDS = 0.5
NODES_SECONDS = 3.0
"""Between looks at which nodes there are."""
FAREWELL_SECONDS = BEAT_SECONDS + 5.0
"""How long the runs of a lost node stay held: by then a worker that lives on has heard of it."""
TABLE_SECONDS = 2.0
STOP_SECONDS = 120.0
"""How long workers have to write a checkpoint after Ctrl-C."""
EMPTY_SECONDS = 60.0
"""How long a cluster may be without any node to work on."""
REACH_SECONDS = 5.0
DEATHS = 3
"""How often a worker may die with a run, or in a place with none, before that is given up."""
LONG_SECONDS = 600.0
"""A worker that lived longer than this did not die of what it was doing."""
MANY = 100_000
"""Workers that may wait for an answer at once."""
OBJECT_BYTES = 200_000_000
"""For Ray's object store on one machine: nothing large passes through it."""
ADDED = ("RAY_AUTH_MODE", "PYTHONBREAKPOINT")
"""What Ray adds to the environment of a process, and with that to those that it starts."""
DIED = "its process ended, for want of memory perhaps"


class Place(NamedTuple):
    """Room for one worker.

    Args:
        node: Ray's name of the node.
        host: Its name for people.
        number: Which of the node's places it is.
        gpus: How many GPUs it has, 1 or 0.
        cpus: Its share of the node's cores; a fraction where there are more GPUs than cores.
    """

    node: str
    host: str
    number: int
    gpus: int
    cpus: float

    @property
    def name(self) -> str:
        """For people; several nodes may be on one host."""
        return f"{self.host} ({self.node[:6]}, {'GPU' if self.gpus else 'CPU'} {self.number})"

    @property
    def scorers(self) -> int:
        """How many processes can score there, as on a machine of that size."""
        return max(1, int(self.cpus) - 1 if self.gpus else int(self.cpus) // 2)


class Member(NamedTuple):
    """A worker that was started."""

    worker: Worker
    place: Place
    actor: Any


class Job(NamedTuple):
    """What every worker needs to know.

    Args:
        folder: The study's, or its URL.
        token: The name of a file in it, by which a worker sees that it is the same folder.
        options: Of `Work`.
    """

    folder: str
    token: str
    options: Mapping[str, Any]


def run_on_ray(store: Store, on: str, progress: bool, options: dict[str, Any]) -> None:
    """Work on a study with all of a Ray cluster until nothing is left.

    Args:
        store: The study, prepared.
        on: `"ray"`, one of its own; `"auto"`, `"host:port"` or `"ray://host:port"`, one that runs.
        progress: Whether to show how far it is.
        options: Of `Work`: device, fleet_size, scorers, checkpoint_every.
    """
    with _connected(on), _token(store) as token, StudyWatch(store.ledger, progress) as watch:
        folder = store.url if isinstance(store, RemoteStore) else str(store.folder.absolute())
        crew = Crew(store, Job(folder, token, {**options, "device": _kind(options["device"])}))
        try:
            with interruptible() as stopped:
                while crew.at_work(stopped()):
                    watch.show(crew.waiting)
        finally:
            crew.disband()
            if not store.ledger.workers():
                tidy(store)
            Results(store).write()
            store.hand_in_ledger()


class Crew:
    """The workers of a study, and their ledger.

    Args:
        store: The study.
        job: What they need to know.
    """

    def __init__(self, store: Store, job: Job) -> None:
        import ray

        self.store, self.job = store, job
        here = ray.get_runtime_context().get_node_id()
        self.mailbox = _actor(Mailbox, here, num_cpus=0, max_concurrency=MANY)
        self.members: dict[Any, Member] = {}
        self.started: dict[str, float] = {}
        self.answers: dict[int, Answer] = {}
        self.deaths: Counter[str] = Counter()
        self.idle_deaths: Counter[Place] = Counter()
        self.retired: dict[Place, Exception] = {}
        self.parting: list[tuple[float, Member]] = []
        self.due = self.nodes_due = self.table_due = 0.0
        self.scored, self.writing = 0, threading.Thread()
        self.stopping_since: float | None = None
        self.empty_since: float | None = None
        self.found = places(_nodes(), job.options["device"])
        if not self.found:
            raise UnweaveError(_nothing(job.options["device"]))

    @property
    def waiting(self) -> int:
        """How many workers could not start yet, because others use the cluster."""
        return sum(member.worker.name not in self.started for member in self.members.values())

    def at_work(self, stopping: bool) -> bool:
        """Answer what was asked, look after the workers; whether there is more to do.

        Args:
            stopping: Whether to stop.
        """
        if stopping and self.stopping_since is None:
            self.stopping_since = time.monotonic()
        self._answer()
        if time.monotonic() < self.due:
            return True
        self._collect()
        if time.monotonic() >= self.nodes_due:
            self._look_around()
            self.nodes_due = time.monotonic() + NODES_SECONDS
        self._write_table()
        self.due = time.monotonic() + GLANCE_SECONDS
        return self._go_on()

    def disband(self) -> None:
        """End all workers that are left, and take back what they hold."""
        import ray

        for member in self.members.values():
            ray.kill(member.actor)
            self.store.ledger.release(member.worker)
        for _, member in self.parting:
            self.store.ledger.release(member.worker)
        ray.kill(self.mailbox)
        if self.writing.is_alive():
            self.writing.join()

    def _answer(self) -> None:
        import ray

        try:
            asked = ray.get(self.mailbox.exchange.remote(self.answers, GLANCE_SECONDS))
        except ray.exceptions.RayError as error:
            raise UnweaveError(
                "the Ray cluster is gone; run the same again to go on from the last checkpoints"
            ) from error
        known = {member.worker.name for member in self.members.values()}
        self.answers = {request.number: self._answer_one(request, known) for request in asked}

    def _answer_one(self, request: Request, known: set[str]) -> Answer:
        if request.worker not in known:
            return Answer(dismissed=True)
        self.started.setdefault(request.worker, time.monotonic())
        return answer(self.store.ledger, request, self.stopping_since is not None)

    def _collect(self) -> None:
        """Take note of workers that have ended, well or not."""
        import ray

        refs = list(self.members)
        if not refs:
            return
        ended, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ended:
            member = self.members.pop(ref)
            try:
                trouble = ray.get(ref)
            except ray.exceptions.RayTaskError as error:
                self._retire(member.place, error)
            except ray.exceptions.RayError as error:
                if _may_live_on(member, error):
                    self._part(member)
                    continue
                self._count_death(member)
            else:
                if trouble is not None:
                    self._retire(member.place, UnweaveError(trouble))
            self.store.ledger.release(member.worker)

    def _retire(self, place: Place, error: Exception) -> None:
        """Start nothing there any more."""
        self.retired[place] = error
        if self.stopping_since is None:
            say(f"no worker on {place.name} any more: {str(error).splitlines()[-1]}")

    def _count_death(self, member: Member) -> None:
        """Give up runs that their workers died with again and again."""
        held = self.store.ledger.held(member.worker)
        lived = time.monotonic() - self.started.get(member.worker.name, math.inf)
        if lived > LONG_SECONDS:
            # Nodes come and go; what fails by itself fails again soon after its checkpoint.
            for run in held:
                del self.deaths[run]
        else:
            self.deaths.update(held)
        hopeless = [run for run in held if self.deaths[run] >= DEATHS]
        self.store.ledger.mark(hopeless, "failed", f"its worker died {DEATHS} times ({DIED})")
        if self.stopping_since is None:
            say(f"the worker on {member.place.name} died; what it left is taken up elsewhere")
        if not held:
            self.idle_deaths[member.place] += 1
            if self.idle_deaths[member.place] >= DEATHS:
                trouble = f"workers on {member.place.name} die before they have begun; see its log"
                self._retire(member.place, UnweaveError(trouble))

    def _look_around(self) -> None:
        """Start workers where there is room, and part from those whose node is gone."""
        nodes = _nodes()
        self.found = places(nodes, self.job.options["device"])
        living = {node["NodeID"] for node in nodes if node["Alive"]}
        for ref, member in list(self.members.items()):
            if member.place.node not in living:
                del self.members[ref]
                self._part(member)
        self._end_parting()
        if self.stopping_since is None and self.store.ledger.busy():
            taken = {member.place for member in self.members.values()}
            for place in self.found:
                if place not in taken and place not in self.retired:
                    self._start(place)

    def _part(self, member: Member) -> None:
        """A worker may outlive its node for a while: what it holds waits until it has heard."""
        self.parting.append((time.monotonic(), member))

    def _end_parting(self) -> None:
        """Release what was held by workers that have heard by now."""
        now = time.monotonic()
        heard = [member for since, member in self.parting if now - since > FAREWELL_SECONDS]
        self.parting = [(since, one) for since, one in self.parting if one not in heard]
        for member in heard:
            self._count_death(member)
            self.store.ledger.release(member.worker)

    def _start(self, place: Place) -> None:
        # In the ledger it goes by this process, with which it ends.
        here = Worker.here()
        worker = here._replace(name=f"ray-{place.node[:12]}-{here.name[:12]}")
        actor = _actor(Hand, place.node, num_cpus=place.cpus, num_gpus=place.gpus)
        ref = actor.work.remote(self.mailbox, worker, place, self.job)
        self.members[ref] = Member(worker, place, actor)

    def _go_on(self) -> bool:
        """Whether something is left to wait for; an error where nobody is left to do the rest."""
        busy = self.store.ledger.busy()
        if self.stopping_since is not None:
            return self._stop_slowly(self.stopping_since)
        if not busy:
            self._let_go(lambda member: member.worker.name not in self.started)
            return bool(self.members or self.answers)
        if self.members or self.parting or any(place not in self.retired for place in self.found):
            self.empty_since = None
            return True
        if self.found:
            raise self.retired[self.found[-1]]
        self.empty_since = self.empty_since or time.monotonic()
        if time.monotonic() - self.empty_since > EMPTY_SECONDS:
            raise UnweaveError(
                "no node is left in the cluster; start some and run the same again to go on from "
                "the last checkpoints"
            )
        return True

    def _stop_slowly(self, since: float) -> bool:
        """Wait for the checkpoints of all who train, but not for ever."""
        self._let_go(lambda member: member.worker.name not in self.started)
        if time.monotonic() - since > STOP_SECONDS:
            self._let_go(lambda _: True)
        if self.members or self.answers:
            return True
        raise InterruptedTrainingError("stopped; run the same again to go on from there")

    def _let_go(self, whom: Any) -> None:
        import ray

        for ref, member in list(self.members.items()):
            if whom(member):
                ray.kill(member.actor)
                del self.members[ref]
                self.store.ledger.release(member.worker)

    def _write_table(self) -> None:
        """Bring the table up to date, as often as that costs little."""
        if time.monotonic() < self.table_due:
            return
        scored = self.store.ledger.counts()["scored"]
        self.table_due = time.monotonic() + TABLE_SECONDS
        if scored > self.scored and not self.writing.is_alive():
            self.scored = scored
            # Beside all else: that of a million runs takes longer than workers may be silent.
            self.writing = threading.Thread(target=self._write_now)
            self.writing.start()

    def _write_now(self) -> None:
        start = time.monotonic()
        Results(self.store).write()
        self.store.hand_in_ledger()
        end = time.monotonic()
        self.table_due = end + max(TABLE_SECONDS, (end - start) / TABLE_SHARE)


class Hand:
    """A worker: an actor of Ray that lives as long as there is something to do for it."""

    def work(self, mailbox: Any, worker: Worker, place: Place, job: Job) -> str | None:
        """Train and score; why that had to end, if before the study did."""
        ledger = cast(Ledger, FarLedger(mailbox, worker.name, place.name))
        try:
            with _store_there(job.folder, ledger) as store:
                if not store.sees(job.token):
                    return (
                        f"{place.name} does not see {store.place}; keep the study in a folder "
                        "that all nodes share, under the same path, or at a URL"
                    )
                self._work(store, worker, place, job)
        except InterruptedTrainingError:
            return None
        except UnweaveError as error:
            return str(error)
        return None

    def _work(self, store: Store, worker: Worker, place: Place, job: Job) -> None:
        far = cast(FarLedger, store.ledger)
        options = dict(job.options)
        options["device"] = "cuda" if place.gpus else "cpu"
        if options["scorers"] is None:
            options["scorers"] = place.scorers
        Work(store, worker=worker, stopping=lambda: far.stopping, table=False, **options).go()


@contextmanager
def _store_there(folder: str, ledger: Ledger) -> Iterator[Store]:
    """A study as a worker sees it; one at a URL in a folder that lives as long as the worker."""
    if not is_url(folder):
        yield Store(folder, ledger)
        return
    with tempfile.TemporaryDirectory(prefix="unweave-") as scratch:
        store = RemoteStore(folder, scratch, ledger)
        store.bring_study()
        yield store


def _actor(kind: type, node: str, **options: Any) -> Any:
    """An actor of Ray on a certain node, which is not started again when it dies."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    made: Any = ray.remote(kind)
    return made.options(scheduling_strategy=there, max_restarts=0, **options).remote()


def places(nodes: Sequence[Mapping[str, Any]], device: str | None) -> list[Place]:
    """Where workers can be: one for every GPU, or, in a cluster that has none, one for every node.

    Args:
        nodes: As `ray.nodes()` has them.
        device: `"cpu"` or `"cuda"`; by default GPUs where there are any.
    """
    living = [node for node in nodes if node["Alive"]]
    on_gpus = device != "cpu" and any(_has(node, "GPU") >= 1 for node in living)
    if device == "cuda" and not on_gpus:
        return []
    found = []
    for node in living:
        cpus = _has(node, "CPU")
        count = int(_has(node, "GPU")) if on_gpus else int(cpus >= 1)
        for number in range(count):
            share = cpus / count
            share = math.floor(share) if share >= 1 else share
            host = node["NodeManagerHostname"]
            found.append(Place(node["NodeID"], host, number, int(on_gpus), share))
    return found


def _has(node: Mapping[str, Any], resource: str) -> float:
    return float(node["Resources"].get(resource, 0))


def _may_live_on(member: Member, error: Exception) -> bool:
    """Whether nobody saw the process of a worker end: its node is gone, or out of reach."""
    import ray

    living = {node["NodeID"] for node in _nodes() if node["Alive"]}
    unseen = isinstance(error, ray.exceptions.ActorUnavailableError)
    return unseen or member.place.node not in living


def _nodes() -> list[dict[str, Any]]:
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()
    return nodes


def _kind(device: str | torch.device | None) -> str | None:
    return None if device is None else torch.device(device).type


def _nothing(device: str | None) -> str:
    if device == "cuda":
        return "the Ray cluster has no GPU; leave the device out to train on its cores"
    return "the Ray cluster has no node with a core to work on; start one with `ray start`"


@contextmanager
def _token(store: Store) -> Iterator[str]:
    """A file in the study's folder by which workers see that it is the same folder."""
    token = f".ray-{uuid.uuid4().hex}"
    store.leave(token)
    try:
        yield token
    finally:
        store.take_back(token)


@contextmanager
def _connected(on: str) -> Iterator[None]:
    """A Ray to work with: one that this process already has, or else as `on` says."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if on == "ray":
        how = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_BYTES}
    else:
        _demand_reachable(on)
        how = {"address": on, "runtime_env": _code()}
    with _as_it_was():
        try:
            ray.init(**how, **quiet)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())
            raise UnweaveError(f"there is no Ray to be had with --on {on}: {reason}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _ray() -> Any:
    # Said before its import: no statistics leave the machine, and no word about GPUs it changes.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise UnweaveError(
            "a study on Ray needs Ray, which is not installed: pip install 'unweave[ray]'"
        ) from error
    return ray


def _demand_reachable(on: str) -> None:
    """An error at once where nobody listens; Ray itself would try for minutes."""
    if on == "auto":
        return
    host, _, port = on.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise UnweaveError(
            f"a study runs on here, ray, auto, host:port or ray://host:port, but got {on!r}"
        )
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise UnweaveError(
            f"no Ray cluster answers at {on} ({error.strerror or error}); check the address, or "
            "start one with `ray start --head`"
        ) from error


def _code() -> dict[str, Any]:
    """This package, to be sent along: nodes need only what it depends on."""
    import unweave

    return {"py_modules": [str(Path(unweave.__file__).parent)], "excludes": ["__pycache__"]}


@contextmanager
def _as_it_was() -> Iterator[None]:
    """Ray takes over SIGTERM and says in the environment how it was started; both end with it."""
    environment = dict(os.environ)
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, handler)
        for name in ADDED:
            if name not in environment:
                os.environ.pop(name, None)
