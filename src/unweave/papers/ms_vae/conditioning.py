r"""Information in two stages: whether the second follows the first, and what each code contains.

With E the mean encoder of the first stage, Y its image, G the second stage and ε noise, the codes

    C^R = E(X),   C^Y = E(Y),   C^X = E(G(Y, Z)),   C^rZ = E(G(Y, ε)),   C^rY = E(G(ε, Z))

are compared with those of the data,

    MI[C^R; C] = 1/n Σ_i I(c_i; c^R_i) / H(c^R_i),     each code divided into 20 equal-width bins,

    M1 = MI[C^R; C^Y],   M2 = MI[C^R; C^X],   M3 = MI[C^R; C^rZ],   M4 = MI[C^R; C^rY].

M1 is the share of the first code that the first stage's image preserves, M2 the share that the
second stage's image preserves, M3 the same for a random second code, and M4 a baseline without the
first code.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unweave.errors import UnweaveError
from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.methods import MSVAE
from unweave.metrics.base import MetricError, Table, check_codes, table
from unweave.metrics.tools.discretise import bins, entropy, mutual_information
from unweave.nets.device import chosen_device
from unweave.nets.likelihoods import mean_image
from unweave.random import Stream

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["Staged", "predictions", "shared_information", "shared_per_code", "staged"]

BINS = 20
HIDDEN = 256
LEARNING_RATE = 1e-3
TRAINED_SHARE = 0.8
ROWS_AT_ONCE, IMAGES_AT_ONCE = 4_096, 256
PASSES, BATCH, FEWEST_STEPS = 25, 128, 300
"""Epochs, batch size and smallest number of training steps of predictors."""


def shared_information(real: Any, codes: Any) -> float:
    """Compute MI[C^R; C], the mean of `shared_per_code`.

    Notes:
        Constant codes are excluded. Independent codes have a score of about (20 - 1)² / 2n / H,
        the bias of the binned estimate.

    Example:
        >>> real = np.random.default_rng(0).uniform(size=(10_000, 3))
        >>> round(shared_information(real, 2 - real), 2)
        1.0
        >>> round(shared_information(real, real[::-1]), 2)
        0.01
    """
    shares = shared_per_code(real, codes)
    if np.isnan(shares).all():
        raise MetricError(
            "all codes of the data are constant, so no information can be shared",
            subject="real",
            value="constant",
        )
    return float(np.nanmean(shares))


def shared_per_code(real: Any, codes: Any) -> np.ndarray:
    """I(c_i; c^R_i) / H(c^R_i) for each column of codes `[n, d]`; NaN where c^R_i is constant."""
    real, codes = check_codes(real, "the codes of the data"), check_codes(codes)
    if real.shape != codes.shape:
        raise MetricError(
            f"codes must have the same shape, got {list(real.shape)} and {list(codes.shape)}",
            subject="codes",
            value=codes.shape,
        )
    known, other = bins(real, BINS), bins(codes, BINS)
    shared = [
        mutual_information(a[:, None], b[:, None]).item()
        for a, b in zip(known.T, other.T, strict=True)
    ]
    total = entropy(known)
    return np.divide(shared, total, out=np.full(len(total), np.nan), where=total > 0)


def predictions(
    codes_c: Any, codes_z: Any, factors: Any, seed: int = 0, *, steps: int, batch: int = BATCH
) -> pd.DataFrame:
    """Predict each factor from the first code, from the second code, and from both.

    For each factor and code, a network with two hidden layers of 256 units is trained by Adam on a
    random four fifths of the rows and tested on the others. Codes are standardised over the
    training rows.

    Returns:
        A row per factor: its index `factor`, the test accuracies `c`, `z` and `both`, and
        `most_frequent`, the accuracy of always predicting the most frequent value.
    """
    codes_c, codes_z = check_codes(codes_c, "C"), check_codes(codes_z, "Z")
    if len(codes_c) != len(codes_z):
        raise MetricError(
            "codes_c and codes_z must have the same number of rows, got "
            f"{len(codes_c):,} and {len(codes_z):,}",
            subject="codes_z",
            value=len(codes_z),
        )
    rows = table(np.concatenate([codes_c, codes_z], 1), factors)
    order = numpy_rng(seed).permutation(len(rows))
    border = int(TRAINED_SHARE * len(rows))
    train, test = rows.rows(order[:border]), rows.rows(order[border:])
    mean, spread = train.codes.mean(0), train.codes.std(0)
    inputs = [
        ((part.codes - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)
        for part in (train, test)
    ]
    predictors = _Predictors.start(rows, codes_c.shape[1], seed, chosen_device(None))
    predictors.learn(inputs[0], train.factors, seed, steps, batch)
    found = predictors.accuracies(inputs[1], test.factors)
    frequent = [np.bincount(column).argmax() for column in train.factors.T]
    return pd.DataFrame(
        {
            "factor": rows.columns,
            **dict(zip(("c", "z", "both"), found, strict=True)),
            "most_frequent": (test.factors == frequent).mean(0),
        }
    )


@dataclass(frozen=True, eq=False)
class _Predictors:
    """Batched networks, one for each input (C, Z or both) and each of K factors.

    Args:
        weights: Alternating weights and biases of three layers, each for 3K networks.
        inputs: Mask of the input columns of each network, `[3K, 1, d + e]`, 1 or 0.
        impossible: Mask of the classes that its factor does not have, `[3K, 1, most values]`.
    """

    weights: list[Tensor]
    inputs: Tensor
    impossible: Tensor

    @classmethod
    def start(cls, rows: Table, width: int, seed: int, device: torch.device) -> "_Predictors":
        """Initialise with normal weights of variance 2 / inputs, and biases of 0."""
        first = torch.arange(rows.codes.shape[1]) < width
        kinds = torch.stack([first, ~first, first | ~first]).float()
        mask = kinds.repeat_interleave(len(rows.sizes), 0)[:, None]
        values = torch.as_tensor(rows.sizes)
        impossible = (torch.arange(int(values.max())) >= values[:, None]).repeat(3, 1)[:, None]
        weights = []
        widths = (mask.shape[2], HIDDEN, HIDDEN, impossible.shape[2])
        for layer, (above, below) in enumerate(pairwise(widths)):
            normals = Stream(seed, f"weights {layer}").normal(len(mask), above * below)
            inputs = mask.sum(2, keepdim=True) if layer == 0 else torch.tensor(float(above))
            weight = normals.reshape(-1, above, below) * (2 / inputs).sqrt()
            weights += [weight, torch.zeros(len(mask), 1, below)]
        placed = [part.to(device).requires_grad_() for part in weights]
        return cls(placed, mask.to(device), impossible.to(device))

    def learn(
        self, codes: np.ndarray, factors: np.ndarray, seed: int, steps: int, batch: int
    ) -> None:
        inputs = torch.as_tensor(codes, device=self.inputs.device)
        labels = torch.as_tensor(factors, device=self.inputs.device)
        optimiser = torch.optim.Adam(self.weights, LEARNING_RATE)
        seeds = torch.tensor(seed, device=self.inputs.device)
        for step in range(steps):
            rows = Stream(seeds, "predictions", step).integers(len(inputs), batch, 1)[:, 0]
            targets = labels[rows].T.repeat(3, 1)
            losses = cross_entropy(self.logits(inputs[rows]).mT, targets, reduction="none")
            optimiser.zero_grad()
            # A sum over networks, so that each is trained as it would be alone.
            losses.mean(1).sum().backward()
            optimiser.step()

    def logits(self, codes: Tensor) -> Tensor:
        """Logits of all networks for codes `[n, d + e]`, `[3K, n, most values]`."""
        hidden = codes * self.inputs
        for layer in range(0, len(self.weights), 2):
            hidden = hidden if layer == 0 else hidden.relu()
            hidden = torch.baddbmm(self.weights[layer + 1], hidden, self.weights[layer])
        return hidden.masked_fill(self.impossible, -torch.inf)

    @torch.no_grad()
    def accuracies(self, codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Share of correct predictions, `[3, K]`."""
        parts = torch.as_tensor(codes, device=self.inputs.device).split(ROWS_AT_ONCE)
        predicted = torch.cat([self.logits(part).argmax(2) for part in parts], 1).cpu().numpy()
        return (predicted.reshape(3, -1, len(codes)) == factors.T).mean(2)


