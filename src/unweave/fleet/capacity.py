"""How many models a device holds at once, by measuring two small fleets, or a larger one."""

import gc
import math
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from unweave.data.dataset import Dataset
from unweave.errors import UnweaveError
from unweave.fleet.diagnostics import diagnose
from unweave.fleet.engine import Engine
from unweave.io.arrays import free_memory
from unweave.models.config import Config

__all__ = ["fits", "room", "shares", "taken_by"]

FEW, MORE = 2, 6
"""The fleets that are measured; up to the larger one nothing is. With members they are smaller."""
SHARE = 0.9
"""Of the free memory, how much a fleet may take."""


def fits(configs: Sequence[Config], data: Dataset, device: torch.device) -> int:
    """How many of these runs, which can share a fleet, fit on the device together."""
    free, before = _free(device), _taken(device)
    # Against one beginning: on a CPU what the first fleet leaves is taken over by the second.
    return room(
        len(configs),
        free,
        lambda count: taken_by(configs[:count], data, device) - before,
        configs[0].method.num_members,
    )


def room(count: int, free: int, measure: Callable[[int], int], num_members: int = 1) -> int:
    """How many of `count` models fit into the free bytes.

    Args:
        count: How many there are.
        free: What a fleet may take, and some more.
        measure: The bytes that a fleet of some size takes, or an `OutOfMemoryError`.
        num_members: Members per model.
    """
    few, more = max(1, FEW // num_members), max(2, MORE // num_members)
    if count <= more:
        return count
    try:
        with_few, with_more = measure(few), measure(more)
    except torch.cuda.OutOfMemoryError:
        return _one(free, measure)
    about = _extrapolated(few, with_few, more, with_more, SHARE * free)
    if about >= count:
        return count
    # Memory is taken in large pieces, of which small fleets fill few: their slope is too steep.
    larger = about // 2
    if larger <= 2 * more:
        return max(1, about)
    try:
        return min(count, _extrapolated(few, with_few, larger, measure(larger), SHARE * free))
    except torch.cuda.OutOfMemoryError:
        return larger // 2


def _extrapolated(few: int, with_few: int, more: int, with_more: int, room: float) -> int:
    """How many models fit, by a line through what two fleets take."""
    each = max(1.0, (with_more - with_few) / (more - few))
    constant = max(0.0, with_few - few * each)
    return int((room - constant) / each)


def _one(free: int, measure: Callable[[int], int]) -> int:
    """One at a time, where not even a few fit; an error where not even one does."""
    try:
        measure(1)
    except torch.cuda.OutOfMemoryError as error:
        raise UnweaveError(
            f"not even one model fits into the {free / 1e9:.1f} GB that are free; make the batch "
            "smaller, or free the device"
        ) from error
    return 1


def shares(count: int, size: int) -> list[int]:
    """`count` runs in as few fleets of at most `size` as possible, as even as possible."""
    fleets = math.ceil(count / size)
    return [count // fleets + (place < count % fleets) for place in range(fleets)]


def taken_by(configs: Sequence[Config], data: Dataset, device: torch.device) -> int:
    """What this process has taken of the device while a fleet runs, data included."""
    engine = Engine(configs, data, device)
    engine.advance(Engine.STEPS_TO_FULL_MEMORY if device.type == "cuda" else 1)
    diagnose(engine)
    taken = _taken(device)
    del engine
    _release(device)
    return taken


def _taken(device: torch.device) -> int:
    if device.type == "cuda":
        _release(device)
        return torch.cuda.memory_reserved(device)
    words = _read("/proc/self/statm").split()
    return int(words[1]) * mmap.PAGESIZE if words else 0


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        _release(device)
        return torch.cuda.mem_get_info(device)[0]
    return free_memory()


def _release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _read(path: str) -> str:
    """What the kernel says; nothing where there is no such file, as outside Linux."""
    file = Path(path)
    return file.read_text() if file.exists() else ""
