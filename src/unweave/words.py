"""Counts and sizes in words, as messages and pictures say them."""

from collections.abc import Sequence

__all__ = ["counted", "size_text"]


def counted(count: int, noun: str) -> str:
    """A number and its noun: `1 model`, `1,200 models`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(shape: Sequence[int]) -> str:
    """A shape in words: `32 × 32 × 1`."""
    return " × ".join(map(str, shape))
