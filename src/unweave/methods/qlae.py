"""QLAE: an autoencoder whose latents take values from learned codebooks."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, Strength
from unweave.methods.batch import Batch
from unweave.methods.mixins import Quantised, QuantisedCodes, share_in_use, straight_through
from unweave.methods.settings import check_integer
from unweave.nets.adam import Adam
from unweave.nets.layers import Offsets
from unweave.nets.network import Network

__all__ = ["QLAE", "nearest"]

CODEBOOK = "codebook"
REACH = 0.5
"""Largest initial value of a codebook; the smallest is -REACH."""
MAX_VALUES = 1_024


@dataclass(frozen=True, kw_only=True)
class QLAE(Quantised, Method):
    """QLAE: an autoencoder whose latents take values from learned codebooks.

        L = -log p(x|q) / P + λ_q E_j[(sg(c_j) - q_j)²] + λ_c E_j[(c_j - sg(q_j))²]

        q_j = v_j,k_j,    k_j = argmin_k |c_j - v_jk|

    with P pixel values per image, means over the batch, E_j the mean over latents, and sg the
    stop-gradient. The code c is the output of the encoder. Latent j has its own codebook v_j of a
    few numbers, initially equally spaced from -½ to ½. Gradients of the reconstruction pass
    straight through the quantiser, from q to c. Codebooks learn from λ_q alone. All latents take
    few values, and each value means the same in any combination with others; together with strong
    weight decay, this favours one latent per factor.

    Args:
        values: Number of values of each latent.
        lambda_q: Weight of the quantisation error in the training of codebooks, λ_q. Adam is
            invariant to the scale of gradients, so its size hardly matters.
        lambda_c: Weight of the commitment of codes to their values, λ_c.

    Notes:
        Published settings: twice as many latents as factors, batches of 128, 200,000 steps,
        `uw.Adam(lr=1e-3, weight_decay=0.1, clip=1)` (weight decay 0.001 on MPI3D), the
        architecture `style_conv`. As in the published code, weight decay and clipping do not apply
        to biases and codebooks. Codebooks have their own Adam, with learning rate 1e-3. The loss
        is divided by P, so that published weights and clipping apply. The decoder receives exactly
        q in training; c + sg(q - c) as in the published code differs from it by rounding.

    References:
        Hsu, Dorrell, Whittington, Wu & Finn, Disentanglement via Latent Quantization,
        arXiv:2305.18378.
    """

    name = "qlae"
    label = "QLAE"
    deterministic = True

    values: int = 10
    lambda_q: Strength = 0.01
    lambda_c: Strength = 0.01

    def check(self) -> None:
        check_integer(self, "values", 2, MAX_VALUES)

    def extra_networks(self, latents: int) -> NetworkGroups:
        return {CODEBOOK: {CODEBOOK: Network((Offsets(latents * self.values),))}}

    def extra_optimisers(self) -> Mapping[str, Adam]:
        return {CODEBOOK: Adam(lr=1e-3)}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        c = nets.encode(batch.images).mu
        v = self._codebooks(nets, c)
        index = nearest(c, v)
        q = chosen(v, index)
        reconstruction = nets.reconstruction(straight_through(c, q), batch.images)
        of_values = (c.detach() - q).square().mean((1, 2))
        of_codes = (c - q.detach()).square().mean((1, 2))
        pixels = batch.images.shape[2:].numel()
        codebook_loss = self.lambda_q * of_values
        loss = reconstruction / pixels + codebook_loss.detach() + self.lambda_c * of_codes
        terms = {
            "reconstruction": reconstruction,
            "quantisation": of_values,
            "usage": share_in_use(index, self.values),
        }
        return Losses({MODEL: loss, CODEBOOK: codebook_loss}, terms)

    def quantised(self, nets: Nets, images: Tensor) -> QuantisedCodes:
        c = nets.encode(images).mu
        v = self._codebooks(nets, c)
        index = nearest(c, v)
        return QuantisedCodes(chosen(v, index), index, c)

    def codebook(self, latents: int, parameters: Mapping[str, Tensor]) -> Tensor:
        offsets = parameters[f"{CODEBOOK}/0.offset"].reshape(latents, self.values)
        return torch.linspace(-REACH, REACH, self.values, device=offsets.device) + offsets

    def _codebooks(self, nets: Nets, codes: Tensor) -> Tensor:
        """Return the codebooks `[M, d, V]` for codes `[M, B, d]`."""
        models, _, latents = codes.shape
        start = torch.linspace(-REACH, REACH, self.values, dtype=codes.dtype, device=codes.device)
        values = nets.apply[CODEBOOK](start.repeat(models, 1, latents))
        return values.view(models, latents, self.values)


def nearest(codes: Tensor, codebook: Tensor) -> Tensor:
    """Return the index of the nearest value in `[M, d, V]` of each code, int64 `[M, B, d]`."""
    return (codes.detach()[..., None] - codebook.detach()[:, None]).abs().argmin(-1)


def chosen(codebook: Tensor, index: Tensor) -> Tensor:
    """Return the values `[M, B, d]` in a codebook `[M, d, V]` by their indices.

    The sum has a deterministic gradient on a GPU, unlike `gather`.
    """
    places = torch.arange(codebook.shape[-1], device=index.device)
    return ((index[..., None] == places) * codebook[:, None]).sum(-1)
