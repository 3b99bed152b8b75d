"""Training of a manipulation m: loop, checkpoints, interruption, and output file."""

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import torch
from torch import Tensor

from unweave.data import load as load_data
from unweave.data.dataset import Dataset, as_floats
from unweave.data.origin import origin_of
from unweave.errors import InterruptedTrainingError, UnknownNameError, UnweaveError
from unweave.fleet.loop import interruptible
from unweave.fleet.parameters import NetworkGroup
from unweave.io import generations
from unweave.io.arguments import check_count, check_seed
from unweave.nets.adam import Adam
from unweave.nets.device import chosen_device, keep_memory, matmul_precision
from unweave.nets.graphs import GraphRunner
from unweave.papers.inductive_biases.manipulation.images import (
    BASES,
    check_alterable,
    check_epsilon,
)
from unweave.papers.inductive_biases.manipulation.manipulation import (
    Manipulation,
    manipulation_network,
    reflect,
    standardised,
)
from unweave.progress import lines

__all__ = ["MANIPULATION", "Learner", "Training"]

MANIPULATION = "m"
CURVE_ROWS = 50
"""Largest number of rows in the curve."""
JOB = "training the manipulation"
PRECISIONS = ("float32", "tf32")
DEFAULT_EPSILON = 0.1
"""ε for data sets that are not in the paper."""
MOST = 10**9
"""Upper bound on steps, images per step and codes per image."""


