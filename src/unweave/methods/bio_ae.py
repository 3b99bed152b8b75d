"""BioAE: an autoencoder whose codes are non-negative and cost energy."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unweave.errors import UnweaveError
from unweave.methods.ae import AE
from unweave.methods.base import MODEL, Losses, Nets, Strength
from unweave.methods.batch import Batch

__all__ = ["BioAE"]


@dataclass(frozen=True, kw_only=True)
class BioAE(AE):
    """BioAE: an autoencoder with non-negative codes of little energy, as in biology.

        L = r / P + λ_n/d Σ_j max(-z_j, 0) + λ_a/d Σ_j z_j²                     (default)
        L = r     + λ_n   Σ_j max(-z_j, 0) + λ_a   Σ_j z_j² + λ_w Σ_l ‖W_l‖²    (`sums=True`)

    with the reconstruction error r = -log p(x|z), z = μ(x), P numbers per image, and the weights
    W_l of all layers of the encoder and decoder. Reported are `negative`, the share of z below 0,
    and `energy`, the mean of z².

    Args:
        lambda_n: Weight of negative codes, λ_n.
        lambda_a: Weight of the energy of codes, λ_a.
        lambda_w: Weight of the energy of weights, λ_w; needs `sums`.
        sums: Whether to sum over pixels and latents instead of averaging.

    Notes:
        The defaults are those of Hsu et al., who decay weights in the optimiser,
        `uw.Adam(lr=1e-3, weight_decay=1e-4)`, instead of with λ_w. `BioAE.whittington()` has the
        settings of the autoencoders of Whittington et al., who use a learning rate of 1e-4. Their
        VAE with non-negative means is not included. A rotation of non-negative independent codes
        needs more energy, since it needs a larger offset to remain non-negative.

    References:
        Whittington et al., Disentanglement with Biological Constraints: A Theory of Functional
        Cell Types, arXiv:2210.01768.
        Hsu et al., Disentanglement via Latent Quantization, arXiv:2305.18378 (as a baseline).
    """

    name = "bio_ae"
    label = "BioAE"
    arbitrary_axes = False

    lambda_n: Strength = 1.0
    lambda_a: Strength = 0.01
    lambda_w: Strength = 0.0
    sums: bool = False

    def check(self) -> None:
        if self.lambda_w and not self.sums:
            raise UnweaveError(
                f"lambda_w of {self.name} needs sums=True, got {self.lambda_w:g}; decay weights "
                "in the optimiser instead, uw.Adam(weight_decay=1e-4)",
                subject="lambda_w",
                value=self.lambda_w,
            )

    @classmethod
    def whittington(cls) -> Self:
        """Return the method with the settings of Whittington et al."""
        return cls(lambda_n=0.5, lambda_a=5e-3, lambda_w=1e-3, sums=True)

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        z = nets.encode(batch.images).mu
        reconstruction = nets.reconstruction(z, batch.images)
        pixels = batch.images[0, 0].numel()
        if self.sums:
            loss = reconstruction + self.penalty(z) + self.lambda_w * weight_energy(nets)
        else:
            loss = reconstruction / pixels + self.penalty(z)
        terms = {
            "reconstruction": reconstruction,
            "negative": (z < 0).to(z.dtype).mean((1, 2)),
            "energy": z.square().mean((1, 2)),
        }
        return Losses({MODEL: loss}, terms)

    def penalty(self, z: Tensor) -> Tensor:
        """Return the terms of the loss that depend on codes z `[M, B, d]` only, `[M]`."""
        over = torch.sum if self.sums else torch.mean
        negative, energy = (over(each, -1).mean(-1) for each in ((-z).relu(), z.square()))
        return self.lambda_n * negative + self.lambda_a * energy


def weight_energy(nets: Nets) -> Tensor:
    """Σ_l ‖W_l‖² over all layers of the encoder and decoder, `[M]`."""
    assert nets.weights is not None, "weights are only available in training"
    weights = [*nets.weights("encoder"), *nets.weights("decoder")]
    return torch.stack([each.float().square().flatten(1).sum(1) for each in weights]).sum(0)
