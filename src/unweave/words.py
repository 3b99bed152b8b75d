"""Counts, sizes and names, as messages and pictures say them and as users write them."""

from collections.abc import Sequence

__all__ = ["counted", "size_text", "spelled"]


def counted(count: int, noun: str) -> str:
    """A number and its noun: `1 model`, `1,200 models`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(shape: Sequence[int]) -> str:
    """A shape in words: `32 × 32 × 1`."""
    return " × ".join(map(str, shape))


def spelled(name: str) -> str:
    """A name as the library spells it: `Beta-VAE` is `beta_vae`."""
    return name.replace("-", "_").lower()
