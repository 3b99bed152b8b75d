"""Learning an m from beginning to end: progress, checkpoints, interruption, the file."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import torch
from torch import Tensor

from unweave.data import load as load_data
from unweave.data.dataset import Dataset
from unweave.data.grid import Grid
from unweave.errors import InterruptedTrainingError, UnknownNameError, UnweaveError
from unweave.fleet.loop import interruptible
from unweave.fleet.parameters import NetworkGroup
from unweave.io import generations
from unweave.io.arguments import check_count, check_seed
from unweave.nets.architectures import Shape
from unweave.nets.device import keep_memory, matmul_precision
from unweave.papers.inductive_biases.manipulation import checkpoint
from unweave.papers.inductive_biases.manipulation.images import (
    BASES,
    check_alterable,
    check_epsilon,
)
from unweave.papers.inductive_biases.manipulation.manipulation import Manipulation
from unweave.progress import lines

__all__ = ["Game", "learned", "manipulation_of", "prepared"]

LOOKS = 50
"""How often, at most, a row of the curve is computed."""
JOB = "learning what to change"
PRECISIONS = ("float32", "tf32")
USUAL = 0.1
MOST = 10**9
"""Steps, images per step and codes per image; more are a mistake."""
"""ε where the paper has none."""


class Game(Protocol):
    """What m is learned by."""

    settings: Mapping[str, Any]
    step: Tensor
    """How often m was moved."""

    @property
    def columns(self) -> Sequence[str]:
        """Of the curve, `step` first."""
        ...

    def advance(self, most: int = 1) -> int:
        """Move m at least once and at most so often; how often."""
        ...

    def look(self) -> list[float]:
        """A row of the curve, `step` first."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        ...

    def result(self, rows: list[list[float]]) -> Manipulation:
        """m as it is now."""
        ...


def prepared(data: Dataset | str, epsilon: float | None, precision: str) -> tuple[Dataset, float]:
    """The images and ε, by default that of these images; refuses what no m is learned with."""
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    data = load_data(data) if isinstance(data, str) else data
    check_alterable(data)
    epsilon = BASES.get(data.name, USUAL) if epsilon is None else float(epsilon)
    check_epsilon(epsilon)
    return data, epsilon


def manipulation_of(
    group: NetworkGroup, settings: Mapping[str, Any], shape: Shape, grid: Grid, curve: pd.DataFrame
) -> Manipulation:
    """What a game ends with: the m of its group."""
    (network,) = group.networks.values()
    parameters = {name: value[0].cpu().clone() for name, value in network.named(group.parameters)}
    return Manipulation(parameters, settings["epsilon"], shape, grid.sizes, settings, curve)


def learned(
    make: Callable[[Mapping[str, Any]], Game],
    settings: Mapping[str, Any],
    place: torch.device,
    *,
    out: str | Path | None,
    progress: bool,
    checkpoint_every: float,
    overwrite: bool,
) -> Manipulation:
    """The m in a file, or else the one that a game ends with, which is then in the file.

    Args:
        make: Makes the game from its settings.
        settings: All that says which m it is, `steps` and `precision` among them.
        place: Where it is learned.
        out: The file; training that was interrupted goes on from a checkpoint beside it.
        progress: Whether to show how far it is.
        checkpoint_every: Seconds between checkpoints.
        overwrite: Whether another m in `out` may be replaced.
    """
    check_seed(settings["seed"])
    for name in ("steps", "batch", *(["draws"] if "draws" in settings else [])):
        check_count(name, settings[name], 1, MOST)
    settings = json.loads(json.dumps(settings))
    path = None if out is None else Path(out)
    if path is not None and path.exists():
        there = Manipulation.load(path)
        if there.settings == settings:
            return there
        if not overwrite:
            raise UnweaveError(f"{path} is already there; choose another file, or overwrite it")
    if place.type == "cpu":
        keep_memory()
    game = make(settings)
    with matmul_precision(settings["precision"]):
        rows = _run(game, path, progress, checkpoint_every)
    found = game.result(rows)
    if path is not None:
        found.save(path)
        generations.remove(checkpoint.beside(path))
    return found


def _run(
    game: Game, path: Path | None, progress: bool, checkpoint_every: float
) -> list[list[float]]:
    """Train to the end; the curve."""
    total = game.settings["steps"]
    every = max(1, math.ceil(total / LOOKS))
    place = None if path is None else checkpoint.beside(path)
    rows: list[list[float]] = []
    if place is not None:
        rows = checkpoint.restore(game.tensors(), game.settings, len(game.columns), place)
    rows = rows or [game.look()]
    step, saved = int(game.step), time.monotonic()
    with interruptible() as stopped, lines({JOB: total}, progress) as advance:
        advance(JOB, step)
        while step < total:
            taken = game.advance(min(every - step % every, total - step))
            step += taken
            advance(JOB, taken)
            if step % every == 0 or step == total:
                rows.append(game.look())
            late = time.monotonic() - saved > checkpoint_every
            if place is not None and step < total and (late or stopped()):
                checkpoint.save(game.tensors(), game.settings, rows, place)
                saved = time.monotonic()
            if stopped() and step < total:
                kept = "nothing was saved: no file was given" if path is None else "run it again"
                raise InterruptedTrainingError(f"stopped at step {step:,} of {total:,}; {kept}")
    return rows
