"""m as it is learned from pairs of models: what is drawn, what is kept, what comes of it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.data.dataset import Dataset, as_floats
from unweave.data.grid import Grid
from unweave.data.origin import origin_of
from unweave.errors import DataError, UnweaveError
from unweave.fleet.parameters import NetworkGroup
from unweave.io.arguments import numpy_rng
from unweave.methods.base import MODEL
from unweave.methods.posterior import Posterior
from unweave.models.finding import Models, models_of
from unweave.models.model import Fleet
from unweave.models.networks import networks_of
from unweave.nets.adam import Adam
from unweave.nets.device import chosen_device
from unweave.nets.graphs import Replayed
from unweave.papers.inductive_biases.manipulation.contest import (
    DECODER,
    LOSSES,
    MANIPULATION,
    Contest,
)
from unweave.papers.inductive_biases.manipulation.exemplars import joined, name_of
from unweave.papers.inductive_biases.manipulation.loop import learned, manipulation_of, prepared
from unweave.papers.inductive_biases.manipulation.manipulation import COLUMNS, Manipulation
from unweave.papers.inductive_biases.manipulation.network import (
    manipulation_network,
    reflect,
    standardised,
)
from unweave.random import Stream

__all__ = ["Training", "manipulate"]

OPTIMISER = Adam(lr=1e-4, beta1=0.9, beta2=0.999, eps=1e-7)
HELD_OUT = 256


def manipulate(
    data: Dataset | str,
    disentangling: Models,
    entangling: Models,
    epsilon: float | None = None,
    steps: int = 30_000,
    *,
    out: str | Path | None = None,
    batch: int = 64,
    draws: int = 5,
    held_out: int | None = None,
    seed: int = 0,
    optimiser: Adam = OPTIMISER,
    precision: Literal["float32", "tf32"] = "float32",
    device: str | torch.device | None = None,
    progress: bool = True,
    checkpoint_every: float = 60.0,
    overwrite: bool = False,
) -> Manipulation:
    """Learn a small change of images that favours entangled codes; see the package.

    Args:
        data: Images with a grid of factors, or the name of such a data set.
        disentangling: One or several trained models whose codes are disentangled; only their
            encoders are used as they are, their decoders are where learning begins.
        entangling: The same of entangled ones, with networks of the same kind.
        epsilon: How far a pixel moves, at most; by default 0.1, for rooms 0.175.
        steps: How often m is moved; decoders are moved three times as often.
        out: The file to write. Training that was interrupted goes on from a checkpoint beside it.
        batch: Images per step.
        draws: Codes drawn per image.
        held_out: Images on which the losses are followed, and which nothing is learned from; by
            default 256, at most a quarter of all.
        seed: Of initial weights, batches and noise.
        optimiser: Of the decoders and of m.
        precision: Of products on a GPU, where tf32 is faster.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        checkpoint_every: Seconds between checkpoints.
        overwrite: Whether another manipulation in `out` may be replaced.

    Returns:
        The change, whose `modified(data)` is the new data set.
    """
    data, epsilon = prepared(data, epsilon, precision)
    sides = [models_of(side) for side in (disentangling, entangling)]
    pairs = joined([model for side in sides for model in side], data)
    settings = {
        "data": list(origin_of(data)),
        "disentangling": [name_of(model) for model in sides[0]],
        "entangling": [name_of(model) for model in sides[1]],
        "epsilon": epsilon,
        "steps": steps,
        "batch": batch,
        "draws": draws,
        "held_out": min(HELD_OUT, len(data.support) // 4) if held_out is None else held_out,
        "seed": seed,
        "optimiser": asdict(optimiser),
        "precision": precision,
    }
    place = chosen_device(device)
    return learned(
        lambda said: Training(pairs.to(place), len(sides[0]), data, said, optimiser),
        settings,
        place,
        out=out,
        progress=progress,
        checkpoint_every=checkpoint_every,
        overwrite=overwrite,
    )


class Training:
    """All that changes while m is trained, and the images that it is trained on.

    Args:
        pairs: The models, disentangling ones first, on their device.
        disentangling: How many these are.
        data: The images.
        settings: As `manipulate` collects them.
        optimiser: Of the decoders and of m.
    """

    columns = COLUMNS

    def __init__(
        self,
        pairs: Fleet,
        disentangling: int,
        data: Dataset,
        settings: Mapping[str, Any],
        optimiser: Adam,
    ) -> None:
        assert data.grid is not None
        self.settings = settings
        self.grid: Grid = data.grid
        self.device = pairs.device
        self.seed = torch.tensor(settings["seed"], device=self.device)
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.held = _held_out(data, settings["held_out"], settings["seed"])
        weights = np.ones(len(data)) if data.weights is None else data.weights.astype(float)
        weights = np.where(np.isin(np.arange(len(data)), self.held), 0, weights)
        self.data = replace(data, weights=weights).to(self.device)
        values = [torch.tensor(w, dtype=torch.float32) for w in standardised(self.grid)]
        self.values = [w.to(self.device) for w in values]
        self.contest = self._contest(pairs, disentangling, optimiser)
        self._replayed = Replayed(self.device)

    def _contest(self, pairs: Fleet, disentangling: int, optimiser: Adam) -> Contest:
        config, nets = pairs.configs[0], pairs.nets()
        decoder = networks_of(config, pairs.shape)[MODEL][DECODER]
        network = manipulation_network(len(self.grid.axes), pairs.shape)
        epsilon = self.settings["epsilon"]

        def encode(images: Tensor) -> Posterior:
            return config.method.encode(nets, images.expand(len(pairs), *images.shape))

        def alter(said: Tensor, images: Tensor) -> Tensor:
            return reflect(as_floats(images) + epsilon * said.tanh())

        starts = pairs.parameters[DECODER].clone()
        m = network.initial(self.seed[None], "manipulation")
        return Contest(
            encode,
            NetworkGroup.of_one(DECODER, decoder, starts, optimiser),
            NetworkGroup.of_one(MANIPULATION, network, m, optimiser),
            alter,
            LOSSES[config.likelihood],
            torch.arange(len(pairs), device=self.device) >= disentangling,
            self.settings["draws"],
            self.seed,
        )

    def advance(self, most: int = 1) -> int:
        """Move m at least once and at most so often; how often. A GPU replays what it recorded."""
        return self._replayed.some(self._step, most)

    def _step(self) -> None:
        """Three batches of the decoders and one of m, without a word to the host."""
        self.contest.step(self.batch, self.step)
        self.step += 1

    def batch(self, purpose: str, number: Tensor) -> tuple[Tensor, Tensor]:
        """Images and their standardised factors."""
        stream = Stream(self.seed, f"images for {purpose}", number)
        return self.inputs(self.data.draw_indices(self.settings["batch"], stream))

    def inputs(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The same of some images."""
        classes = self.data.factors(indices)
        w = [values[classes[:, k]] for k, values in enumerate(self.values)]
        return self.data.inputs(indices), torch.stack(w, -1)

    @torch.no_grad()
    def look(self) -> list[float]:
        """A row of the curve: the losses on the held-out images, always with the same noise."""
        sums = torch.zeros(len(self.contest.entangling), device=self.device)
        held = torch.as_tensor(self.held, device=self.device)
        for k, part in enumerate(held.split(self.settings["batch"])):
            found = self.contest.losses(*self.inputs(part), self.contest.noise("looking", k))
            sums += found.values * len(part)
        losses = (sums / len(held)).double()
        helped = self.contest.entangling
        sides = losses[~helped].mean(), losses[helped].mean()
        row = [float(self.step), *map(float, sides), float(sides[1] - sides[0])]
        if not all(map(math.isfinite, row)):
            raise UnweaveError(
                f"the losses are not finite at step {int(self.step):,}; take a smaller lr"
            )
        return row

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        found = {"step": self.step}
        for name, group in self.contest.groups.items():
            found[f"{name}/parameters"] = group.parameters
            found[f"{name}/first"] = group.moments.first
            found[f"{name}/second"] = group.moments.second
        return found

    def result(self, rows: list[list[float]]) -> Manipulation:
        """m as it is now."""
        curve = pd.DataFrame(rows, columns=list(self.columns))
        return manipulation_of(
            self.contest.manipulation, self.settings, self.data.shape, self.grid, curve
        )


def _held_out(data: Dataset, count: int, seed: int) -> np.ndarray:
    """Some images that can be drawn, in the order of their numbers."""
    support = data.support
    if not 1 <= count < len(support):
        raise DataError(
            f"{data.name} has {len(support):,} images to draw, of which at least one can be held "
            f"out and not all, but got held_out={count}"
        )
    chosen = numpy_rng(seed).choice(support, count, replace=False)
    return np.sort(chosen)
