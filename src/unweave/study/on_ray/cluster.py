"""A Ray cluster to work with: how it is started or reached, and where tasks can run on it."""

import math
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from unweave.errors import UnweaveError

__all__ = ["Place", "check_address", "connected", "on_node", "places"]

ANSWER_SECONDS = 20.0
"""How long a cluster may take to answer, twice: to connect, and to say that it speaks HTTP/2."""
ADDRESS = re.compile(r"(?:ray://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How HTTP/2, and so gRPC and Ray, begins a conversation: this, and empty settings."""
SETTINGS = 4
"""The kind of message with which a server answers that."""
OBJECT_BYTES = 200_000_000
"""For Ray's object store on one machine: nothing large passes through it."""
ADDED = ("RAY_AUTH_MODE", "PYTHONBREAKPOINT")
"""What Ray adds to the environment of a process, and with that to those that it starts."""


@contextmanager
def connected(on: str, plugins: Mapping[str, Path] | None = None) -> Iterator[None]:
    """A Ray to work with: one that this process already has, or else as `on` says.

    Args:
        on: As for `run_on_ray`.
        plugins: Modules that nodes need besides this package, and their files.
    """
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    how: dict[str, Any]
    if on == "ray":
        how = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_BYTES}
        if plugins:
            how["runtime_env"] = {"env_vars": {"PYTHONPATH": _search_path(plugins)}}
    else:
        if on != "auto":
            demand_answer(on)
        how = {"address": on, "runtime_env": _code(plugins or {})}
    with _as_it_was():
        try:
            ray.init(**how, **quiet)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())
            raise UnweaveError(f"could not connect to Ray with --on {on}: {reason}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _search_path(plugins: Mapping[str, Path]) -> str:
    """Where processes of this machine find plugins, besides where they look already."""
    folders = dict.fromkeys(str(file.parent.absolute()) for file in plugins.values())
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*folders, *([before] if before else [])])


def on_node(node: str, only: bool = False) -> dict[str, Any]:
    """Options of a task or actor that should run on a node; elsewhere too, unless only there."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=not only)}


def _ray() -> Any:
    # Read by Ray when it is imported: no usage statistics, CUDA_VISIBLE_DEVICES as it was for
    # tasks without GPUs, and as few restarts of tasks without enough memory as of others.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_task_oom_retries", "2")
    try:
        import ray
    except ImportError as error:
        raise UnweaveError(
            "a study on Ray needs Ray, which is not installed: pip install 'unweave[ray]'"
        ) from error
    return ray


def check_address(on: str) -> tuple[str, int] | None:
    """The host and port of a cluster; None for words that name one without.

    Example:
        >>> check_address("ray://first:10001")
        ('first', 10001)
    """
    if on in ("ray", "auto"):
        return None
    address = ADDRESS.fullmatch(on)
    if address is None or not 0 < int(address[2]) < 2**16:
        raise UnweaveError(
            f"a study runs on here, ray, auto, host:port or ray://host:port, but got {on!r}"
        )
    return address[1].strip("[]"), int(address[2])


def demand_answer(on: str, seconds: float = ANSWER_SECONDS) -> None:
    """An error where no cluster answers within some seconds; Ray itself would try for minutes."""
    address = check_address(on)
    if address is None:
        return
    try:
        with socket.create_connection(address, seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(PREFACE)
            answer = connection.recv(9)
    except TimeoutError as error:
        raise _no_cluster(on, f"nothing was heard for {seconds:g} s") from error
    except (OSError, UnicodeError) as error:
        raise _no_cluster(on, getattr(error, "strerror", None) or error) from error
    # Encrypted, it says something else, but it does say something.
    if answer[3:4] != bytes([SETTINGS]) and "RAY_USE_TLS" not in os.environ:
        raise _no_cluster(on, "what answers there is something else")


def _no_cluster(on: str, why: object) -> UnweaveError:
    return UnweaveError(
        f"no Ray cluster answers at {on} ({why}); check the address, or start one with "
        "`ray start --head`"
    )


def _code(plugins: Mapping[str, Path]) -> dict[str, Any]:
    """This package and plugins, to be sent along: nodes need only what they depend on."""
    import unweave

    places = [Path(unweave.__file__).parent, *dict.fromkeys(plugins.values())]
    return {"py_modules": [str(place) for place in places], "excludes": ["__pycache__"]}


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


class Place(NamedTuple):
    """Room for one task on a device.

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
        """How many scores can be computed there at once, as on a machine of that size."""
        return max(1, int(self.cpus) - 1 if self.gpus else int(self.cpus) // 2)


def places(nodes: Sequence[Mapping[str, Any]], device: str | None) -> list[Place]:
    """Where tasks can run: one for every GPU, or, in a cluster that has none, one for every node.

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
