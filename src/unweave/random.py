"""Counter-based random numbers: each is a function of (seed, purpose, step, item, position).

Streams have no state, so the numbers of a model do not depend on the device, on the other models
of its fleet, on how work is split into batches, or on where a run was resumed. The generator is
Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), in integer
arithmetic with bit-identical results on CPU and GPU:

    key = (seed low, seed high)        counter = (position // 4, item, step, crc32(purpose))

Shapes: a stream with seeds of shape `[*S]` samples arrays `[*S, items, width]`.
"""

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.io.arguments import check_seed
from unweave.kernels import fused

__all__ = ["Stream"]

MASK = 0xFFFFFFFF
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)


@dataclass(frozen=True, eq=False)
class Stream:
    """Random numbers for one purpose at one step, for one seed or a stack of seeds.

    Args:
        seed: Integer, or int64 tensor `[*S]` with one seed per model, whose device is used.
        purpose: Name of the use of the numbers; different purposes are independent.
        step: Training step (or any other counter below 2**32), as a number or an int64 scalar
            tensor (default 0).

    Example:
        >>> Stream(7, "noise", step=3).uniform(2, 3)
        tensor([[0.0580, 0.3620, 0.3557],
                [0.1809, 0.1560, 0.3757]])
    """

    seed: int | Tensor
    purpose: str
    step: int | Tensor = 0

    def __post_init__(self) -> None:
        if not isinstance(self.seed, Tensor):
            check_seed(self.seed)

    @property
    def seeds(self) -> Tensor:
        """The seeds as an int64 tensor `[*S]`."""
        return torch.as_tensor(self.seed, dtype=torch.int64)

    @property
    def purpose_word(self) -> int:
        """The purpose as a 32-bit word of the counter."""
        return zlib.crc32(self.purpose.encode())

    def words(self, items: int | Tensor, width: int) -> Tensor:
        """Uniform 32-bit words, as int64.

        Args:
            items: Number of items, or their indices as an int64 tensor that broadcasts with
                `[*S, n]`.
            width: Number of words per item.

        Returns:
            `[*S, n, width]`
        """
        if fused(self.seeds):
            return self._fused("words", items, width)
        seeds, items = self.seeds, self._items(items)
        blocks = torch.arange(math.ceil(width / 4), device=items.device)
        counter = (blocks, items[..., None], self.step, self.purpose_word)
        key = ((seeds & MASK)[..., None, None], (seeds >> 32 & MASK)[..., None, None])
        parts = [part for part in (seeds, items, self.step) if isinstance(part, Tensor)]
        on_cpu = all(part.device.type == "cpu" for part in parts)
        philox = _philox_on_cpu if on_cpu else _philox
        return philox(counter, key).flatten(-2)[..., :width]

    def uniform(self, items: int | Tensor, width: int) -> Tensor:
        """Uniform float32 in [0, 1) on a grid of 2**-24, `[*S, n, width]`."""
        if fused(self.seeds):
            return self._fused("uniform", items, width)
        return (self.words(items, width) >> 8).float() * 2.0**-24

    def uniform64(self, items: int | Tensor) -> Tensor:
        """One uniform float64 in [0, 1) per item, on a grid of 2**-53, `[*S, n]`."""
        high, low = self.words(items, 2).unbind(-1)
        return ((high << 21) + (low >> 11)).double() * 2.0**-53

    def integers(self, high: int, items: int | Tensor, width: int) -> Tensor:
        """Integers in [0, high), `[*S, n, width]`, with a bias of at most high / 2**32."""
        return self.words(items, width) * high >> 32

    def normal(self, items: int | Tensor, width: int) -> Tensor:
        """Standard normal float32 by Box-Muller, `[*S, n, width]`."""
        if fused(self.seeds):
            return self._fused("normal", items, width)
        pairs = math.ceil(width / 2)
        uniform = self.uniform(items, 2 * pairs).unflatten(-1, (pairs, 2))
        radius = (-2 * torch.log1p(-uniform[..., 0])).sqrt()
        angle = 2 * math.pi * uniform[..., 1]
        return torch.stack([radius * angle.cos(), radius * angle.sin()], -1).flatten(-2)[
            ..., :width
        ]

    def _items(self, items: int | Tensor) -> Tensor:
        return torch.arange(items, device=self.seeds.device) if isinstance(items, int) else items

    def _fused(self, kind: str, items: int | Tensor, width: int) -> Tensor:
        """Sample with the fused GPU kernel."""
        from unweave.kernels import gpu_random

        seeds, items = self.seeds, self._items(items)
        return gpu_random.draw(kind, seeds, items, self.step, self.purpose_word, width)


def _philox(counter: tuple[Any, ...], key: tuple[Tensor, Tensor]) -> Tensor:
    """Ten rounds of Philox on four counter words (tensors or numbers) under two key words.

    Returns:
        Four words, `[…, 4]`, of the shape of counter and key, broadcast.
    """
    key0, key1 = key
    c0, c1, c2, c3 = counter
    for _ in range(ROUNDS):
        # The products overflow int64, but their masked halves equal those of the unsigned product.
        left, right = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (right >> 32 & MASK) ^ c1 ^ key0,
            right & MASK,
            (left >> 32 & MASK) ^ c3 ^ key1,
            left & MASK,
        )
        key0, key1 = key0 + WEYL[0] & MASK, key1 + WEYL[1] & MASK
    return torch.stack(torch.broadcast_tensors(c0, c1, c2, c3), dim=-1)


def _philox_on_cpu(counter: tuple[Any, ...], key: tuple[Any, Any]) -> Tensor:
    """Philox in NumPy, whose unsigned integers need fewer operations, each with less overhead."""
    # At least 1-dimensional, since NumPy warns when a product of two numbers overflows.
    c0, c1, c2, c3, key0, key1 = (
        np.atleast_1d(np.asarray(word, np.int64).view(np.uint64)) for word in (*counter, *key)
    )
    times0, times1, weyl0, weyl1, mask, half = (
        np.uint64(number) for number in (*MULTIPLIERS, *WEYL, MASK, 32)
    )
    for _ in range(ROUNDS):
        left, right = c0 * times0, c2 * times1
        c0, c1 = (right >> half) ^ c1 ^ key0, right & mask
        c2, c3 = (left >> half) ^ c3 ^ key1, left & mask
        key0, key1 = key0 + weyl0 & mask, key1 + weyl1 & mask
    shape = np.broadcast_shapes(c0.shape, c1.shape, c2.shape, c3.shape)
    found = torch.empty(*shape, 4, dtype=torch.int64)
    for place, word in enumerate((c0, c1, c2, c3)):
        found.numpy()[..., place] = word.view(np.int64)
    return found
