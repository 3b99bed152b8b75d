"""Logarithms of gamma-distributed numbers, which avoid the underflow of the numbers themselves.

A gamma variable with shape 1/20 is below the smallest float32 once in a hundred times, but its
20th root, which samplers need, is an ordinary number. Logarithms are therefore computed as
    log G(α) = log G(α + 1) + log(U) / α,    U uniform,

which is exact (Marsaglia and Tsang, A simple method for generating gamma variables, 2000).
"""

from dataclasses import replace

import torch
from torch import Tensor

from unweave.random import Stream

__all__ = ["log_gammas", "log_gammas_of_stream"]

ROUNDS = 6
"""Number of proposals. Each is rejected at most once in 20 times, all of them once in 10⁸."""


def log_gammas(shape: Tensor) -> Tensor:
    """Sample one per shape with torch's global generator; differentiable in the shapes."""
    raised = torch.distributions.Gamma(shape + 1, torch.ones_like(shape), validate_args=False)
    return raised.rsample().log() + torch.log1p(-torch.rand_like(shape)) / shape


def log_gammas_of_stream(stream: Stream, items: int, shape: Tensor) -> Tensor:
    """Sample with a counter-based stream, independent of device, fleet and number of samples.

    Method of Marsaglia and Tsang: with d = α - 1/3 and c = 1 / √(9d), d (1 + c X)³ has the gamma
    distribution if it is accepted only where log U < X²/2 + d - d (1 + c X)³ + d log (1 + c X)³.

    Args:
        stream: Stream over seeds `[*S]`.
        items: Number of samples.
        shape: Shape parameters α, `[*S, k]`.

    Returns:
        Logarithms `[*S, items, k]`.
    """
    k, dtype = shape.shape[-1], shape.dtype

    def of(what: str) -> Stream:
        return replace(stream, purpose=f"{stream.purpose}, {what}")

    x = of("proposals").normal(items, k * ROUNDS).unflatten(-1, (k, ROUNDS)).to(dtype)
    u = of("chances").uniform(items, k * ROUNDS).unflatten(-1, (k, ROUNDS)).to(dtype)
    d = shape[..., None, :, None] + 1 - 1 / 3
    root = 1 + x / (9 * d).sqrt()
    log_cube = 3 * root.clamp(min=1e-6).log()
    accepted = (root > 0) & (torch.log1p(-u) < x**2 / 2 + d * (1 - root**3 + log_cube))
    first = accepted.int().argmax(-1, keepdim=True)
    raised = (d.log() + log_cube).gather(-1, first).squeeze(-1)
    u = of("powers").uniform(items, k).to(dtype)
    return raised + torch.log1p(-u) / shape[..., None, :]
