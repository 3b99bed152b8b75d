"""How large models are before they are trained: parameters, and bytes on disk."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from unweave.io.paths import check_room
from unweave.methods.base import MODEL
from unweave.models.config import Config
from unweave.models.networks import networks_of
from unweave.text import counted

__all__ = ["check_disk", "disk_bytes", "num_parameters"]

Shape: TypeAlias = tuple[int, int, int]

CURVE_BYTES = 12
"""Of a curve, per number that it holds, once compressed and indexed."""
WINDOW, TERMS, SMALL_FILES = 100, 6, 8_000
STATE = 6
"""A checkpoint holds parameters and two moments, and the one before it is kept as well."""


def disk_bytes(config: Config, shape: Shape, in_training: bool = False) -> int:
    """What a run takes in its folder; while it trains, with its share of the checkpoint."""
    weights = 4 * num_parameters(config, shape)
    windows = -(-config.steps // WINDOW)
    kept = weights + windows * TERMS * CURVE_BYTES + SMALL_FILES
    return kept + (STATE * weights if in_training else 0)


def check_disk(configs: Sequence[Config], shape: Shape, folder: Path) -> None:
    """Refuse runs whose results would not fit on the disk; those in the folder take no more."""
    missing = [config for config in configs if not (folder / config.hash).exists()]
    need = sum(disk_bytes(config, shape, in_training=True) for config in missing)
    check_room(folder, need, counted(len(missing), "model"))


def num_parameters(config: Config, shape: Shape) -> int:
    """The parameters of one model, those of all its members and extra networks included."""
    # Strengths change no size: with 2, which all of them may be, networks are counted once.
    method = replace(config.method, **dict.fromkeys(config.method.strengths(), 2.0))
    return _counted(replace(config, method=method, data=(), seed=0), shape)


@lru_cache
def _counted(config: Config, shape: Shape) -> int:
    return sum(
        network.width * (config.method.num_members if group == MODEL else 1)
        for group, networks in networks_of(config, shape).items()
        for network in networks.values()
    )