@dataclass(frozen=True, eq=False)
class Staged:
    """A two-stage model with images of a data set, their codes and their reconstructions.

    Args:
        model: Two-stage model.
        images: Bytes or floats in [0, 1], `[n, H, W, C]`.
        rows: Indices of the images in the data set.
        seed: Seed of all random samples.
    """

    model: "Model"
    images: np.ndarray
    rows: np.ndarray
    seed: int = 0

    @cached_property
    def codes(self) -> np.ndarray:
        """Means of C and Z, `[n, d]`."""
        return self.model.encode(self.images)[0]

    @property
    def c(self) -> np.ndarray:
        return self.codes[:, : self._first.config.code_size]

    @property
    def z(self) -> np.ndarray:
        return self.codes[:, self._first.config.code_size :]

    @cached_property
    def y(self) -> np.ndarray:
        """Reconstructions by the first stage, float32 `[n, H, W, C]`."""
        return self._first.decode(self.c)

    @cached_property
    def x(self) -> np.ndarray:
        """Reconstructions by both stages."""
        return self.model.decode(self.codes)

    def with_random_z(self) -> np.ndarray:
        """Images decoded with Z sampled from N(0, I)."""
        z = self._random.normal(size=self.z.shape).astype(np.float32)
        return self.model.decode(np.concatenate([self.c, z], 1))

    def with_random_c(self) -> np.ndarray:
        """Images decoded with the C of other images."""
        others = self._random.permutation(len(self.codes))
        return self.model.decode(np.concatenate([self.c[others], self.z], 1))

    def with_noise_for_y(self) -> np.ndarray:
        """Images generated with noise N(0, 1) in place of Y, as in the paper."""
        noise = self._random.normal(size=self.images.shape).astype(np.float32)
        return self._generate(noise, self.z)

    def variation(self, draws: int = 10) -> dict[str, float]:
        """Mean standard deviation of pixels of Y and X over samples of C.

        Z is inferred from the image and from the sampled Y.
        """
        mean, logvar = self._first.encode(self.images)
        spread, random = np.exp(logvar / 2), self._random
        of_y, of_x = [], []
        for _ in range(draws):
            c = mean + spread * random.normal(size=mean.shape)
            y = self._first.decode(c.astype(np.float32))
            of_y.append(y)
            of_x.append(self._generate(y))
        made = {"std_y": of_y, "std_x": of_x}
        return {name: float(np.std(images, 0).mean()) for name, images in made.items()}

    def _generate(self, condition: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """Images generated by the second stage from y; by default, z is inferred."""
        method = self.model.config.method
        if not isinstance(method, MSVAE) or method.condition != "image":
            raise UnweaveError(
                f"model must be an ms_vae conditioned on images (M4), got {method.name}",
                subject="model",
                value=method.name,
            )
        nets, device, made = self.model.nets(), self.model.device, []
        for start in range(0, len(condition), IMAGES_AT_ONCE):
            part = slice(start, start + IMAGES_AT_ONCE)
            y, x = (torch.from_numpy(a[part]).to(device)[None] for a in (condition, self.images))
            with torch.no_grad():
                if z is None:
                    own = method.posterior(nets, x, y).mu
                else:
                    own = torch.from_numpy(z[part]).to(device)[None]
                made.append(method.generate(nets, y, own, own)[0])
        return mean_image(self.model.config.likelihood, torch.cat(made)).cpu().numpy()

    def shared_with_c(self, images: np.ndarray) -> float:
        """Share of the information in C that is preserved in images, from 0 to 1."""
        return shared_information(self.c, self._first.encode(images)[0])

    def terms(self) -> dict[str, float]:
        """M1 to M4: the share of C preserved in images generated in different ways.

        The random Y of M4 belongs to another image; `noise_term` uses noise, as in the paper.
        """
        made = {"m1": self.y, "m2": self.x, "m3": self.with_random_z(), "m4": self.with_random_c()}
        return {name: self.shared_with_c(images) for name, images in made.items()}

    def noise_term(self) -> float:
        """M4 as in the paper, with noise in place of Y."""
        return self.shared_with_c(self.with_noise_for_y())

    def errors(self) -> dict[str, float]:
        """Mean absolute and mean squared pixel error of Y and of X."""
        from unweave.quality import l1, l2

        return {
            f"{name}_{of}": float(np.mean(error(self.images, made)))
            for of, made in (("y", self.y), ("x", self.x))
            for name, error in (("l1", l1), ("l2", l2))
        }

    def predictions(self, factors: np.ndarray) -> pd.DataFrame:
        """Accuracy of factors predicted from C, from Z and from both."""
        steps = max(FEWEST_STEPS, PASSES * len(factors) // BATCH)
        return predictions(self.c, self.z, factors, self.seed, steps=steps)

    @cached_property
    def _first(self) -> "Model":
        return self.model.first[0]

    @property
    def _random(self) -> np.random.Generator:
        return numpy_rng(self.seed)


def staged(model: "Model", data: "Dataset", count: int = 10_000, seed: int = 0) -> Staged:
    """Combine a two-stage model with images of a data set, sampled without replacement.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> few = {"steps": 2, "batch": 4, "progress": False}
        >>> first = uw.train(uw.methods.BetaTCVAE(), data, **few)
        >>> small = {"architecture": "small_dcgan", "latents": 3}
        >>> (model,) = uw.train(uw.methods.MSVAE(), data, first=first, **small, **few)
        >>> sorted(staged(model, data, 100).terms())
        ['m1', 'm2', 'm3', 'm4']
    """
    if model.config.first is None:
        raise UnweaveError(
            f"model must have two stages, such as ms_vae, got {model.config.method.name}",
            subject="model",
            value=model.config.method.name,
        )
    rows = numpy_rng(seed).permutation(data.support)[:count]
    return Staged(model, on_host(data.images(rows)), rows, seed)
