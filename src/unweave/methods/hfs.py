"""HFS: pairs of latents should have a factorised support, whatever their correlation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unweave.methods.add_on import AddOn
from unweave.methods.base import Nets, Strength
from unweave.methods.batch import Batch, Posterior
from unweave.methods.settings import check_integer
from unweave.random import Stream

__all__ = ["HFS", "hausdorff"]


@dataclass(frozen=True, kw_only=True)
class HFS(AddOn):
    """HFS: add a penalty on the Hausdorff distance to a factorised support to another method.

        L = L_host + γ Σ_(a,b) max_ij min_k [(μ_ia - μ_ka)² + (μ_jb - μ_kb)²]

    for random pairs (a, b) of latents and the posterior means μ_k of a batch. The distance is 0 if
    every combination of a value of latent a with a value of latent b occurs in the batch. Unlike
    independence, this does not forbid correlated factors.

    Args:
        gamma: Weight of the distance, γ.
        host: Method to which the distance is added: `"beta_vae"`, `"beta_tc_vae=4"` with its first
            strength, or `"beta_tc_vae beta=4 alpha=2"`.
        pairs: Number of random pairs of latents per step; the sum is over all pairs if there are
            fewer.

    Notes:
        Distances are squared, as in the published code, and gradients also reach the combinations
        (i, j). One triple (i, j, k) per pair has a gradient: it is found without a graph, and its
        distance is then computed again. The paper combines β from 0 to 16 with γ from 0.1 to 1e4.
        With `host="beta_vae=0"`, codes can shrink to reduce the distance. Values depend on the
        batch size, so compare models at the same one.

    References:
        Roth et al., Disentanglement of Correlated Factors via Hausdorff Factorized Support,
        arXiv:2210.07347.
    """

    name = "hfs"
    label = "HFS"
    term = "hausdorff"

    gamma: Strength = 10.0
    pairs: int = 25

    def check(self) -> None:
        super().check()
        check_integer(self, "pairs", 1)

    def penalty(self, nets: Nets, batch: Batch, posterior: Posterior, z: Tensor) -> Tensor:
        del nets, z
        one, two = random_pairs(posterior.mu.shape[-1], self.pairs, batch.stream("hfs pairs"))
        codes = posterior.mu
        return hausdorff(*(codes.gather(-1, _rows(place, codes)) for place in (one, two))).sum(-1)


def random_pairs(latents: int, count: int, stream: Stream) -> tuple[Tensor, Tensor]:
    """Sample pairs of different latents without replacement, two index tensors `[M, pairs]`."""
    one, two = torch.triu_indices(latents, latents, 1, device=stream.seeds.device)
    chosen = stream.words(1, len(one))[:, 0].argsort(-1)[:, :count]
    return one[chosen], two[chosen]


def hausdorff(a: Tensor, b: Tensor) -> Tensor:
    """Return max_ij min_k [(a_i - a_k)² + (b_j - b_k)²] of each pair of latents.

    Args:
        a: Values of the first latent of each pair, `[M, B, pairs]`.
        b: Values of the second latent, `[M, B, pairs]`.

    Returns:
        Distances `[M, pairs]`.

    Example:
        >>> corners = torch.tensor([0.0, 1.0])[None, :, None]
        >>> hausdorff(corners, corners)
        tensor([[1.]])
    """
    with torch.no_grad():
        triples = [_triple(a[..., pair], b[..., pair]) for pair in range(a.shape[-1])]
    if not triples:
        return a.new_zeros(len(a), 0)
    i, j, k = (torch.stack(places, -1)[:, None] for places in zip(*triples, strict=True))
    distance = (a.gather(1, i) - a.gather(1, k)) ** 2 + (b.gather(1, j) - b.gather(1, k)) ** 2
    return distance[:, 0]


def _triple(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the indices i, j, k at which the distance of a pair `[M, B]` is attained, `[M]`."""
    of_a, of_b = ((x[:, :, None] - x[:, None]) ** 2 for x in (a, b))
    nearest = (of_a[:, :, None] + of_b[:, None]).amin(-1)  # [M, i, j]
    farthest = nearest.flatten(1).argmax(-1)
    i, j = farthest // a.shape[1], farthest % a.shape[1]
    models = torch.arange(len(a), device=a.device)
    return i, j, (of_a[models, i] + of_b[models, j]).argmin(-1)


def _rows(places: Tensor, codes: Tensor) -> Tensor:
    """Repeat indices `[M, pairs]` for all images of codes `[M, B, d]`."""
    return places[:, None].expand(-1, codes.shape[1], -1)
