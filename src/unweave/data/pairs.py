"""Pairs of images: rules that derive the factors of the second image from those of the first.

A rule is called with factors `[..., n, K]` and a random stream, and returns factors of the same
shape on the same device, without synchronising with the host.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unweave.data.grid import Grid
from unweave.errors import DataError, UnknownNameError
from unweave.random import Stream

__all__ = [
    "TRANSITIONS",
    "LaplaceTransitions",
    "Neighbours",
    "PairRule",
    "UniformTransitions",
    "WeakPairs",
    "transition_rule",
]


class PairRule(Protocol):
    """Rule that derives the second image of a pair from the first."""

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WeakPairs:
    """Weakly supervised pairs of Ada-GVAE: one or k random factors are resampled.

    As in disentanglement_lib, the number of resampled factors is 1 or k with equal probability,
    and the new class of a factor may equal the old one.

    Args:
        changed: k, or -1 (default) to sample k from 1 … K-1 for every pair.
        distinct: Whether new classes must differ from the old ones (default False).

    References:
        Locatello et al., Weakly-Supervised Disentanglement Without Compromises, arXiv:2002.02886.
    """

    changed: int = -1
    distinct: bool = False

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:
        words = stream.words(factors.shape[-2], 2 * len(grid.axes) + 2)
        most = _how_many(self.changed, grid, words[..., 0])
        count = torch.where(words[..., 1] >> 31 == 1, most, 1)
        return _changed(grid, factors, words[..., 2:], count, self.distinct)


@dataclass(frozen=True, kw_only=True, slots=True)
class UniformTransitions:
    """Uniform transitions of SlowVAE: k random factors change to a different class.

    Args:
        changed: k, or -1 (default) to sample k from 1 … K-1 for every pair.

    References:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data, arXiv:2007.10930.
    """

    changed: int = -1

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:
        words = stream.words(factors.shape[-2], 2 * len(grid.axes) + 1)
        count = _how_many(self.changed, grid, words[..., 0])
        return _changed(grid, factors, words[..., 1:], count, distinct=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceTransitions:
    """Sparse transitions of SlowVAE: every non-categorical factor changes slightly.

    The new class follows a discrete Laplace distribution,

        p(new class) ∝ exp(-|new - old| · rate / ln size).

    If no factor changes, one is forced to, by the same distribution without the old class.

    Args:
        rate: Rate of the distribution (default 1); larger values mean smaller changes.

    References:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data, arXiv:2007.10930.
    """

    rate: float = 1.0

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:
        moving = [k for k, axis in enumerate(grid.axes) if not axis.categorical and len(axis) > 1]
        if not moving:
            raise DataError(
                "Laplace transitions need a non-categorical factor with at least 2 classes, "
                f"got factors {', '.join(grid.names)}",
                subject="grid",
                value=grid.names,
            )
        uniform = stream.uniform(factors.shape[-2], 2 * len(grid.axes) + 1)
        forced_factor = (uniform[..., -1] * len(moving)).long().clamp(max=len(moving) - 1)
        moved, forced = factors.clone(), factors.clone()
        for position, k in enumerate(moving):
            size = grid.sizes[k]
            law = laplace_law(size, self.rate, factors.device)
            moved[..., k] = _sample_row(law, factors[..., k], uniform[..., k])
            elsewhere = law * (1 - torch.eye(size, device=factors.device))
            step = _sample_row(elsewhere, factors[..., k], uniform[..., len(grid.axes) + k])
            forced[..., k] = torch.where(forced_factor == position, step, factors[..., k])
        unchanged = (moved == factors).all(-1, keepdim=True)
        return torch.where(unchanged, forced, moved)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours:
    """Neighbours in time: the second image is the next one, with all other factors unchanged.

    Time is a factor of the grid; load a single series with
    `factors={"time": range(len(series))}`. The last image is paired with the one before it.

    Args:
        factor: Name of the time factor (default `"time"`).
    """

    factor: str = "time"

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:  # noqa: ARG002 - not random
        k = grid.column(self.factor)
        size = grid.sizes[k]
        if size < 2:
            raise DataError(
                f"factor {self.factor!r} must have at least 2 classes to form pairs, got {size}",
                subject=self.factor,
                value=size,
            )
        after = factors[..., k] + 1
        moved = factors.clone()
        moved[..., k] = torch.where(after < size, after, size - 2)
        return moved


TRANSITIONS: Mapping[str, PairRule] = {
    "laplace": LaplaceTransitions(),
    "uniform": UniformTransitions(),
    "neighbours": Neighbours(),
}
"""Pair rules by name, for methods that learn from consecutive images."""


def transition_rule(name: str) -> PairRule:
    """Return the rule called `name` in `TRANSITIONS`."""
    if name not in TRANSITIONS:
        raise UnknownNameError("kind of transitions", name, TRANSITIONS)
    return TRANSITIONS[name]


def laplace_law(size: int, rate: float, device: torch.device | str = "cpu") -> Tensor:
    """Return unnormalised transition probabilities `[size, size]`, one row per old class."""
    classes = torch.arange(size, device=device, dtype=torch.float32)
    return torch.exp(-(classes[:, None] - classes).abs() * rate / math.log(size))


def _sample_row(law: Tensor, old: Tensor, uniform: Tensor) -> Tensor:
    """Sample a class from row `old` of unnormalised probabilities by inverting their cumsum."""
    cumulative = law.cumsum(-1)[old]
    return (
        (uniform[..., None] * cumulative[..., -1:] >= cumulative)
        .sum(-1)
        .clamp(max=law.shape[-1] - 1)
    )


def _how_many(changed: int, grid: Grid, words: Tensor) -> Tensor:
    """Return how many factors change in each pair: `changed`, or sampled from 1 … K-1 if -1."""
    most = len(grid.axes)
    if changed != -1 and not 1 <= changed <= most:
        raise DataError(
            f"changed must be -1 or between 1 and {most}, got {changed}",
            subject="changed",
            value=changed,
        )
    sampled = (words * max(most - 1, 1) >> 32) + 1
    return sampled if changed == -1 else torch.full_like(sampled, changed)


def _changed(grid: Grid, factors: Tensor, words: Tensor, count: Tensor, distinct: bool) -> Tensor:
    """Resample `count` factors, chosen by the first K words, using the remaining words.

    With `distinct`, new classes differ from the old ones where possible.
    """
    choice, fresh = words.chunk(2, -1)
    chosen = choice.argsort(-1).argsort(-1) < count[..., None]
    columns = []
    for k, size in enumerate(grid.sizes):
        if distinct and size > 1:
            columns.append((factors[..., k] + 1 + (fresh[..., k] * (size - 1) >> 32)) % size)
        else:
            columns.append(fresh[..., k] * size >> 32)
    return torch.where(chosen, torch.stack(columns, -1), factors)
