"""A classifier of factors: whether what made an image can still be read off it.

    Σ_k -log softmax(f_k(x))[v_k] → min,    accuracy of factor k = P(argmax f_k(x) = v_k)

f is the protocol's encoder with one head per factor. Data sets are classified side by side, from
the same initial weights and the same batches, so that they differ in their images alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unweave.data.grid import Grid
from unweave.errors import DataError
from unweave.fleet.parameters import NetworkGroup
from unweave.io.arguments import numpy_rng
from unweave.nets.adam import Adam
from unweave.nets.architectures import Shape, conv_encoder
from unweave.nets.device import chosen_device, matmul_precision
from unweave.nets.layers import Linear
from unweave.nets.network import Network
from unweave.progress import lines
from unweave.random import Stream

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset

__all__ = ["factor_accuracies"]

NAME, JOB = "classifier", "classifying factors"


def factor_accuracies(
    data: "Mapping[str, Dataset]",
    steps: int = 3_000,
    *,
    batch: int = 64,
    test: int = 2_000,
    seed: int = 0,
    optimiser: Adam | None = None,
    device: str | torch.device | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """How well each factor is read off the images of some data sets.

    Args:
        data: Data sets with the same grid of factors, under names such as `"original"`.
        steps: Of learning.
        batch: Images per step.
        test: Images to test on, at most a quarter of all; nothing is learned from them.
        seed: Of initial weights, batches and the images to test on.
        optimiser: By default Adam with a learning rate of 0.001.
        device: By default a GPU where there is one.
        progress: Whether to show how far it is.

    Returns:
        A row per factor, and `mean` over all; a column per data set, and `chance`, what saying
        always the same would reach.
    """
    grid, shape = _common(data)
    place = chosen_device(device)
    count = len(grid)
    tested = numpy_rng(seed).permutation(count)[: max(1, min(test, count // 4))]
    weights = np.ones(count)
    weights[tested] = 0
    near = [replace(one, weights=weights).to(place) for one in data.values()]
    network = Network((*conv_encoder(shape, 1).layers[:-1], Linear(256, sum(grid.sizes), "none")))
    seeds = torch.tensor([seed] * len(near), device=place)
    start = network.initial(seeds, NAME)
    group = NetworkGroup.of_one(NAME, network, start, optimiser or Adam(lr=1e-3))
    alive = torch.ones(len(near), dtype=torch.bool, device=place)
    with matmul_precision("float32"), lines({JOB: steps}, progress) as advance:
        for number in range(steps):
            step = torch.tensor(number, device=place)
            indices = near[0].draw_indices(batch, Stream(seeds[0], "images to classify", step))
            images = torch.stack([one.inputs(indices) for one in near])
            leaves = group.leaves()[NAME]
            heads = network(leaves, images).split(grid.sizes, -1)
            loss = _loss(heads, near[0].factors(indices))
            gradients = torch.autograd.grad(loss, list(leaves.values()))
            with torch.no_grad():
                group.update(gradients, step, alive, alive.clone())
            advance(JOB, 1)
        right = _right(network, group.parameters, near, torch.as_tensor(tested), grid)
    table = pd.DataFrame(right.T, index=list(grid.names), columns=list(data))
    table["chance"] = [1 / size for size in grid.sizes]
    table.loc["mean"] = table.mean()
    return table.rename_axis("factor")


def _loss(heads: tuple[Tensor, ...], classes: Tensor) -> Tensor:
    """Summed over factors and data sets, whose networks have no parameter in common."""
    models = len(heads[0])
    parts = [
        cross_entropy(head.flatten(0, 1), classes[:, k].repeat(models)) * models
        for k, head in enumerate(heads)
    ]
    return torch.stack(parts).sum()


@torch.no_grad()
def _right(
    network: Network, parameters: Tensor, data: "list[Dataset]", tested: Tensor, grid: Grid
) -> np.ndarray:
    """The share of images whose factor is found, `[data sets, K]`."""
    hits = torch.zeros(len(data), len(grid.axes), device=parameters.device)
    for part in tested.to(parameters.device).split(256):
        images = torch.stack([one.inputs(part) for one in data])
        classes = data[0].factors(part)
        for k, head in enumerate(network(parameters, images).split(grid.sizes, -1)):
            hits[:, k] += (head.argmax(-1) == classes[:, k]).sum(1)
    return (hits / len(tested)).cpu().numpy()


def _common(data: "Mapping[str, Dataset]") -> tuple[Grid, Shape]:
    grids = [one.grid for one in data.values()]
    kinds = {(one.shape, one.grid.sizes if one.grid else None) for one in data.values()}
    if len(kinds) != 1 or grids[0] is None:
        raise DataError(
            "factors are compared on data sets with the same grid and shape of images; give one "
            "and what was made of it"
        )
    return grids[0], next(iter(data.values())).shape
