"""Codes of a first stage, drawn for the methods that build on it."""

from torch import Tensor

from unweave.methods.base import Stage
from unweave.methods.batch import Batch
from unweave.methods.mixins import KnownFactors
from unweave.random import Stream

__all__ = ["drawn_code", "noise_of_images"]


def drawn_code(first: Stage, batch: Batch) -> Tensor:
    """One c of each image, `[M, B, d]`: given with it, or drawn from q(c|x) once and for all."""
    if isinstance(first.method, KnownFactors):
        assert batch.factors is not None, "factors were not given"
        return batch.factors
    posterior = first.encode(batch.images)
    return posterior.sample(noise_of_images(batch, posterior.mu))


def noise_of_images(batch: Batch, like: Tensor, draws: int = 1) -> Tensor:
    """The noise of each image's c, `[M, B, d]`: the same whenever the image comes.

    Args:
        batch: Of images that are known by their indices.
        like: Of the same shape.
        draws: How many c an image has, one of which is taken.
    """
    assert batch.indices is not None, "a second stage on images that nobody can tell apart"
    places = batch.indices
    if draws > 1:
        chosen = batch.stream("draws").integers(draws, places.shape[1], 1)
        places = places * draws + chosen[..., 0]
    return Stream(batch.seeds, "first stage").normal(places, like.shape[-1]).to(like.dtype)
