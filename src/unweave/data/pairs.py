"""Pairs of images: rules by which a second image's factors follow from the first's.

A rule is called with factors `[..., n, K]` and a stream, and returns factors of the same shape, on
the same device, without a round trip to the host.
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
    """How the second image of a pair follows from the first."""

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WeakPairs:
    """The weakly supervised pairs of Ada-GVAE: one or k factors, chosen at random, are drawn anew.

    As disentanglement_lib has it, the number of chosen factors is 1 or k with equal chance, and a
    factor's new class may be its old one.

    Args:
        changed: k, or -1 for a fresh k from 1 … K-1 for every pair.
        distinct: Draw new classes that differ from the old ones.

    References:
        Locatello et al., Weakly-Supervised Disentanglement Without Compromises, arXiv:2002.02886.
    """

    changed: int = -1
    distinct: bool = False

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:
        num_factors = len(grid.axes)
        _check_changed(self.changed, num_factors)
        words = stream.words(factors.shape[-2], 2 * num_factors + 2)
        few = words[..., 0] * max(num_factors - 1, 1) >> 32
        most = few + 1 if self.changed == -1 else torch.full_like(few, self.changed)
        count = torch.where(words[..., 1] >> 31 == 1, most, 1)
        chosen = _choose(words[..., 2 : 2 + num_factors], count)
        return torch.where(
            chosen, _renew(grid, factors, words[..., -num_factors:], self.distinct), factors
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class UniformTransitions:
    """The uniform transitions of SlowVAE: k factors, chosen at random, move to a different class.

    Args:
        changed: k, or -1 for a fresh k from 1 … K-1 for every pair.

    References:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data, arXiv:2007.10930.
    """

    changed: int = -1

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:
        num_factors = len(grid.axes)
        _check_changed(self.changed, num_factors)
        words = stream.words(factors.shape[-2], 2 * num_factors + 1)
        few = words[..., 0] * max(num_factors - 1, 1) >> 32
        count = few + 1 if self.changed == -1 else torch.full_like(few, self.changed)
        chosen = _choose(words[..., 1 : 1 + num_factors], count)
        return torch.where(chosen, _renew(grid, factors, words[..., -num_factors:], True), factors)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceTransitions:
    """The sparse transitions of SlowVAE: every factor that is no category moves a little.

    The law is Laplace's on the grid,

        p(new class) ∝ exp(-|new - old| · rate / ln size);

    where nothing has changed, one factor is made to move, by the same law without the old class.

    Args:
        rate: The larger, the slower the factors move.

    References:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data, arXiv:2007.10930.
    """

    rate: float = 1.0

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:
        moving = [k for k, axis in enumerate(grid.axes) if not axis.categorical and len(axis) > 1]
        if not moving:
            raise DataError("Laplace transitions need a factor that is no category")
        uniform = stream.uniform(factors.shape[-2], 2 * len(grid.axes) + 1)
        forced_factor = (uniform[..., -1] * len(moving)).long().clamp(max=len(moving) - 1)
        moved, forced = factors.clone(), factors.clone()
        for place, k in enumerate(moving):
            size = grid.sizes[k]
            law = laplace_law(size, self.rate, factors.device)
            moved[..., k] = _draw_row(law, factors[..., k], uniform[..., k])
            elsewhere = law * (1 - torch.eye(size, device=factors.device))
            step = _draw_row(elsewhere, factors[..., k], uniform[..., len(grid.axes) + k])
            forced[..., k] = torch.where(forced_factor == place, step, factors[..., k])
        unchanged = (moved == factors).all(-1, keepdim=True)
        return torch.where(unchanged, forced, moved)


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbours:
    """Neighbours in time: the second image is the next one, all other factors stay.

    Time is a factor of the grid; a series by itself is loaded with
    `factors={"time": range(len(series))}`. The last image has no next one; its partner is the one
    before.

    Args:
        factor: The name of the factor that is time.
    """

    factor: str = "time"

    def __call__(self, grid: Grid, factors: Tensor, stream: Stream) -> Tensor:  # noqa: ARG002 - all is known
        k = grid.column(self.factor)
        size = grid.sizes[k]
        if size < 2:
            raise DataError(f"neighbours in {self.factor} need at least 2 classes, but got {size}")
        after = factors[..., k] + 1
        moved = factors.clone()
        moved[..., k] = torch.where(after < size, after, size - 2)
        return moved


TRANSITIONS: Mapping[str, PairRule] = {
    "laplace": LaplaceTransitions(),
    "uniform": UniformTransitions(),
    "neighbours": Neighbours(),
}
"""How what is seen goes on, for methods that learn from two moments."""


def transition_rule(name: str) -> PairRule:
    """The rule of a name in `TRANSITIONS`."""
    if name not in TRANSITIONS:
        raise UnknownNameError("kind of transitions", name, TRANSITIONS)
    return TRANSITIONS[name]


def laplace_law(size: int, rate: float, device: torch.device | str = "cpu") -> Tensor:
    """`[size, size]`: row c is proportional to the probability of each class after class c."""
    classes = torch.arange(size, device=device, dtype=torch.float32)
    return torch.exp(-(classes[:, None] - classes).abs() * rate / math.log(size))


def _draw_row(law: Tensor, old: Tensor, uniform: Tensor) -> Tensor:
    """Draw a class from row `old` of an unnormalised law by inverting its cumulative sum."""
    cumulative = law.cumsum(-1)[old]
    return (
        (uniform[..., None] * cumulative[..., -1:] >= cumulative)
        .sum(-1)
        .clamp(max=law.shape[-1] - 1)
    )


def _choose(words: Tensor, count: Tensor) -> Tensor:
    """A mask with `count` of the last axis's places chosen at random."""
    rank = words.argsort(-1).argsort(-1)
    return rank < count[..., None]


def _renew(grid: Grid, factors: Tensor, words: Tensor, distinct: bool) -> Tensor:
    """Fresh classes for all factors; where asked and possible, none is the old one."""
    columns = []
    for k, size in enumerate(grid.sizes):
        if distinct and size > 1:
            columns.append((factors[..., k] + 1 + (words[..., k] * (size - 1) >> 32)) % size)
        else:
            columns.append(words[..., k] * size >> 32)
    return torch.stack(columns, -1)


def _check_changed(changed: int, num_factors: int) -> None:
    if changed != -1 and not 1 <= changed <= num_factors:
        raise DataError(f"changed must be -1 or 1 … {num_factors}, but got {changed=}")
