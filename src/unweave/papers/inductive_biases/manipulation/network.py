r"""The network m(w): a small change of an image, through one number made of all of its factors.

    s = a·w + b,    m(w) = ε tanh(g(s)),    x̃ = r(x + m(w)),    r(x) = x - 2 (x - 1)₊ + 2 (-x)₊

with w the factors, each of mean 0 and variance 1, g the decoder of the protocol for a code of one
number, and r a reflection at 0 and 1, which keeps images in range without flattening them.

References:
    Zietlow, Rolínek, Martius, Demystifying Inductive Biases for (Beta-)VAE Based Architectures,
    ICML 2021, arXiv:2102.06822. The supplement gives the network; that a is linear, as is what
    makes m a change along one mixed direction of factors, is our reading of it.
"""

import numpy as np
from torch import Tensor
from torch.nn.functional import relu

from unweave.data.grid import Grid
from unweave.nets.architectures import Shape, conv_decoder
from unweave.nets.layers import Linear
from unweave.nets.network import Network

__all__ = ["manipulation_network", "reflect", "standardised"]


def manipulation_network(factors: int, shape: Shape) -> Network:
    """Factors `[M, B, K]` to one neuron, dense 256 and 1024, then up to `[M, B, H, W, C]`."""
    return Network((Linear(factors, 1, "none"), *conv_decoder(shape, 1).layers))


def reflect(images: Tensor) -> Tensor:
    """Values in [-1, 2] to [0, 1], those inside as they are.

    Example:
        >>> import torch
        >>> reflect(torch.tensor([-0.1, 0.0, 0.3, 1.0, 1.1]))
        tensor([0.1000, 0.0000, 0.3000, 1.0000, 0.9000])
    """
    return images - 2 * relu(images - 1) + 2 * relu(-images)


def standardised(grid: Grid) -> list[np.ndarray]:
    """What w is for each class of each factor: its number, with mean 0 and variance 1 over all.

    Example:
        >>> from unweave.data.grid import Factor
        >>> [w.round(3) for w in standardised(Grid((Factor("a", [5, 7]), Factor("b", [1, 2, 3]))))]
        [array([-1.,  1.]), array([-1.225,  0.   ,  1.225])]
    """
    return [_standardised(np.arange(size, dtype=np.float64)) for size in grid.sizes]


def _standardised(classes: np.ndarray) -> np.ndarray:
    centred = classes - classes.mean()
    return centred / (centred.std() or 1)
