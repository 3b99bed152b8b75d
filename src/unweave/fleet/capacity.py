"""Number of models that fit on a device, estimated from the memory use of small fleets."""

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
from unweave.models.networks import num_parameters

__all__ = ["fleet_capacity", "fleet_sizes", "max_models", "memory_of_training"]

SMALL_FLEET, LARGE_FLEET = 2, 6
"""Sizes of the measured fleets, divided by the number of members. Fleets up to the larger size
are not measured."""
ROOMY_BYTES = 4e6
"""Memory per image of 64 × 64 values on a CPU, several times what training needs (62 MB for a
batch of 64). Fleets that fit even by this estimate are not measured, because measuring takes
seconds."""
BYTES_PER_PARAMETER = 64
SHARE = 0.9
"""Fraction of the free memory that a fleet may use."""


def fleet_capacity(configs: Sequence[Config], data: Dataset, device: torch.device) -> int:
    """Return how many of these runs, which can share a fleet, fit on the device together."""
    free = _free_memory(device)
    kinds = {config.kind: config for config in configs}.values()
    largest = max(_roomy_bytes(config, data) for config in kinds)
    if device.type == "cpu" and len(configs) * largest < SHARE * free:
        return len(configs)
    before = _memory_in_use(device)
    # One baseline for all: on a CPU, the second fleet reuses memory that the first has released.
    return max_models(
        len(configs),
        free,
        lambda count: memory_of_training(_spread(configs, count), data, device) - before,
        configs[0].method.num_members,
    )


def _roomy_bytes(config: Config, data: Dataset) -> float:
    """Return more memory than a model needs on a CPU; n members decode n² images per image."""
    n = config.method.num_members
    images = config.batch * math.prod(data.shape) / 64**2 * (n + n * n) / 2
    return ROOMY_BYTES * images + BYTES_PER_PARAMETER * num_parameters(config, data.shape)


def _spread(configs: Sequence[Config], count: int) -> list[Config]:
    """Choose some runs at equal distances, so that all methods are represented."""
    return [configs[place * len(configs) // count] for place in range(count)]


def max_models(count: int, free: int, measure: Callable[[int], int], num_members: int = 1) -> int:
    """Return how many of `count` models fit into the free memory.

    Args:
        count: Number of models.
        free: Free memory in bytes.
        measure: Function from the size of a fleet to its memory in bytes; may raise an
            `OutOfMemoryError`.
        num_members: Members per model.
    """
    small, large = max(1, SMALL_FLEET // num_members), max(2, LARGE_FLEET // num_members)
    if count <= large:
        return count
    try:
        with_small, with_large = measure(small), measure(large)
    except torch.cuda.OutOfMemoryError:
        return _check_one_fits(free, measure)
    estimate = _extrapolated(small, with_small, large, with_large, SHARE * free)
    if estimate >= count:
        return count
    # Memory is allocated in large blocks, so small fleets overestimate the memory per model.
    larger = estimate // 2
    if larger <= 2 * large:
        return max(1, estimate)
    try:
        return min(count, _extrapolated(small, with_small, larger, measure(larger), SHARE * free))
    except torch.cuda.OutOfMemoryError:
        return larger // 2


def _extrapolated(small: int, with_small: int, large: int, with_large: int, limit: float) -> int:
    """Return how many models fit, by linear extrapolation from the memory of two fleets."""
    per_model = max(1.0, (with_large - with_small) / (large - small))
    constant = max(0.0, with_small - small * per_model)
    return int((limit - constant) / per_model)


def _check_one_fits(free: int, measure: Callable[[int], int]) -> int:
    """Return 1 if a single model fits, else raise an error."""
    try:
        measure(1)
    except torch.cuda.OutOfMemoryError as error:
        raise UnweaveError(
            f"a single model does not fit into {free / 1e9:.1f} GB of free memory; reduce the "
            "batch size, or free memory on the device",
            subject="device",
            value=free,
        ) from error
    return 1


def fleet_sizes(count: int, size: int) -> list[int]:
    """Split `count` runs evenly into as few fleets of at most `size` as possible."""
    fleets = math.ceil(count / size)
    return [count // fleets + (place < count % fleets) for place in range(fleets)]


def memory_of_training(configs: Sequence[Config], data: Dataset, device: torch.device) -> int:
    """Measure the memory of this process while a fleet trains, data included."""
    engine = Engine(configs, data, device)
    engine.advance(Engine.STEPS_TO_FULL_MEMORY if device.type == "cuda" else 1)
    diagnose(engine)
    taken = _memory_in_use(device)
    del engine
    _release(device)
    return taken


def _memory_in_use(device: torch.device) -> int:
    if device.type == "cuda":
        _release(device)
        return torch.cuda.memory_reserved(device)
    fields = _read("/proc/self/statm").split()
    return int(fields[1]) * mmap.PAGESIZE if fields else 0


def _free_memory(device: torch.device) -> int:
    if device.type == "cuda":
        _release(device)
        return torch.cuda.mem_get_info(device)[0]
    return free_memory()


def _release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _read(path: str) -> str:
    """Read a file in /proc; empty if it does not exist, as outside Linux."""
    file = Path(path)
    return file.read_text() if file.exists() else ""
