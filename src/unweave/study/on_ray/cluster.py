"""Connecting to a Ray cluster or starting one, and finding the slots where tasks can run."""

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

__all__ = ["Slot", "check_address", "connected", "on_node", "slots"]

ANSWER_SECONDS = 20.0
"""Timeout for a cluster, applied once to the connection and once to the HTTP/2 handshake."""
ADDRESS = re.compile(r"(?:ray://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""Start of an HTTP/2 connection, as used by gRPC and Ray: the preface and empty settings."""
SETTINGS = 4
"""Type of the HTTP/2 frame with which a server replies."""
OBJECT_BYTES = 200_000_000
"""Size of Ray's object store on one machine; no large objects pass through it."""
ADDED = ("RAY_AUTH_MODE", "PYTHONBREAKPOINT")
"""Environment variables that Ray adds to the process, and so to its child processes."""

# Set when this process has started Ray. Ray 2.60 then cancels every actor that the process creates
# in another cluster.
_has_started_ray = threading.Event()


@contextmanager
def connected(on: str, plugins: Mapping[str, Path] | None = None) -> Iterator[None]:
    """Connect to Ray: reuse the connection of this process, or open one as given by `on`.

    `plugins` has the files of further modules that nodes need, by module.
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
        if _has_started_ray.is_set():
            raise UnweaveError(
                "a process that has run a study with on='ray' cannot join another Ray cluster; "
                "start a new process",
                subject="on",
                value=on,
            )
        if on != "auto":
            check_reachable(on)
        how = {"address": on, "runtime_env": _code(plugins or {})}
    with _restored_environment():
        try:
            ray.init(**how, **quiet)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())
            raise UnweaveError(
                f"could not connect to Ray with --on {on} ({reason}); check that the cluster is "
                "running, and set RAY_AUTH_MODE=token if it uses token authentication",
                subject="on",
                value=on,
            ) from error
        if on == "ray":
            _has_started_ray.set()
        try:
            yield
        finally:
            ray.shutdown()


def _search_path(plugins: Mapping[str, Path]) -> str:
    """`PYTHONPATH` with the folders of plugins added."""
    folders = dict.fromkeys(str(file.parent.absolute()) for file in plugins.values())
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*folders, *([before] if before else [])])


def on_node(node: str, strict: bool = False) -> dict[str, Any]:
    """Options of a task or actor that prefers a node, or, if strict, runs only there."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=not strict)}


def _ray() -> Any:
    # Ray reads these on import: no usage statistics, leave CUDA_VISIBLE_DEVICES unchanged for
    # tasks without GPUs, and restart tasks that run out of memory no more often than others.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_task_oom_retries", "2")
    try:
        import ray
    except ImportError as error:
        raise UnweaveError(
            "Ray is not installed; install it with pip install 'unweave[ray]'",
            subject="ray",
        ) from error
    return ray


def check_address(on: str) -> tuple[str, int] | None:
    """The host and port of a cluster, or None for `"ray"` and `"auto"`.

    Example:
        >>> check_address("ray://first:10001")
        ('first', 10001)
    """
    if on in ("ray", "auto"):
        return None
    address = ADDRESS.fullmatch(on)
    if address is None or not 0 < int(address[2]) < 2**16:
        raise UnweaveError.must("on", "be here, ray, auto, host:port or ray://host:port", on)
    return address[1].strip("[]"), int(address[2])


def check_reachable(on: str, seconds: float = ANSWER_SECONDS) -> None:
    """Raise an error if no cluster answers within the timeout; Ray itself waits for minutes."""
    address = check_address(on)
    if address is None:
        return
    try:
        with socket.create_connection(address, seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(PREFACE)
            answer = connection.recv(9)
    except TimeoutError as error:
        raise _no_cluster(on, f"no answer for {seconds:g} s", seconds) from error
    except (OSError, UnicodeError) as error:
        raise _no_cluster(on, getattr(error, "strerror", None) or error) from error
    # With TLS the answer is different, but any answer will do.
    if answer[3:4] != bytes([SETTINGS]) and "RAY_USE_TLS" not in os.environ:
        raise _no_cluster(on, "another service answers there", answer)


def _no_cluster(on: str, why: object, value: object = None) -> UnweaveError:
    return UnweaveError(
        f"no Ray cluster answers at {on} ({why}); check the address, or start a cluster with "
        "`ray start --head`",
        subject=on,
        value=value,
    )


def _code(plugins: Mapping[str, Path]) -> dict[str, Any]:
    """Ray options that send this package and plugins; nodes need only the dependencies."""
    import unweave

    paths = [Path(unweave.__file__).parent, *dict.fromkeys(plugins.values())]
    return {"py_modules": [str(path) for path in paths], "excludes": ["__pycache__"]}


@contextmanager
def _restored_environment() -> Iterator[None]:
    """Restore the SIGTERM handler and the environment variables that Ray changes."""
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


class Slot(NamedTuple):
    """A slot for one task on a node, with at most one GPU and a share of the node's cores.

    The share is a fraction if a node has more GPUs than cores.
    """

    node: str
    host: str
    number: int
    gpus: int
    cpus: float

    @property
    def name(self) -> str:
        """Display name; several nodes may be on one host."""
        return f"{self.host} ({self.node[:6]}, {'GPU' if self.gpus else 'CPU'} {self.number})"

    @property
    def scorers(self) -> int:
        """Default number of scoring processes, as on a machine of that size."""
        return max(1, int(self.cpus) - 1 if self.gpus else int(self.cpus) // 2)


def slots(nodes: Sequence[Mapping[str, Any]], device: str | None) -> list[Slot]:
    """The slots of a cluster: one per GPU, or one per node if the cluster has no GPU.

    Args:
        nodes: Nodes as returned by `ray.nodes()`.
        device: `"cpu"`, `"cuda"`, or None for either.
    """
    alive = [node for node in nodes if node["Alive"]]
    on_gpus = device != "cpu" and any(_amount(node, "GPU") >= 1 for node in alive)
    if device == "cuda" and not on_gpus:
        return []
    found = []
    for node in alive:
        cpus = _amount(node, "CPU")
        count = int(_amount(node, "GPU")) if on_gpus else int(cpus >= 1)
        for number in range(count):
            share = cpus / count
            share = math.floor(share) if share >= 1 else share
            host = node["NodeManagerHostname"]
            found.append(Slot(node["NodeID"], host, number, int(on_gpus), share))
    return found


def _amount(node: Mapping[str, Any], resource: str) -> float:
    return float(node["Resources"].get(resource, 0))
