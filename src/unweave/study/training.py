"""Training one fleet of a study, wherever that is done; the ledger is the caller's business."""

import shutil
import time
from collections.abc import Callable, Sequence

import torch

from unweave.errors import InterruptedTrainingError, UnweaveError
from unweave.fleet.train import train_runs
from unweave.models.config import Config
from unweave.models.size import disk_bytes
from unweave.study.datasets import Sources
from unweave.study.store import Store

__all__ = ["NoRoomError", "is_out_of_memory", "train_fleet"]


class NoRoomError(UnweaveError):
    """A disk on which the results of the next fleet do not fit."""


def train_fleet(
    store: Store,
    sources: Sources,
    configs: Sequence[Config],
    device: torch.device,
    *,
    progress: bool,
    checkpoint_every: float,
    meanwhile: Callable[[str], bool | None],
) -> float | None:
    """Train runs together and save them in the study, resuming from their checkpoint if any.

    Args:
        store: The study.
        sources: Its data sets.
        configs: The runs, which can share a fleet.
        device: Where to train.
        progress: Whether to show how far training is.
        checkpoint_every: Seconds between checkpoints.
        meanwhile: See `train_runs`.

    Returns:
        Seconds per step of one model, where all of them were trained from their first step.
    """
    runs = [config.hash for config in configs]
    begun = {run for old in store.interrupted() for run in old}
    afresh = not any(run in begun or store.has(run) for run in runs)
    start = time.monotonic()
    data = sources.open(configs[0])
    _demand_room(store, configs, data.shape)
    store.bring([*runs, *(config.first.hash for config in configs if config.first is not None)])
    store.bring_checkpoint(runs)
    try:
        train_runs(
            configs,
            data,
            out=store.runs,
            device=device,
            progress=progress,
            checkpoint_every=checkpoint_every,
            fleet_size=len(configs),
            meanwhile=meanwhile,
        )
    except InterruptedTrainingError:
        store.hand_in_checkpoints()
        raise
    store.hand_in(runs)
    if not afresh or not configs[0].steps:
        return None
    return (time.monotonic() - start) / configs[0].steps / len(configs)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether training failed because the fleet did not fit on its device."""
    return any(isinstance(one, torch.cuda.OutOfMemoryError) for one in (error, error.__cause__))


def _demand_room(store: Store, configs: Sequence[Config], shape: tuple[int, int, int]) -> None:
    """Stop before a fleet whose results would not fit on the disk."""
    need = sum(disk_bytes(config, shape, in_training=True) for config in configs)
    free = shutil.disk_usage(store.folder).free
    if need > free:
        raise NoRoomError(
            f"the next fleet needs {need / 1e9:.2g} GB in {store.folder}, where "
            f"{free / 1e9:.2g} GB are free; make room and run the same again"
        )
