"""Jacobian supervision: a student autoencoder that varies with C as its teacher does."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.kernels import unit
from unweave.methods.ae import AE
from unweave.methods.base import MODEL, Losses, Nets, NetworkGroups, NetworkSpec, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.mixins import SecondStage
from unweave.nets import dcgan

__all__ = ["JacobianSupervision", "covariance_norm"]


@dataclass(frozen=True, kw_only=True)
class JacobianSupervision(SecondStage, AE):
    """Jacobian supervision: an autoencoder with more latents learns from a disentangled one.

        L = MSE(x, x̂_S) + λ_y MSE(y_T, y_S)
          + λ_diff MSE(x̂_S(y_j, z_i) - x̂_S(y_i, z_i), x̂_T(y_j) - x̂_T(y_i))
          + λ_cov ‖Σ_b (y_b - ȳ)(z_b - z̄)ᵀ‖_F / B

    The teacher T is the first stage, which is frozen: y_T is the mean of its code C, and x̂_T its
    mean image. The student S is deterministic; its code is y_S, of the size of C, followed by z_S.
    Each image i swaps y with a partner j, given by a random permutation of the batch. The images
    of the student should change as those of the teacher do, which approximates equal derivatives
    ∂x̂/∂y. Codes of a trained model are those of the student.

    Args:
        lambda_y: Weight of the code error, λ_y.
        lambda_diff: Weight of the difference error, λ_diff.
        lambda_cov: Weight of the covariance norm, λ_cov; the norm is not squared.

    Notes:
        The authors copy the teacher's weights and add one latent at a time; here a student is
        trained from scratch, as in the comparison of Srivastava et al. The original has batch
        norm; here each image is normalised separately, since a code must not depend on the rest
        of the batch. There is no weight decay.

    References:
        Lezama, Overcoming the Disentanglement vs Reconstruction Trade-off via Jacobian
        Supervision, ICLR 2019; a baseline in Srivastava et al., arXiv:2010.13187.
    """

    name = "jacobian"
    label = "Jacobian supervision"
    standard_noise = False
    architectures = dcgan.WIDTHS
    likelihoods = ("bernoulli",)

    lambda_y: Strength = 0.25
    lambda_diff: Strength = 0.1
    lambda_cov: Strength = 1e-3

    def networks(self, spec: NetworkSpec) -> NetworkGroups:
        size, width = spec.base_latents + spec.latents, dcgan.WIDTHS[spec.architecture]
        return {
            MODEL: {
                "encoder": dcgan.encoder(spec.shape, size, width, "instance"),
                "decoder": dcgan.decoder(spec.shape, size, width, "instance"),
            }
        }

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        first, images = self.first_stage(nets), batch.images
        partners = batch.stream("partner").words(images.shape[1], 1).argsort(1)[..., 0]
        with torch.no_grad():
            target = first.encode(images).mu
            blurry = first.mean(first.decode(target))
            teacher_difference = of_partners(blurry, partners) - blurry
        y, z = self._codes(nets, images).tensor_split([first.latents], -1)
        own, other = torch.cat([y, z], -1), torch.cat([of_partners(y, partners), z], -1)
        decoded = nets.decode(torch.cat([own, other], 1)).float().sigmoid()
        reconstructed, swapped = decoded.chunk(2, 1)
        terms = {
            "squared_error": mean_square(reconstructed - unit(images, decoded.dtype)),
            "code_error": mean_square(y - target),
            "difference_error": mean_square(swapped - reconstructed - teacher_difference),
            "covariance": covariance_norm(y, z),
        }
        weights = (1.0, self.lambda_y, self.lambda_diff, self.lambda_cov)
        weighted = [weight * term for weight, term in zip(weights, terms.values(), strict=True)]
        return Losses({MODEL: torch.stack(weighted).sum(0)}, terms)

    def encode(self, nets: Nets, images: Tensor) -> Posterior:
        return Posterior.of_points(self._codes(nets, images))

    def _codes(self, nets: Nets, images: Tensor) -> Tensor:
        return nets.apply["encoder"](images).float()


def of_partners(values: Tensor, partners: Tensor) -> Tensor:
    """Replace the values `[M, B, …]` of each image by those of its partner `[M, B]`."""
    places = partners[(...,) + (None,) * (values.ndim - 2)]
    return values.gather(1, places.expand_as(values))


def mean_square(difference: Tensor) -> Tensor:
    """Mean of squares over all axes but the model axis, `[M]`."""
    return difference.square().flatten(1).mean(-1)


def covariance_norm(y: Tensor, z: Tensor) -> Tensor:
    """‖Σ_b (y_b - ȳ)(z_b - z̄)ᵀ‖_F / B `[M]` for codes `[M, B, c]` and `[M, B, d]`."""
    products = (y - y.mean(1, keepdim=True)).mT @ (z - z.mean(1, keepdim=True))
    return torch.linalg.vector_norm(products, dim=(1, 2)) / y.shape[1]