class Learner(ABC):
    """Base class for training m on images.

    Args:
        data: Images with a grid of factors.
        settings: Settings that determine m: `epsilon`, `seed`, `batch`, `steps` and others.
        optimiser: Optimiser of m.
        device: Training device.
    """

    columns: ClassVar[tuple[str, ...]]
    """Columns of the curve, with `step` first and the objective of m last."""

    def __init__(
        self, data: Dataset, settings: Mapping[str, Any], optimiser: Adam, device: torch.device
    ) -> None:
        assert data.grid is not None
        self.settings, self.grid, self.device = settings, data.grid, device
        self.data = data.to(device)
        self.seed = torch.tensor(settings["seed"], device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        """Number of training steps taken."""
        self._values = [torch.tensor(w).float().to(device) for w in standardised(self.grid)]
        network = manipulation_network(len(self.grid.axes), data.shape)
        start = network.initial(self.seed[None], "manipulation")
        self.m = NetworkGroup.of_one(MANIPULATION, network, start, optimiser)
        self._runner = GraphRunner(device)

    @property
    def groups(self) -> dict[str, NetworkGroup]:
        """All trained networks, by name."""
        return {MANIPULATION: self.m}

    @abstractmethod
    def move(self) -> None:
        """Update m once, without synchronising with the host."""

    @abstractmethod
    def curve_row(self) -> list[float]:
        """Return a row of the curve."""

    def advance(self, most: int = 1) -> int:
        """Take between one and `most` steps; return their number. A GPU replays CUDA graphs."""
        return self._runner.run_some(self._step, most)

    def _step(self) -> None:
        self.move()
        self.step += 1

    def standardised(self, classes: Tensor) -> Tensor:
        """The factors w `[n, K]` of classes `[n, K]`."""
        return torch.stack([values[classes[:, k]] for k, values in enumerate(self._values)], -1)

    def changed(self, output: Tensor, images: Tensor) -> Tensor:
        """x̃ of images `[n, H, W, C]`, given the output of the network."""
        return reflect(as_floats(images) + self.settings["epsilon"] * output.tanh())

    def tensors(self) -> dict[str, Tensor]:
        """Training state by name."""
        found = {"step": self.step}
        for name, group in self.groups.items():
            found[f"{name}/parameters"] = group.parameters
            found[f"{name}/first"] = group.moments.first
            found[f"{name}/second"] = group.moments.second
        return found

    def result(self, rows: list[list[float]]) -> Manipulation:
        """The current m, with its curve."""
        (network,) = self.m.networks.values()
        parameters = {
            name: value[0].cpu().clone() for name, value in network.named(self.m.parameters)
        }
        curve = pd.DataFrame(rows, columns=list(self.columns))
        epsilon, sizes = self.settings["epsilon"], self.grid.sizes
        return Manipulation(parameters, epsilon, self.data.shape, sizes, self.settings, curve)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Arguments that all ways of learning a manipulation share.

    Args:
        epsilon: Largest change of a pixel (default: 0.1; 0.175 for rooms and Shapes3D).
        steps: Training steps of m.
        optimiser: Optimiser of m.
        out: Output file. Interrupted training resumes from a checkpoint next to it.
        batch: Images per step.
        seed: Seed of initial weights, batches and noise.
        precision: Precision of matrix multiplications on a GPU, where tf32 is faster.
        device: Device (default: a GPU if available).
        progress: Whether to show progress.
        checkpoint_every: Seconds between checkpoints.
        overwrite: Whether to replace a different manipulation in `out`.
    """

    epsilon: float | None
    steps: int
    optimiser: Adam
    out: str | Path | None = None
    batch: int = 64
    seed: int = 0
    precision: Literal["float32", "tf32"] = "float32"
    device: str | torch.device | None = None
    progress: bool = True
    checkpoint_every: float = 60.0
    overwrite: bool = False

    @cached_property
    def place(self) -> torch.device:
        """Training device."""
        return chosen_device(self.device)

    def prepared(self, data: Dataset | str) -> Dataset:
        """Load and check the data."""
        if self.precision not in PRECISIONS:
            raise UnknownNameError("precision", self.precision, PRECISIONS)
        data = load_data(data) if isinstance(data, str) else data
        check_alterable(data)
        check_epsilon(self._epsilon_for(data))
        return data

    def _epsilon_for(self, data: Dataset) -> float:
        usual = BASES.get(data.name, DEFAULT_EPSILON)
        return usual if self.epsilon is None else float(self.epsilon)

    def learn(
        self,
        make: Callable[[Mapping[str, Any]], Learner],
        data: Dataset,
        more: Mapping[str, Any] | None = None,
    ) -> Manipulation:
        """Load m from the file `out` if its settings match; otherwise train it and save it there.

        Args:
            make: Function that creates the learner from its settings.
            data: Images from `prepared`.
            more: Further settings.
        """
        settings = {
            "data": list(origin_of(data)),
            "epsilon": self._epsilon_for(data),
            "steps": self.steps,
            "batch": self.batch,
            "seed": self.seed,
            "optimiser": self.optimiser.to_dict(),
            "precision": self.precision,
            **(more or {}),
        }
        check_seed(settings["seed"])
        for name in ("steps", "batch", *(["draws"] if "draws" in settings else [])):
            check_count(name, settings[name], 1, MOST)
        settings = json.loads(json.dumps(settings))
        path = None if self.out is None else Path(self.out)
        if path is not None and path.exists():
            there = Manipulation.load(path)
            if there.settings == settings:
                return there
            if not self.overwrite:
                raise UnweaveError(
                    f"{path} already exists; choose another file, or use overwrite to replace it",
                    subject="out",
                    value=path,
                )
        if self.place.type == "cpu":
            keep_memory()
        learner = make(settings)
        checkpoint = None if path is None else path.with_name(f".{path.name}.checkpoint")
        with matmul_precision(settings["precision"]):
            rows = _run(learner, checkpoint, self.progress, self.checkpoint_every)
        found = learner.result(rows)
        if path is not None and checkpoint is not None:
            found.save(path)
            generations.remove(checkpoint)
        return found


def _run(
    learner: Learner, checkpoint: Path | None, progress: bool, checkpoint_every: float
) -> list[list[float]]:
    """Train to the end and return the curve."""
    total = learner.settings["steps"]
    every = max(1, math.ceil(total / CURVE_ROWS))
    rows = [] if checkpoint is None else _restore(learner, checkpoint)
    rows = rows or [learner.curve_row()]
    step, saved = int(learner.step), time.monotonic()
    with interruptible() as stopped, lines({JOB: total}, progress) as advance:
        advance(JOB, step)
        while step < total:
            taken = learner.advance(min(every - step % every, total - step))
            step += taken
            advance(JOB, taken)
            if step % every == 0 or step == total:
                rows.append(learner.curve_row())
            late = time.monotonic() - saved > checkpoint_every
            if checkpoint is not None and step < total and (late or stopped()):
                tensors = {**learner.tensors(), "curve": torch.tensor(rows, dtype=torch.float64)}
                generations.save(checkpoint, tensors, {"settings": learner.settings})
                saved = time.monotonic()
            if stopped() and step < total:
                hint = "run it again to resume" if checkpoint else "nothing saved: out was not set"
                raise InterruptedTrainingError(
                    f"stopped at step {step:,} of {total:,}; {hint}", subject="step", value=step
                )
    return rows


def _restore(learner: Learner, checkpoint: Path) -> list[list[float]]:
    """Restore the newest undamaged checkpoint, if any, and return its curve."""
    for place in (checkpoint, generations.previous_of(checkpoint)):
        try:
            return _restore_from(place, learner)
        except FileNotFoundError:
            continue
        except generations.DamagedCheckpointError as error:
            generations.put_aside(place, error)
    return []


def _restore_from(path: Path, learner: Learner) -> list[list[float]]:
    tensors, steps = learner.tensors(), learner.settings["steps"]
    with generations.opened(path) as file:
        if file.facts["settings"] != learner.settings:
            raise UnweaveError(
                f"checkpoint {path} has different settings; remove it to start again",
                subject="checkpoint",
                value=path,
            )
        wanted = {name: (value.dtype, tuple(value.shape)) for name, value in tensors.items()}
        # The first row is m before training.
        windows = min(max(file.layout["curve"][1][0], 0), steps + 1)
        wanted["curve"] = (torch.float64, (windows, len(learner.columns)))
        if dict(file.layout) != wanted:
            raise ValueError("its tensors do not match the settings")
        stored = generations.verified(file)
        if not 0 <= int(stored["step"]) <= steps:
            raise ValueError(f"step must be between 0 and {steps:,}, got {int(stored['step']):,}")
        if not generations.has_checksum(file):
            for name in tensors:
                if not bool(stored[name].isfinite().all()):
                    raise ValueError(f"{name} must be finite")
    for name, tensor in tensors.items():
        tensor.copy_(stored[name])
    rows: list[list[float]] = stored["curve"].tolist()
    return rows
