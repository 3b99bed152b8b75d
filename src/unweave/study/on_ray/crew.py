"""The workers of a study on Ray: start them, answer for the ledger, and see to those that die."""

import math
import time
from collections import Counter
from typing import Any, NamedTuple

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.progress import say
from unweave.study.on_ray.cluster import nodes, start_actor
from unweave.study.on_ray.far_ledger import Answer, Mailbox, Request, answer
from unweave.study.on_ray.hand import Hand, Job
from unweave.study.on_ray.places import Place, places
from unweave.study.on_ray.table import TableWriter
from unweave.study.store import Store
from unweave.study.work import BEAT_SECONDS
from unweave.study.workers import Worker

__all__ = ["Crew"]

GLANCE_SECONDS = 0.5
NODES_SECONDS = 3.0
"""Between looks at which nodes there are."""
FAREWELL_SECONDS = BEAT_SECONDS + 5.0
"""How long the runs of a lost node stay held: by then a worker that lives on has heard of it."""
STOP_SECONDS = 120.0
"""How long workers have to write a checkpoint after Ctrl-C."""
EMPTY_SECONDS = 60.0
"""How long a cluster may be without any node to work on."""
DEATHS = 3
"""How often a worker may die with a run, or in a place with none, before that is given up."""
LONG_SECONDS = 600.0
"""A worker that lived longer than this did not die of what it was doing."""
MANY = 100_000
"""Workers that may wait for an answer at once."""
DIED = "its process ended, for want of memory perhaps"


class Member(NamedTuple):
    """A worker that was started."""

    worker: Worker
    place: Place
    actor: Any


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
        self.mailbox = start_actor(Mailbox, here, num_cpus=0, max_concurrency=MANY)
        self.members: dict[Any, Member] = {}
        self.started: dict[str, float] = {}
        self.answers: dict[int, Answer] = {}
        self.deaths: Counter[str] = Counter()
        self.idle_deaths: Counter[Place] = Counter()
        self.retired: dict[Place, Exception] = {}
        self.parting: list[tuple[float, Member]] = []
        self.due = self.nodes_due = 0.0
        self.table = TableWriter(store)
        self.stopping_since: float | None = None
        self.empty_since: float | None = None
        self.found = places(nodes(), job.options["device"])
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
        self.table.write_if_due()
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
        self.table.finish()

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
        there = nodes()
        self.found = places(there, self.job.options["device"])
        living = {node["NodeID"] for node in there if node["Alive"]}
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
        actor = start_actor(Hand, place.node, num_cpus=place.cpus, num_gpus=place.gpus)
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


def _may_live_on(member: Member, error: Exception) -> bool:
    """Whether nobody saw the process of a worker end: its node is gone, or out of reach."""
    import ray

    living = {node["NodeID"] for node in nodes() if node["Alive"]}
    unseen = isinstance(error, ray.exceptions.ActorUnavailableError)
    return unseen or member.place.node not in living


def _nothing(device: str | None) -> str:
    if device == "cuda":
        return "the Ray cluster has no GPU; leave the device out to train on its cores"
    return "the Ray cluster has no node with a core to work on; start one with `ray start`"
