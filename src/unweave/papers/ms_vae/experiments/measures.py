"""What a second stage does to images of a data set: whether it keeps C, and what each code holds.

The terms are those of `experiments.conditioning`, computed from a trained model.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from unweave.errors import UnweaveError
from unweave.io.arguments import numpy_rng
from unweave.io.arrays import on_host
from unweave.methods import MSVAE
from unweave.nets.likelihoods import mean_image
from unweave.papers.ms_vae.experiments.conditioning import (
    predictions,
    shared_information,
    shared_per_code,
    terms,
)

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["Staged", "look_at"]

IMAGES, AT_ONCE = 10_000, 256
PASSES, BATCH, FEWEST_STEPS = 25, 128, 300
"""How long predictors learn."""


@dataclass(frozen=True, eq=False)
class Staged:
    """A model of two stages, some images, and what it makes of them.

    Args:
        model: The model.
        images: Bytes or floats in [0, 1], `[n, H, W, C]`.
        seed: Of what is drawn.
        rows: Which images of a data set they are, where that is known.
    """

    model: "Model"
    images: np.ndarray
    seed: int = 0
    rows: np.ndarray | None = None

    @property
    def size(self) -> int:
        """How many latents C has."""
        return self.model.first.configs[0].code_size

    @cached_property
    def codes(self) -> np.ndarray:
        """The means of C and Z, `[n, d]`."""
        return self.model.encode(self.images)[0]

    @property
    def c(self) -> np.ndarray:
        """The means of C."""
        return self.codes[:, : self.size]

    @property
    def z(self) -> np.ndarray:
        """The means of Z."""
        return self.codes[:, self.size :]

    @cached_property
    def y(self) -> np.ndarray:
        """What the first stage makes of the images, float32 `[n, H, W, C]`."""
        return self._first.decode(self.c)

    @cached_property
    def x(self) -> np.ndarray:
        """What both stages make of them."""
        return self.model.decode(self.codes)

    def with_random_z(self) -> np.ndarray:
        """The same with Z drawn from N(0, I)."""
        drawn = self._random.normal(size=self.z.shape).astype(np.float32)
        return self.model.decode(np.concatenate([self.c, drawn], 1))

    def with_random_c(self) -> np.ndarray:
        """The same with the C of other images."""
        others = self._random.permutation(len(self.codes))
        return self.model.decode(np.concatenate([self.c[others], self.z], 1))

    def with_noise_for_y(self) -> np.ndarray:
        """The same with noise N(0, 1) in place of Y, as the paper has it."""
        noise = self._random.normal(size=self.images.shape).astype(np.float32)
        return self._drawn_over(noise, self.z)

    def variation(self, draws: int = 10) -> dict[str, float]:
        """How much images differ from draw to draw of C: the mean deviation of pixels, of Y and X.

        Z follows from the image and from the Y that was drawn.
        """
        mean, logvar = self._first.encode(self.images)
        spread, random = np.exp(logvar / 2), self._random
        of_y, of_x = [], []
        for _ in range(draws):
            c = mean + spread * random.normal(size=mean.shape)
            y = self._first.decode(c.astype(np.float32))
            of_y.append(y)
            of_x.append(self._drawn_over(y))
        made = {"std_y": of_y, "std_x": of_x}
        return {name: float(np.std(images, 0).mean()) for name, images in made.items()}

    def _drawn_over(self, seen: np.ndarray, z: np.ndarray | None = None) -> np.ndarray:
        """What the second stage makes of images that it is shown; z is as the images say."""
        method = self.model.config.method
        if not isinstance(method, MSVAE) or method.condition != "image":
            raise UnweaveError(f"{method.name} is shown no images in this model; train M4")
        nets, device, made = self.model.nets(), self.model.device, []
        for start in range(0, len(seen), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            y, x = (torch.from_numpy(a[part]).to(device)[None] for a in (seen, self.images))
            with torch.no_grad():
                own = (
                    method.posterior(nets, x, y).mu
                    if z is None
                    else torch.from_numpy(z[part]).to(device)[None]
                )
                made.append(method.generate(nets, y, own, own)[0])
        return mean_image(self.model.config.likelihood, torch.cat(made)).cpu().numpy()

    def c_of(self, images: np.ndarray) -> np.ndarray:
        """The first stage's codes of images."""
        return self._first.encode(images)[0]

    def terms(self) -> dict[str, float]:
        """M1 to M4: how much of C images keep that were made in different ways.

        The random Y of M4 is that of another image; see `noise_term` for the paper's.
        """
        return terms(
            self.c,
            self.c_of(self.y),
            self.c_of(self.x),
            self.c_of(self.with_random_z()),
            self.c_of(self.with_random_c()),
        )

    def noise_term(self) -> float:
        """M4 as the paper has it, with noise in place of Y."""
        return shared_information(self.c, self.c_of(self.with_noise_for_y()))

    def errors(self) -> dict[str, float]:
        """Mean absolute and mean squared error of Y and of X, by pixel."""
        from unweave.quality import l1, l2

        return {
            f"{name}_{of}": float(np.mean(error(self.images, made)))
            for of, made in (("y", self.y), ("x", self.x))
            for name, error in (("l1", l1), ("l2", l2))
        }

    def kept(self) -> np.ndarray:
        """How much of each latent of C is kept whatever Z is, `[d]`: M3 one by one."""
        return shared_per_code(self.c, self.c_of(self.with_random_z()))

    def predictions(self, factors: np.ndarray) -> pd.DataFrame:
        """How well factors are predicted from C, from Z and from both."""
        steps = max(FEWEST_STEPS, PASSES * len(factors) // BATCH)
        return predictions(self.c, self.z, factors, self.seed, steps=steps, batch=BATCH)

    @cached_property
    def _first(self) -> "Model":
        return self.model.first[0]

    @property
    def _random(self) -> np.random.Generator:
        return numpy_rng(self.seed)


def look_at(model: "Model", data: "Dataset", count: int = IMAGES, seed: int = 0) -> Staged:
    """A model of two stages and images of a data set, drawn without repeats.

    Example:
        >>> import unweave as uw
        >>> data = uw.data.load("dsprites").slice(shape=0, scale=5, orientation=0)
        >>> few = {"steps": 2, "batch": 4, "progress": False}
        >>> first = uw.train(uw.methods.BetaTCVAE(), data, **few)
        >>> small = {"architecture": "small_dcgan", "latents": 3}
        >>> (model,) = uw.train(uw.methods.MSVAE(), data, first=first, **small, **few)
        >>> sorted(look_at(model, data, 100).terms())
        ['m1', 'm2', 'm3', 'm4']
    """
    if model.config.first is None:
        raise UnweaveError(
            f"{model.config.method.name} models have one stage; train ms_vae over them for two"
        )
    rows = numpy_rng(seed).permutation(data.support)[:count]
    images = on_host(data.images(rows))
    return Staged(model, images, seed, rows)
