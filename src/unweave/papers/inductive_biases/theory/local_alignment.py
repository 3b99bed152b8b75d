"""Whether the latents of a trained decoder cause orthogonal changes of the image.

The nonlinear counterpart of `theory.pca_alignment`, for trained models.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unweave.analysis.maps import distance_to_orthogonality
from unweave.papers.theory import TheoryError

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.model import Model

__all__ = ["LocalAlignment", "decoder_jacobians", "distance_of_axes", "local_alignment"]

IMAGES = 64


@dataclass(frozen=True, eq=False)
class LocalAlignment:
    """Alignment of latents with the principal directions of a decoder.

    Args:
        distances: Distance of V from a signed permutation at each image, `[n]`: 0 where latents
            are the principal directions of the decoder.
        latents: Indices of the informative latents, which are compared.
        chance: Mean distance of random rotations of this size.
    """

    distances: np.ndarray
    latents: np.ndarray
    chance: float

    @property
    def mean(self) -> float:
        """Mean distance over the images."""
        return float(self.distances.mean())

    def __str__(self) -> str:
        return f"mean distance {self.mean:.3f}, for random rotations {self.chance:.3f}"


def local_alignment(
    model: "Model", data: "Dataset", images: int = IMAGES, seed: int = 0
) -> LocalAlignment:
    """Measure the distance of latents from the principal directions of a decoder, at images.

        J = ∂ decoded / ∂z = U S Vᵀ,    distance = ‖V - P(V)‖_F / √d

    with P(V) the nearest signed permutation. Only latents with more than 0.01 nats count; the
    others do not change the image and have no direction.

    References:
        Rolinek, Zietlow & Martius, Variational Autoencoders Pursue PCA Directions (by Accident),
        arXiv:1812.06775.
    """
    from unweave.models.images import sample_rows
    from unweave.select.latents import encoded

    model.config.method.require_decoder()
    latents = encoded(model, data, sample_rows(data, images, seed), seed)
    if not latents.usable[0]:
        raise TheoryError(
            "the model diverged and has no meaningful codes; use another model",
            subject="model",
            value="diverged",
        )
    chosen = np.flatnonzero(latents.informative[0])
    if len(chosen) < 2:
        raise TheoryError(
            f"the model must have at least 2 informative latents, got {len(chosen)}; use another "
            "model",
            subject="latents",
            value=len(chosen),
        )
    jacobians = decoder_jacobians(model, latents.means[0])[:, :, chosen]
    distances = np.array([distance_of_axes(J) for J in jacobians])
    return LocalAlignment(distances, chosen, _chance(len(chosen)))


def distance_of_axes(J: np.ndarray) -> float:
    """‖V - P(V)‖_F / √d of a Jacobian `[pixels, d]`, invariant to scaling or rotating images.

    Example:
        >>> distance_of_axes(np.array([[2.0, 0.0], [0.0, -3.0], [0.0, 0.0]]))
        0.0
    """
    return _distance(np.linalg.svd(J, full_matrices=False)[2].T)


def decoder_jacobians(model: "Model", codes: np.ndarray) -> np.ndarray:
    """Compute ∂ mean image / ∂z at codes `[n, d]`, float64 `[n, pixels, d]`.

    Columns are computed by double backward: vᵀ J is linear in v, and its derivative is J.
    """
    from unweave.nets.likelihoods import mean_image

    model.config.method.require_decoder()
    nets, method = model.nets(), model.config.method
    z = torch.tensor(codes, dtype=torch.float32, device=model.device)[None].requires_grad_()
    decoded = mean_image(model.config.likelihood, method.decode(nets, z).float()).flatten(2)
    v = torch.zeros_like(decoded, requires_grad=True)
    (pulled,) = torch.autograd.grad(decoded, z, v, create_graph=True)
    columns: list[Tensor] = []
    for latent in range(codes.shape[1]):
        along = torch.zeros_like(pulled)
        along[..., latent] = 1
        (column,) = torch.autograd.grad(pulled, v, along, retain_graph=True)
        columns.append(column[0])
    return torch.stack(columns, -1).double().cpu().numpy()


def _chance(size: int) -> float:
    generator = np.random.default_rng(0)
    rotations = [np.linalg.qr(generator.normal(size=(size, size)))[0] for _ in range(100)]
    return float(np.mean([_distance(rotation) for rotation in rotations]))


def _distance(V: np.ndarray) -> float:
    return distance_to_orthogonality(V)["frobenius"] / float(np.sqrt(len(V)))
