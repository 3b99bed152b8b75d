"""A Ray to work with: how it is started or reached, its nodes, and actors on them."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unweave.errors import UnweaveError

__all__ = ["connected", "nodes", "start_actor"]

REACH_SECONDS = 5.0
OBJECT_BYTES = 200_000_000
"""For Ray's object store on one machine: nothing large passes through it."""
ADDED = ("RAY_AUTH_MODE", "PYTHONBREAKPOINT")
"""What Ray adds to the environment of a process, and with that to those that it starts."""


@contextmanager
def connected(on: str) -> Iterator[None]:
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


def start_actor(kind: type, node: str, **options: Any) -> Any:
    """An actor of Ray on a certain node, which is not started again when it dies."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    made: Any = ray.remote(kind)
    return made.options(scheduling_strategy=there, max_restarts=0, **options).remote()


def nodes() -> list[dict[str, Any]]:
    """All nodes of the cluster, as Ray has them."""
    import ray

    found: list[dict[str, Any]] = ray.nodes()
    return found


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
