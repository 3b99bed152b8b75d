"""Encoding a data set once with a fleet of models, and applying metrics to the codes.

Shapes: M models, n rows (the images in the data set's support), d latents.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from unweave.data.dataset import Dataset
from unweave.errors import DownloadError, UnweaveError
from unweave.evaluation.score_cache import Outcome
from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.metrics import Metric
from unweave.models.encoding import posteriors
from unweave.models.model import Fleet
from unweave.random import Stream

__all__ = ["Codes", "Posteriors", "apply_metric", "encode", "models_per_batch"]

MEMORY = 2**30
"""Memory limit in bytes for the codes of models that are encoded together (at least one)."""
DECODED_ROWS = 5_000
COMPARED_ROWS = 10_000
DECODED_PER_BATCH = 500
NOISE, FACTORISED = "evaluate", "factorised"


@dataclass(frozen=True, eq=False)
class Posteriors:
    """Posteriors of several models and the factors of their images, as most metrics need them."""

    means: np.ndarray  # posterior means, float32 `[M, n, d]`
    logvars: np.ndarray  # posterior log-variances, float32 `[M, n, d]`
    factors: np.ndarray | None  # factor classes `[n, K]`, or None if they are unknown
    images_of: np.ndarray  # index of each row's image in its data set, `[n]`
    # Random seed for sampled codes, for the choice of decoded rows, and for images that are random
    # given their factors.
    seed: int

    def sampled(self, index: int, rows: np.ndarray | None = None) -> np.ndarray:
        """Sampled codes μ + σ ε of one model for all or some rows, `[n, d]`.

        The noise depends only on the image and the seed, so it is the same for all models.
        """
        chosen = slice(None) if rows is None else rows
        means, logvars = self.means[index][chosen], self.logvars[index][chosen]
        return means + np.exp(logvars / 2) * self._noise[chosen]

    @cached_property
    def _noise(self) -> np.ndarray:
        rows = torch.as_tensor(self.images_of.astype(np.int64))
        return Stream(self.seed, NOISE).normal(rows, self.means.shape[-1]).numpy()


@dataclass(frozen=True, eq=False)
class Codes(Posteriors):
    """Posteriors together with the models that can decode them."""

    fleet: Fleet  # the models
    data: Dataset  # the encoded data set

    def of(self, index: int, with_logvars: bool = True) -> Posteriors:
        """The posteriors of one model, small enough to send to another process.

        Args:
            index: Index of the model.
            with_logvars: Whether to include the log-variances.
        """
        part = slice(index, index + 1)
        logvars = self.logvars[part] if with_logvars else self.logvars[part, :0]
        factors = None if self.factors is None else _smallest(self.factors)
        return Posteriors(self.means[part], logvars, factors, _smallest(self.images_of), self.seed)

    @cached_property
    def decoded_rows(self) -> np.ndarray:
        """The rows to decode: all, or 5,000 sampled without replacement."""
        return self._sampled_rows(DECODED_ROWS)

    @cached_property
    def images(self) -> np.ndarray:
        """The images of the decoded rows, uint8 `[n, H, W, C]`."""
        return self._images(self.decoded_rows)

    def reconstructions(self, index: int, sampled: bool) -> np.ndarray:
        """Reconstructions of the decoded rows, float32 `[n, H, W, C]`."""
        rows = self.decoded_rows
        codes = self.sampled(index, rows) if sampled else self.means[index][rows]
        return self.fleet[index].decode(codes)

    @cached_property
    def compared_rows(self) -> np.ndarray:
        """The rows for set distances such as FID: all, or 10,000 sampled without replacement."""
        return self._sampled_rows(COMPARED_ROWS)

    @cached_property
    def compared_images(self) -> np.ndarray:
        """The images of the compared rows, uint8 `[n, H, W, C]`."""
        return self._images(self.compared_rows)

    def compared_reconstructions(self, index: int, sampled: bool) -> Iterator[np.ndarray]:
        """Reconstructions of the compared rows, float32, in batches."""
        rows = self.compared_rows
        yield from self._decoded(
            index, self.sampled(index, rows) if sampled else self.means[index][rows]
        )

    def factorised(self, index: int) -> Iterator[np.ndarray]:
        """Decoded codes with independent latents, as many as compared rows, float32, in batches.

        Each latent is uniform between the least and the largest mean of the compared rows.
        """
        means = self.means[index][self.compared_rows]
        uniform = Stream(self.seed, FACTORISED).uniform(*means.shape).numpy()
        low, high = means.min(0), means.max(0)
        yield from self._decoded(index, low + (high - low) * uniform)

    def _decoded(self, index: int, codes: np.ndarray) -> Iterator[np.ndarray]:
        model = self.fleet[index]
        for start in range(0, len(codes), DECODED_PER_BATCH):
            yield model.decode(codes[start : start + DECODED_PER_BATCH])

    def _sampled_rows(self, limit: int) -> np.ndarray:
        count = len(self.means[0])
        if count <= limit:
            return np.arange(count)
        return numpy_rng(self.seed).choice(count, limit, replace=False)

    def _images(self, rows: np.ndarray) -> np.ndarray:
        return on_host(self.data.images(self.images_of[rows], self.seed))


def _smallest(classes: np.ndarray) -> np.ndarray:
    """Cast non-negative integers to the smallest dtype that holds them."""
    return classes.astype(np.min_scalar_type(classes.max(initial=0)))


def models_per_batch(data: Dataset, latents: int) -> int:
    """Number of models whose means and log-variances fit into `MEMORY`, at least one."""
    return max(1, MEMORY // (len(data.support) * latents * 8))


def encode(
    fleet: Fleet, data: Dataset, seed: int, advance: Callable[[int], None] | None = None
) -> Codes:
    """Encode all images in the support of a data set with every model.

    Args:
        fleet: The models, on the device used for encoding.
        data: The data set, in host memory.
        seed: Random seed; see `Codes`.
        advance: Progress callback, called with the number of newly encoded images.
    """
    support = data.support
    means, logvars = posteriors(fleet, data, support, seed=seed, advance=advance)
    known = data.grid or data.labels
    factors = on_host(data.factors(support)) if known else None
    return Codes(means, logvars, factors, support, seed, fleet, data)


def apply_metric(metric: Metric, codes: Posteriors, index: int, sampled: bool) -> Outcome:
    """Compute a metric for one model; metrics that need images require `Codes`."""
    try:
        options: dict[str, Any] = {}
        means, factors = codes.means[index], codes.factors
        if metric.of_images:
            assert isinstance(codes, Codes)
            rows, options = _decoded(metric, codes, index, sampled)
            means, factors = means[rows], None
        elif sampled and not metric.of_posteriors:
            options = {"means": means} if "means" in metric.takes else {}
            means = codes.sampled(index)
        elif "logvars" in metric.takes:
            options = {"logvars": codes.logvars[index]}
        return Outcome(metric(means, factors, codes.seed, **options))
    except DownloadError as error:
        return Outcome({}, str(error), transient=True)
    except UnweaveError as error:
        return Outcome({}, str(error))


def _decoded(
    metric: Metric, codes: Codes, index: int, sampled: bool
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the rows used by an image metric, and its image arguments."""
    if metric.needs == "images":
        rows = codes.decoded_rows
        options: dict[str, Any] = {
            "logvars": codes.logvars[index][rows],
            "images": codes.images,
            "reconstructions": codes.reconstructions(index, sampled),
            "likelihood": codes.fleet.configs[index].likelihood,
        }
        # On the CPU the pixels of one model take seconds, during which the GPU would be idle.
        if codes.fleet.device.type == "cuda" and "device" in metric.takes:
            options["device"] = codes.fleet.device
        return rows, options
    options = {"reconstructions": codes.compared_reconstructions(index, sampled)}
    if metric.needs == "decodes":
        options["factorised"] = codes.factorised(index)
    else:
        options["images"] = codes.compared_images
    if "device" in metric.takes:
        options["device"] = codes.fleet.device
    return codes.compared_rows, options
