"""Classifier two-sample test: how well a network tells two sets of images apart."""

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from unweave.io.arguments import numpy_rng
from unweave.kernels.threads import run_all
from unweave.nets.adam import Adam, Moments, StackedAdam, update
from unweave.nets.layers import Conv, Layer, Linear, Pad, Reshape
from unweave.nets.network import Network
from unweave.nets.norms import AdaptiveNorm, BatchNorm
from unweave.nets.sizes import Shape, feature_map
from unweave.quality.images import Images, batches

__all__ = ["discriminator", "stored", "two_sample_accuracy"]

BATCH, EPOCHS, HIDDEN, RATE = 32, 5, 512, 1e-4
REFERENCE, TESTED = 256, 512
"""Training images whose batch statistics are used in tests, and images tested at once."""


def stored(images: Images) -> Tensor:
    """Return all images as float16 `[N, H, W, C]` in [0, 1], to save memory."""
    parts = [
        batch / 255 if batch.dtype == torch.uint8 else batch for batch in batches(images, TESTED)
    ]
    return torch.cat([part.half() for part in parts]) if parts else torch.empty(0, 1, 1, 1)


def discriminator(shape: Shape) -> Network:
    """Build four convolutions (for 64 pixels) and a dense layer of 512, all with batch norm."""
    small = feature_map(shape)
    widths = [shape[2], *[32] * (small.halvings - 2), 64, 64]
    layers: list[Layer | AdaptiveNorm | BatchNorm] = [Pad(small.margins)]
    for inputs, outputs in pairwise(widths):
        layers += [Conv(inputs, outputs, 4, relu=False), BatchNorm(outputs, "relu")]
    flat = widths[-1] * small.cells
    dense = (Linear(flat, HIDDEN, "none"), BatchNorm(HIDDEN, "relu"), Linear(HIDDEN, 1, "none"))
    return Network((*layers, Reshape((flat,)), *dense))


def two_sample_accuracy(
    images: Tensor, others: Tensor, seed: int, training_images: int, device: torch.device
) -> float:
    """Train a discriminator of two sets of images and return its accuracy on held-out images.

    Args:
        images: Images `[N, H, W, C]` in [0, 1].
        others: Images of the same number and shape; the same half of both sets is held out.
        seed: Random seed of the split, the initial weights and the batches.
        training_images: Number of training images, counting repetitions; at most five epochs.
        device: Device.
    """
    _, height, width, channels = images.shape
    generator = numpy_rng(seed)
    order = torch.from_numpy(generator.permutation(len(images)))
    train, test = (torch.cat([images[rows], others[rows]]) for rows in order.tensor_split(2))
    total = min(training_images, EPOCHS * len(train))
    epochs = [generator.permutation(len(train)) for _ in range(math.ceil(total / len(train)))]
    rows = torch.from_numpy(np.concatenate(epochs))[:total]
    reference = train[torch.from_numpy(epochs[0][:REFERENCE])]

    def accuracy() -> float:
        network = discriminator((height, width, channels))
        parameters = network.initial(torch.tensor([seed], device=device), "two sample", "torch")
        _train(network, parameters, train, rows)
        right = _called_first(network, parameters, reference, test) == _first(test)
        return right.double().mean().item()

    # As one task, results on a CPU do not depend on the number of threads.
    return run_all([accuracy])[0]


def _first(both: Tensor) -> Tensor:
    """Whether each image of two concatenated sets belongs to the first, bool `[2 N]`."""
    return torch.arange(len(both)) < len(both) // 2


def _train(network: Network, parameters: Tensor, both: Tensor, rows: Tensor) -> None:
    """Train the parameters `[1, P]` in place, on images of two sets in this order."""
    device, labels, moments = parameters.device, _first(both), Moments.zeros_like(parameters)
    adam, alive = StackedAdam.of([Adam(lr=RATE)], device), torch.ones(1, device=device).bool()
    for step, batch in enumerate(rows.split(BATCH)):
        leaf = parameters.clone().requires_grad_()
        with torch.enable_grad():
            logits = network(leaf, both[None, batch].to(leaf))[0, :, 0]
            loss = F.binary_cross_entropy_with_logits(logits, labels[batch].to(leaf))
        gradient = torch.autograd.grad(loss, leaf)
        rates = adam.rates(torch.tensor(step, device=device))
        update(parameters, moments, gradient, [0], rates, alive, alive.clone())


@torch.no_grad()
def _called_first(
    network: Network, parameters: Tensor, reference: Tensor, images: Tensor
) -> Tensor:
    """Whether images are assigned to the first set, with batch statistics of other images."""
    found = []
    for part in images.split(TESTED):
        both = torch.cat([reference, part])[None].to(parameters)
        logits = network(parameters, both, None, len(reference))[0, len(reference) :, 0]
        found.append((logits >= 0).cpu())
    return torch.cat(found)
