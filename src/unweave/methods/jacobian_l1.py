"""Jacobian L1: each latent should affect few pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.add_on import AddOn
from unweave.methods.base import Nets, Strength
from unweave.methods.batch import Batch, Posterior

__all__ = ["JacobianL1"]

WIDTH = 0.1
"""Width of finite differences, in standard deviations of the latent."""
TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class JacobianL1(AddOn):
    """Jacobian L1: add an L1 penalty on the decoder's Jacobian to another method.

        L = L_host + α E[d/P Σ_p |J_pl|],    J_l = [g(z + h σ_l e_l) - g(z - h σ_l e_l)] / 2h

    with the mean image g(z) of P numbers, a random latent l for each image and step, the standard
    deviation σ_l of that latent over the batch, and h = 0.1. The expected value is the mean
    absolute derivative of a pixel, summed over latents. It prefers latents that affect few pixels.

    Args:
        alpha: Weight of the penalty, α.
        host: Method to which the penalty is added: `"beta_vae"`, `"beta_tc_vae=4"` with its first
            strength, or `"beta_tc_vae beta=4 alpha=2"`.

    Notes:
        Derivatives are relative to σ_l; otherwise, large codes and small weights of the decoder
        would reduce the penalty. A step has two decoder passes more than one of the host,
        computed as one batch. The paper states neither the estimator nor the weight for images;
        these are ours. The penalty is averaged over pixels, unlike the reconstruction error: with
        the default α it is small.

    References:
        Zheng et al., Diverse Dictionary Learning, arXiv:2604.17568 (dependency sparsity).
    """

    name = "jacobian_l1"
    label = "Jacobian L1"
    term = "jacobian"

    alpha: Strength = 0.05

    def penalty(self, nets: Nets, batch: Batch, posterior: Posterior, z: Tensor) -> Tensor:
        del posterior
        count, latents = z.shape[1:]
        chosen = batch.stream("jacobian").integers(latents, count, 1)
        sigma = z.float().var(1, correction=0, keepdim=True).clamp_min(TINY).sqrt()
        step = WIDTH * sigma * (chosen == torch.arange(latents, device=z.device))
        sides = nets.mean(nets.decode(torch.cat([z + step, z - step], 1)).float())
        above, below = sides.flatten(2).chunk(2, 1)
        return latents * ((above - below) / (2 * WIDTH)).abs().mean((1, 2))
