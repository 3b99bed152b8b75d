"""Measurements of image changes and of the models trained on changed images.

For images: size and appearance of the change, and whether factors can still be recognised. For
models: number of active latents, and MIG of each factor.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unweave.analysis.activity import WEAK_NOISE, mean_noise
from unweave.data.grid import Grid
from unweave.errors import DataError
from unweave.fleet.parameters import NetworkGroup
from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.models.images import sample_rows
from unweave.nets.adam import Adam
from unweave.nets.architectures import Shape, conv_encoder
from unweave.nets.device import chosen_device, matmul_precision
from unweave.nets.layers import Linear
from unweave.nets.network import Network
from unweave.papers.inductive_biases.manipulation.images import grid_of
from unweave.progress import lines
from unweave.random import Stream

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models
    from unweave.plots.sheet import Sheet

__all__ = [
    "active_by_noise",
    "change_sizes",
    "factor_accuracies",
    "factor_gaps",
    "over_pruned",
    "show_changes",
]

ROWS = 10_000
CLASSIFIER, JOB = "classifier", "classifying factors"


def change_sizes(
    original: "Dataset", modified: "Dataset", count: int = 1_000, seed: int = 0
) -> dict[str, float]:
    """Compute the size of the change of images, in units of their range [0, 1].

    Returns:
        `linf`, the largest change of any pixel; `l2`, the mean over images of ‖x̃ - x‖₂; `rms`, the
        root mean square change of a pixel; `changed`, the share of pixels that changed.
    """
    before, after = _compared(original, modified, sample_rows(original, max(count, 2), seed))
    change = (after.astype(np.float64) - before) / 255
    return {
        "linf": float(np.abs(change).max()),
        "l2": float(np.sqrt(np.square(change).sum((1, 2, 3))).mean()),
        "rms": float(np.sqrt(np.square(change).mean())),
        "changed": float((change != 0).any(-1).mean()),
    }


def show_changes(
    original: "Dataset",
    modified: Mapping[str, "Dataset"],
    count: int = 10,
    seed: int = 0,
    scale: float | None = None,
) -> "Sheet":
    """Draw original images, changed images, and their difference.

    Args:
        original: Original images.
        modified: Changed images, under names such as `"modified"` and `"noise"`.
        count: Number of images, sampled without replacement.
        seed: Seed of the sample.
        scale: Magnitude at which a change is drawn black (negative) or white (positive)
            (default: that of the largest change).

    Returns:
        A picture; save it with `.save("changes.png")`.
    """
    from unweave.plots.sheet import Row, lay_out, pictures_of

    rows = np.sort(sample_rows(original, max(count, 2), seed)[:count])
    shown = [Row(pictures_of(_images(original, rows)), "original")]
    for name, data in modified.items():
        before, after = _compared(original, data, rows)
        change = (after.astype(np.float64) - before) / 255
        most = scale or float(np.abs(change).max()) or 1.0
        grey = (0.5 + change / (2 * most)).clip(0, 1)
        shown.append(Row(pictures_of(after), name))
        shown.append(Row(pictures_of(grey), "difference", f"±{most:.3g}"))
    return lay_out(shown)


def active_by_noise(logvars: Any, noise: float = WEAK_NOISE.threshold) -> np.ndarray:
    """Mask `[d]` of active latents, E_x[σ_k²] < 0.8, for log-variances `[n, d]`.

    Example:
        >>> active_by_noise(np.log([[0.1, 0.9], [0.3, 1.0]]))
        array([ True, False])
    """
    return replace(WEAK_NOISE, threshold=noise).holds(mean_noise(logvars))


def over_pruned(
    models: "Models", data: "Dataset", noise: float = WEAK_NOISE.threshold, seed: int = 0
) -> pd.DataFrame:
    """Find models with fewer active latents than the data has varying factors.

    Args:
        models: Models, as for `uw.evaluate`.
        data: Images with a grid of factors; at most 10,000 are encoded.
        noise: Upper bound on the mean σ² of an active latent.
        seed: Seed of the sample of images.

    Returns:
        A row per model: `run`, `active`, `factors` and `over_pruned`. To exclude these models from
        a table of scores: `table[~table["run"].isin(found.loc[found["over_pruned"], "run"])]`.
    """
    from unweave.models.finding import models_of

    rows = sample_rows(data, ROWS, seed)
    factors = sum(size > 1 for size in grid_of(data).sizes)
    found = []
    for model in models_of(models):
        _, logvars = model.encode(_images(data, rows))
        active = int(active_by_noise(logvars, noise).sum())
        found.append((model.config.hash, active, factors, active < factors))
    return pd.DataFrame(found, columns=["run", "active", "factors", "over_pruned"])


def factor_gaps(models: "Models", data: "Dataset", seed: int = 0) -> pd.DataFrame:
    """Compute the MIG of each factor.

    Returns:
        A row per model and factor: `run`, `factor`, `gap`. The mean over the factors of a model is
        its MIG on these images.
    """
    from unweave.metrics.mig import mig_of_factors
    from unweave.models.finding import models_of

    rows, names = sample_rows(data, ROWS, seed), grid_of(data).names
    classes = on_host(data.factors(rows))
    found = []
    for model in models_of(models):
        means, _ = model.encode(_images(data, rows))
        gaps = mig_of_factors(means, classes, seed)
        found += [(model.config.hash, names[k], gap) for k, gap in gaps.items()]
    return pd.DataFrame(found, columns=["run", "factor", "gap"])


def _compared(
    original: "Dataset", modified: "Dataset", rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if len(original) != len(modified) or original.shape != modified.shape:
        raise DataError(
            f"{original.name} and {modified.name} differ in number or shape of images; pass a "
            "data set and its changed version",
            subject="modified",
            value=modified.name,
        )
    return _images(original, rows), _images(modified, rows)


def _images(data: "Dataset", rows: np.ndarray) -> np.ndarray:
    return on_host(data.images(rows))


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
    """Train a classifier of each factor on the images of some data sets; return its accuracy.

        Σ_k -log softmax(f_k(x))[v_k] → min,    accuracy of factor k = P(argmax f_k(x) = v_k)

    f is the protocol's encoder with one head per factor. All data sets share initial weights and
    batch indices, so that only their images differ.

    Args:
        data: Data sets with the same grid of factors, under names such as `"original"`.
        steps: Training steps.
        batch: Images per step.
        test: Number of test images, at most a quarter of all; they are not used for training.
        seed: Seed of initial weights, batches and the test set.
        optimiser: Optimiser (default: Adam with a learning rate of 0.001).
        device: Device (default: a GPU if available).
        progress: Whether to show progress.

    Returns:
        A row per factor and their `mean`; a column per data set, and `chance`, the accuracy of a
        constant prediction.
    """
    grid, shape = _common(data)
    place = chosen_device(device)
    count = len(grid)
    tested = numpy_rng(seed).permutation(count)[: max(1, min(test, count // 4))]
    weights = np.ones(count)
    weights[tested] = 0
    train = [replace(one, weights=weights).to(place) for one in data.values()]
    network = Network((*conv_encoder(shape, 1).layers[:-1], Linear(256, sum(grid.sizes), "none")))
    seeds = torch.tensor([seed] * len(train), device=place)
    start = network.initial(seeds, CLASSIFIER)
    group = NetworkGroup.of_one(CLASSIFIER, network, start, optimiser or Adam(lr=1e-3))
    alive = torch.ones(len(train), dtype=torch.bool, device=place)
    with matmul_precision("float32"), lines({JOB: steps}, progress) as advance:
        for number in range(steps):
            step = torch.tensor(number, device=place)
            indices = train[0].draw_indices(batch, Stream(seeds[0], "images to classify", step))
            images = torch.stack([one.inputs(indices) for one in train])
            leaves = group.leaves()[CLASSIFIER]
            heads = network(leaves, images).split(grid.sizes, -1)
            loss = _loss(heads, train[0].factors(indices))
            gradients = torch.autograd.grad(loss, list(leaves.values()))
            with torch.no_grad():
                group.update(gradients, step, alive, alive.clone())
            advance(JOB, 1)
        shares = _accuracies(network, group.trained, train, torch.as_tensor(tested), grid)
    table = pd.DataFrame(shares.T, index=list(grid.names), columns=list(data))
    table["chance"] = [1 / size for size in grid.sizes]
    table.loc["mean"] = table.mean()
    return table.rename_axis("factor")


def _loss(heads: tuple[Tensor, ...], classes: Tensor) -> Tensor:
    """Cross-entropy summed over factors and data sets, whose networks share no parameters."""
    models = len(heads[0])
    parts = [
        cross_entropy(head.flatten(0, 1), classes[:, k].repeat(models)) * models
        for k, head in enumerate(heads)
    ]
    return torch.stack(parts).sum()


@torch.no_grad()
def _accuracies(
    network: Network, parameters: Tensor, data: "list[Dataset]", tested: Tensor, grid: Grid
) -> np.ndarray:
    """Share of images whose factor is predicted correctly, `[data sets, K]`."""
    hits = torch.zeros(len(data), len(grid.axes), device=parameters.device)
    for part in tested.to(parameters.device).split(256):
        images = torch.stack([one.inputs(part) for one in data])
        classes = data[0].factors(part)
        for k, head in enumerate(network(parameters, images).split(grid.sizes, -1)):
            hits[:, k] += (head.argmax(-1) == classes[:, k]).sum(1)
    return (hits / len(tested)).cpu().numpy()


def _common(data: "Mapping[str, Dataset]") -> tuple[Grid, Shape]:
    first = next(iter(data.values()))
    if len({(one.shape, grid_of(one).sizes) for one in data.values()}) > 1:
        raise DataError(
            f"data sets must have the same grid of factors and image shape, got {list(data)}; "
            "pass a data set and its changed versions",
            subject="data",
            value=list(data),
        )
    return grid_of(first), first.shape
