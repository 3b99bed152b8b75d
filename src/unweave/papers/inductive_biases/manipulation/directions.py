r"""Learning m from the images alone, by rotating the directions in which they vary.

    d_k(w) = x̃(w + h_k) - x̃(w),    G = (d_k·d_l)
    m maximises E_w ½ [Σ_k log (G_kk + ρ) - log det (G + ρ I)],    x̃ = r(x + m(w))

with h_k a step of about one standard deviation along factor k. The expression is the extra cost,
in nats per image and to first order, that a VAE pays for a code with one latent per factor rather
than the best code. Because latent noise adapts, a code costs the sum of the logarithms of how far
each latent moves the image. The minimum, log det G / 2, is attained by orthogonal directions
(`theory.pca_alignment`, Hadamard's inequality). The extra cost is 0 where factors move images in
orthogonal directions, as they mostly do; m, a function of one mixture of the factors, makes these
directions similar.

ρ is an imperceptible squared distance: shorter directions do not count.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.data.dataset import Dataset
from unweave.data.grid import Grid
from unweave.errors import DataError
from unweave.nets.adam import Adam
from unweave.papers.inductive_biases.manipulation.manipulation import Manipulation
from unweave.papers.inductive_biases.manipulation.training import MANIPULATION, Learner, Training
from unweave.random import Stream

__all__ = ["DirectionLearner", "excess", "strides", "turn_directions"]

IMPERCEPTIBLE = 1.0
"""ρ, in squared pixel ranges, summed over pixels."""
OPTIMISER = Adam(lr=3e-4, eps=1e-7)
COLUMNS = ("step", "excess")
EVALUATED_AT = 256


def turn_directions(
    data: Dataset | str,
    epsilon: float | None = None,
    steps: int = 6_000,
    *,
    optimiser: Adam = OPTIMISER,
    **training: Any,
) -> Manipulation:
    """Learn a small image change that makes one latent per factor costly, without trained models.

    Args:
        data: Images with a grid of factors, or the name of such a data set.
        epsilon: Largest change of a pixel (default: 0.1; 0.175 for rooms and Shapes3D).
        steps: Training steps of m.
        optimiser: Optimiser of m.
        training: `out`, `batch` (of grid points w, each with one image per factor and one more)
            and further fields of `Training`.

    Returns:
        The manipulation. Its `modified(data)` is the new data set, and its `curve` has the nats.
    """
    options = Training(epsilon=epsilon, steps=steps, optimiser=optimiser, **training)
    images = options.prepared(data)
    grid = images.grid
    if grid is None or images.weights is not None or sum(n > 1 for n in grid.sizes) < 2:
        raise DataError(
            f"data must have a complete grid of at least two factors, got {images.name}; use for "
            "example dsprites",
            subject="data",
            value=images.name,
        )

    def make(settings: Mapping[str, Any]) -> DirectionLearner:
        return DirectionLearner(images, settings, optimiser, options.place)

    return options.learn(make, images)


def excess(directions: Tensor) -> Tensor:
    """Compute ½ [Σ_k log (G_kk + ρ) - log det (G + ρ I)] in nats; directions `[..., K, pixels]`.

    Example:
        >>> two = torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [3.0, 0.1]])
        >>> [round(float(excess(one)), 2) for one in two]
        [0.0, 0.83]
    """
    gram = directions @ directions.mT
    left = gram + IMPERCEPTIBLE * torch.eye(gram.shape[-1], device=gram.device, dtype=gram.dtype)
    found = left.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    while left.shape[-1]:  # Gaussian elimination: CUDA graphs cannot capture a factorisation
        pivot, row = left[..., :1, :1], left[..., :1, 1:]
        found = found - pivot[..., 0, 0].log()
        left = left[..., 1:, 1:] - row.mT * row / pivot
    return found / 2


def strides(grid: Grid) -> list[int]:
    """Step along each factor, in classes: one standard deviation, but at most to the last class.

    Example:
        >>> from unweave.data.grid import Factor
        >>> strides(Grid((Factor("a", range(5)), Factor("b", range(15)), Factor("c", [7]))))
        [1, 4, 0]
    """
    return [min(max(round(float(np.arange(n).std())), 1), n - 1) for n in grid.sizes]


class DirectionLearner(Learner):
    """m in training, from the directions in which images vary; see `Learner`."""

    columns = COLUMNS

    def __init__(
        self, data: Dataset, settings: Mapping[str, Any], optimiser: Adam, device: torch.device
    ) -> None:
        super().__init__(data, settings, optimiser, device)
        steps = strides(self.grid)
        moved = [k for k, step in enumerate(steps) if step]
        self.moves = torch.tensor([[0] * len(steps), *np.diag(steps)[moved].tolist()]).to(device)
        self.starts = torch.tensor(self.grid.sizes).to(device) - self.moves.sum(0)

    def move(self) -> None:
        leaves = self.m.leaves()[MANIPULATION]
        nats = self.excess(self.places(self.settings["batch"], "places", self.step), leaves)
        gradients = torch.autograd.grad(-nats, list(leaves.values()))
        rows = torch.ones(1, dtype=torch.bool, device=self.device)
        with torch.no_grad():
            self.m.update(gradients, self.step, rows, rows.clone())

    def places(self, count: int, purpose: str, number: Tensor | int) -> Tensor:
        """Random classes `[count, K]` from which a step along every factor stays in the grid."""
        stream = Stream(self.seed, purpose, number)
        return (stream.uniform(count, len(self.starts)) * self.starts).long()

    def excess(self, places: Tensor, m: Mapping[str, Tensor]) -> Tensor:
        """Mean excess over places, with these parameters of m."""
        classes = (places + self.moves[:, None]).flatten(0, 1)
        output = self.m.networks[MANIPULATION](m, self.standardised(classes)[None])[0]
        changed = self.changed(output, self.data.inputs(self.grid.index(classes)))
        changed = changed.flatten(1).unflatten(0, (len(self.moves), -1))
        return excess((changed[1:] - changed[:1]).transpose(0, 1)).mean()

    @torch.no_grad()
    def curve_row(self) -> list[float]:
        """Return a row of the curve, always at the same places."""
        m = self.m.named(self.m.parameters)[MANIPULATION]
        return [float(self.step), float(self.excess(self.places(EVALUATED_AT, "looking", 0), m))]
