"""The codes that metrics read: a fleet's data set, encoded once.

Shapes: M models, n rows (the images that can be drawn), d latents.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from unweave.data.dataset import Dataset
from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.models.encoding import posteriors
from unweave.models.model import Fleet
from unweave.random import Stream

__all__ = ["Codes", "Posteriors", "encode", "models_at_once"]

MEMORY = 2**30
"""Bytes of codes at once, in host memory: as many models are encoded together as fit, or one."""
DECODED_ROWS = 5_000
COMPARED_ROWS = 10_000
DECODED_AT_ONCE = 500
NOISE = "evaluate"


@dataclass(frozen=True, eq=False)
class Posteriors:
    """Posteriors of several models, and what made their images: all that most metrics need.

    Args:
        means: float32 `[M, n, d]`.
        logvars: float32 `[M, n, d]`.
        factors: Classes `[n, K]`, or None where they are not known.
        images_of: The number of each row's image in its data set, `[n]`.
        seed: Of the noise of sampled codes, of the rows that are decoded, and of images that are
            random given their factors.
    """

    means: np.ndarray
    logvars: np.ndarray
    factors: np.ndarray | None
    images_of: np.ndarray
    seed: int

    def sampled(self, place: int, rows: np.ndarray | None = None) -> np.ndarray:
        """Codes μ + σ ε of one model, of all rows or some, `[n, d]`.

        The noise belongs to the image and the seed: all models see the same.
        """
        chosen = slice(None) if rows is None else rows
        means, logvars = self.means[place][chosen], self.logvars[place][chosen]
        return means + np.exp(logvars / 2) * self._noise[chosen]

    @cached_property
    def _noise(self) -> np.ndarray:
        rows = torch.as_tensor(self.images_of.astype(np.int64))
        return Stream(self.seed, NOISE).normal(rows, self.means.shape[-1]).numpy()


@dataclass(frozen=True, eq=False)
class Codes(Posteriors):
    """Posteriors with the models that decode them.

    Args:
        fleet: The models.
        data: What they encoded.
    """

    fleet: Fleet
    data: Dataset

    def of(self, place: int, spread: bool = True) -> Posteriors:
        """The posteriors of one model alone, small enough to be sent.

        Args:
            place: Which model.
            spread: Whether log-variances are needed; without them there are none.
        """
        part = slice(place, place + 1)
        logvars = self.logvars[part] if spread else self.logvars[part, :0]
        factors = None if self.factors is None else _smallest(self.factors)
        return Posteriors(self.means[part], logvars, factors, _smallest(self.images_of), self.seed)

    @cached_property
    def decoded_rows(self) -> np.ndarray:
        """The rows whose images are decoded: all, or 5,000 drawn once each."""
        return self._drawn(DECODED_ROWS)

    @cached_property
    def images(self) -> np.ndarray:
        """The images of the decoded rows, bytes `[n, H, W, C]`."""
        return self._images(self.decoded_rows)

    def reconstructions(self, place: int, sampled: bool) -> np.ndarray:
        """What the codes of the decoded rows decode to, float32 `[n, H, W, C]`."""
        rows = self.decoded_rows
        codes = self.sampled(place, rows) if sampled else self.means[place][rows]
        return self.fleet[place].decode(codes)

    @cached_property
    def compared_rows(self) -> np.ndarray:
        """The rows whose images are compared as a set: all, or 10,000 drawn once each."""
        return self._drawn(COMPARED_ROWS)

    @cached_property
    def compared_images(self) -> np.ndarray:
        """The images of the compared rows, bytes `[n, H, W, C]`."""
        return self._images(self.compared_rows)

    def compared_reconstructions(self, place: int, sampled: bool) -> Iterator[np.ndarray]:
        """What the codes of the compared rows decode to, float32, some at a time."""
        model, rows = self.fleet[place], self.compared_rows
        for start in range(0, len(rows), DECODED_AT_ONCE):
            part = rows[start : start + DECODED_AT_ONCE]
            yield model.decode(self.sampled(place, part) if sampled else self.means[place][part])

    def _drawn(self, most: int) -> np.ndarray:
        count = len(self.means[0])
        if count <= most:
            return np.arange(count)
        return numpy_rng(self.seed).choice(count, most, replace=False)

    def _images(self, rows: np.ndarray) -> np.ndarray:
        return on_host(self.data.images(self.images_of[rows], self.seed))


def _smallest(classes: np.ndarray) -> np.ndarray:
    """The same whole numbers in as few bytes as they need."""
    return classes.astype(np.min_scalar_type(classes.max(initial=0)))


def models_at_once(data: Dataset, latents: int) -> int:
    """How many models' means and log-variances fit into `MEMORY`; at least one."""
    return max(1, MEMORY // (len(data.support) * latents * 8))


def encode(
    fleet: Fleet, data: Dataset, seed: int, advance: Callable[[int], None] | None = None
) -> Codes:
    """Encode every image that can be drawn, with every model.

    Args:
        fleet: The models, on the device that does it.
        data: In host memory.
        seed: See `Codes`.
        advance: Told how many images were encoded, now and then.
    """
    support = data.support
    means, logvars = posteriors(fleet, data, support, seed=seed, advance=advance)
    known = data.grid or data.labels
    factors = on_host(data.factors(support)) if known else None
    return Codes(means, logvars, factors, support, seed, fleet, data)
