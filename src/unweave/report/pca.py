"""The chosen model of a fit next to principal and independent components (PCA and ICA).

Shapes: n images, d latents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unweave.analysis.association import associations
from unweave.data.dataset import Dataset
from unweave.fitting.baselines import baselines, unit_images
from unweave.io.arrays import on_host
from unweave.models.encoding import posteriors
from unweave.models.model import Model
from unweave.text import counted

__all__ = ["AgainstPCA", "against_pca"]

CLOSE = 0.02
"""Difference of two mean associations, or of two shares of the variance, that counts as none."""
MOST_FACTORS = 20


@dataclass(frozen=True)
class FactorRow:
    """How closely one latent of each kind follows a known factor, from 0 to 1."""

    name: str  # name of the factor
    model: float  # association of the closest latent of the model
    pca: float  # of the closest principal component
    ica: float  # of the closest independent component
    latent: str  # the closest latent of the model


@dataclass(frozen=True)
class ErrorRow:
    """Reconstruction error of a model or of a baseline."""

    name: str  # what reconstructs
    error: float  # mean squared error of pixels in [0, 1]
    explained: float  # share of the pixel variance


@dataclass(frozen=True)
class AgainstPCA:
    """Comparison of a model with PCA and ICA."""

    factors: Sequence[FactorRow]  # empty if no factors are known
    more_factors: int  # number of factors that are left out
    errors: Sequence[ErrorRow]  # mean image, PCA, model
    num_images: int  # images that all were compared on

    @property
    def answer(self) -> str:
        """The result in one sentence."""
        if self.factors:
            own, pca, ica = (
                float(np.mean([getattr(row, name) for row in self.factors]))
                for name in ("model", "pca", "ica")
            )
            figures = f"(mean {own:.2f}, PCA {pca:.2f}, ICA {ica:.2f})"
            if own > max(pca, ica) + CLOSE:
                return f"Single latents follow the known factors more closely {figures}."
            if own < max(pca, ica) - CLOSE:
                return (
                    "Here, PCA or ICA is the better choice: single components follow the known "
                    f"factors more closely than latents {figures}."
                )
            return f"Here, PCA or ICA does as well {figures}."
        few, model = self.errors[1], self.errors[-1]
        figures = f"({model.explained:.0%} and {few.explained:.0%} of the variance)"
        if model.explained > few.explained + CLOSE:
            return f"The model reconstructs the images better than {few.name} {figures}."
        if model.explained < few.explained - CLOSE:
            return f"Here, {few.name} reconstructs the images better than the model {figures}."
        return f"Here, {few.name} reconstructs the images as well as the model {figures}."


def against_pca(model: Model, data: Dataset, clear: int) -> AgainstPCA:
    """Compare a model with as many principal components as it has latents, on the same images.

    Args:
        model: The chosen model.
        data: Images, whose factors may be known.
        clear: Number of its clear latents.
    """
    against = baselines(data, model.config.code_size)
    (means,), _ = posteriors(model, data, against.rows)
    images = unit_images(data, against.rows)
    decoded = np.asarray(model.decode(means)).reshape(images.shape)
    error = float(np.square(decoded - images).mean(dtype=np.float64))
    full = len(against.pca) - 1
    few = min(max(clear, 1), full)
    errors = [("the mean image", against.mean_image), (_components(few), against.pca[few])]
    errors += [(_components(full), against.pca[full])] if few < full else []
    errors += [(f"the model ({counted(clear, 'clear latent')})", error)]
    known = data.grid or data.labels
    rows = []
    if known is not None:
        classes = on_host(data.factors(against.rows))
        categorical = [axis.categorical for axis in known.axes]
        found = [
            associations(codes, classes, categorical)
            for codes in (means, against.codes, against.independent())
        ]
        for k, axis in enumerate(known.axes):
            if len(np.unique(classes[:, k])) > 1:
                model_, pca, ica = (float(each[k].max(initial=0.0)) for each in found)
                latent = int(found[0][k].argmax())
                rows.append(FactorRow(axis.name, model_, pca, ica, f"z{latent}"))
    return AgainstPCA(
        rows[:MOST_FACTORS],
        max(0, len(rows) - MOST_FACTORS),
        [ErrorRow(name, float(e), float(against.explained(e))) for name, e in errors],
        len(against.rows),
    )


def _components(count: int) -> str:
    return f"PCA with {counted(count, 'component')}"
