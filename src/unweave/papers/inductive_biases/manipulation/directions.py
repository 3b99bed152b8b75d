r"""m as it is learned from the images alone: it turns the directions in which they vary.

    d_k(w) = x̃(w + h_k) - x̃(w),    G = (d_k·d_l)
    m maximises E_w ½ [Σ_k log (G_kk + ρ) - log det (G + ρ I)],    x̃ = r(x + m(w))

with h_k a step of about a standard deviation along factor k. The expression is what a code with a
latent for each factor costs a VAE, in nats per image and to first order, above the best code that
there is: noise of latents adapts, so that a code costs the logarithms of how far the image moves
with each latent, and these sum up to the least, log det G / 2, where the directions are orthogonal
(`theory.pca_alignment`; by Hadamard's inequality). It is 0 where factors move images
at right angles, as they mostly do, and m, a function of one mixture of them, makes them alike.

ρ is a squared distance that is not seen: below it directions do not count.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from unweave.data.dataset import Dataset, as_floats
from unweave.data.grid import Grid
from unweave.data.origin import origin_of
from unweave.errors import DataError
from unweave.fleet.parameters import NetworkGroup
from unweave.nets.adam import Adam
from unweave.nets.device import chosen_device
from unweave.nets.graphs import Replayed
from unweave.papers.inductive_biases.manipulation.contest import MANIPULATION
from unweave.papers.inductive_biases.manipulation.loop import learned, manipulation_of, prepared
from unweave.papers.inductive_biases.manipulation.manipulation import Manipulation
from unweave.papers.inductive_biases.manipulation.network import (
    manipulation_network,
    reflect,
    standardised,
)
from unweave.random import Stream

__all__ = ["Turning", "excess", "strides", "turn_directions"]

UNSEEN = 1.0
"""ρ, in squared units of the range of a pixel, summed over pixels."""
OPTIMISER = Adam(lr=3e-4, eps=1e-7)
COLUMNS = ("step", "excess")
LOOKED_AT = 256


def turn_directions(
    data: Dataset | str,
    epsilon: float | None = None,
    steps: int = 6_000,
    *,
    out: str | Path | None = None,
    batch: int = 64,
    seed: int = 0,
    optimiser: Adam = OPTIMISER,
    precision: Literal["float32", "tf32"] = "float32",
    device: str | torch.device | None = None,
    progress: bool = True,
    checkpoint_every: float = 60.0,
    overwrite: bool = False,
) -> Manipulation:
    """Learn a small change of images that makes a latent for each factor costly; without models.

    Args:
        data: Images with a grid of factors, or the name of such a data set.
        epsilon: How far a pixel moves, at most; by default 0.1, for rooms 0.175.
        steps: How often m is moved.
        out: The file to write. Training that was interrupted goes on from a checkpoint beside it.
        batch: Places w per step; at each an image for every factor, and one more.
        seed: Of initial weights and places.
        optimiser: Of m.
        precision: Of products on a GPU, where tf32 is faster.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.
        checkpoint_every: Seconds between checkpoints.
        overwrite: Whether another manipulation in `out` may be replaced.

    Returns:
        The change, whose `modified(data)` is the new data set; `curve` has the nats.
    """
    data, epsilon = prepared(data, epsilon, precision)
    if data.grid is None or data.weights is not None or sum(n > 1 for n in data.grid.sizes) < 2:
        raise DataError(
            f"{data.name} has no whole grid of two factors or more, which this needs; take one "
            "such as dsprites"
        )
    place = chosen_device(device)
    return learned(
        lambda said: Turning(data, said, optimiser, place),
        {
            "data": list(origin_of(data)),
            "epsilon": epsilon,
            "steps": steps,
            "batch": batch,
            "seed": seed,
            "optimiser": asdict(optimiser),
            "precision": precision,
        },
        place,
        out=out,
        progress=progress,
        checkpoint_every=checkpoint_every,
        overwrite=overwrite,
    )


def excess(directions: Tensor) -> Tensor:
    """½ [Σ_k log (G_kk + ρ) - log det (G + ρ I)] of directions `[..., K, pixels]`, in nats.

    Example:
        >>> two = torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [3.0, 0.1]])
        >>> [round(float(excess(one)), 2) for one in two]
        [0.0, 0.83]
    """
    gram = directions @ directions.mT
    left = gram + UNSEEN * torch.eye(gram.shape[-1], device=gram.device, dtype=gram.dtype)
    found = left.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    while left.shape[-1]:  # elimination, since a graph of a GPU cannot hold a factorisation
        pivot, row = left[..., :1, :1], left[..., :1, 1:]
        found = found - pivot[..., 0, 0].log()
        left = left[..., 1:, 1:] - row.mT * row / pivot
    return found / 2


def strides(grid: Grid) -> list[int]:
    """The step along each factor, in classes: a standard deviation, and at most to the last.

    Example:
        >>> from unweave.data.grid import Factor
        >>> strides(Grid((Factor("a", range(5)), Factor("b", range(15)), Factor("c", [7]))))
        [1, 4, 0]
    """
    return [min(max(round(float(np.arange(n).std())), 1), n - 1) for n in grid.sizes]


class Turning:
    """m while it is learned; a `unweave.papers.inductive_biases.manipulation.loop.Game`.

    Args:
        data: The images.
        settings: As `turn_directions` collects them.
        optimiser: Of m.
        device: Where it is learned.
    """

    columns = COLUMNS

    def __init__(
        self, data: Dataset, settings: Mapping[str, Any], optimiser: Adam, device: torch.device
    ) -> None:
        assert data.grid is not None
        self.settings, self.grid, self.device = settings, data.grid, device
        self.data = data.to(device)
        self.seed = torch.tensor(settings["seed"], device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.values = [torch.tensor(w).float().to(device) for w in standardised(self.grid)]
        steps = strides(self.grid)
        moved = [k for k, step in enumerate(steps) if step]
        self.moves = torch.tensor([[0] * len(steps), *np.diag(steps)[moved].tolist()]).to(device)
        self.room = torch.tensor(self.grid.sizes).to(device) - self.moves.sum(0)
        network = manipulation_network(len(self.grid.axes), data.shape)
        start = network.initial(self.seed[None], "manipulation")
        self.group = NetworkGroup.of_one(MANIPULATION, network, start, optimiser)
        self._replayed = Replayed(device)

    def advance(self, most: int = 1) -> int:
        """Move m at least once and at most so often; how often. A GPU replays what it recorded."""
        return self._replayed.some(self._step, most)

    def _step(self) -> None:
        leaves = self.group.leaves()[MANIPULATION]
        nats = self.excess(self.places(self.settings["batch"], "places", self.step), leaves)
        gradients = torch.autograd.grad(-nats, list(leaves.values()))
        rows = torch.ones(1, dtype=torch.bool, device=self.device)
        with torch.no_grad():
            self.group.update(gradients, self.step, rows, rows.clone())
        self.step += 1

    def places(self, count: int, purpose: str, number: Tensor | int) -> Tensor:
        """Classes `[count, K]` from which a step along every factor stays in the grid."""
        stream = Stream(self.seed, purpose, number)
        return (stream.uniform(count, len(self.room)) * self.room).long()

    def excess(self, places: Tensor, m: Mapping[str, Tensor]) -> Tensor:
        """The mean over places, with these parameters of m."""
        classes = (places + self.moves[:, None]).flatten(0, 1)
        w = torch.stack([values[classes[:, k]] for k, values in enumerate(self.values)], -1)
        said = self.group.networks[MANIPULATION](m, w[None])[0].tanh()
        images = as_floats(self.data.inputs(self.grid.index(classes)))
        changed = reflect(images + self.settings["epsilon"] * said)
        changed = changed.flatten(1).unflatten(0, (len(self.moves), -1))
        return excess((changed[1:] - changed[:1]).transpose(0, 1)).mean()

    @torch.no_grad()
    def look(self) -> list[float]:
        """A row of the curve, always at the same places."""
        m = self.group.named(self.group.parameters)[MANIPULATION]
        return [float(self.step), float(self.excess(self.places(LOOKED_AT, "looking", 0), m))]

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name."""
        moments = self.group.moments
        return {
            "step": self.step,
            "m/parameters": self.group.parameters,
            "m/first": moments.first,
            "m/second": moments.second,
        }

    def result(self, rows: list[list[float]]) -> Manipulation:
        """m as it is now."""
        curve = pd.DataFrame(rows, columns=list(self.columns))
        return manipulation_of(self.group, self.settings, self.data.shape, self.grid, curve)
