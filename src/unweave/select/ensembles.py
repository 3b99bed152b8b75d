"""What the members of one VAE ensemble say together: codes in one order, and where they agree."""

from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.select.dto import nearest_signed_permutation
from unweave.select.latents import SelectionError

if TYPE_CHECKING:
    from unweave.fleet.models import Model

__all__ = ["aligned_codes", "member_agreement"]

WAYS = ("permutations", "maps")


def aligned_codes(
    model: "Model", images: Any, *, by: str = "permutations", seed: int = 0
) -> np.ndarray:
    """The mean codes of all members, with the latents of each as those of the first.

        permutations   P(M_i0) z_i,  the nearest signed permutation to the learned map
        maps           M_i0 z_i

    Their mean over members, `aligned_codes(model, images).mean(0)`, is the code of the ensemble.

    Args:
        model: An ensemble.
        images: What `Model.encode` takes: images, or a data set.
        by: `"permutations"`, which only reorder latents and turn their signs, so that a latent
            stays one latent of its member; or `"maps"`, which mix latents as training did.
        seed: See `Model.encode`.

    Returns:
        float32 `[members, images, d]`; those of the first member are as they are.
    """
    if by not in WAYS:
        raise SelectionError(f"members are aligned by one of {', '.join(WAYS)}, not {by!r}")
    to_first = model.maps[:, 0]
    lost = np.flatnonzero(np.isnan(to_first).any((1, 2)))
    if len(lost):
        raise SelectionError(
            f"member {lost[0]} has no map to member 0; train the ensemble with neighbours=-1"
        )
    aligned = []
    for member, learned in enumerate(to_first):
        way = nearest_signed_permutation(learned) if by == "permutations" else learned
        codes, _ = model.encode(images, seed, member)
        aligned.append(codes @ way.T.astype(np.float32))
    return np.stack(aligned)


def member_agreement(aligned: Any) -> np.ndarray:
    """How far other members have each latent of the first: mean correlation over them, `[d]`.

        agreement_l = 1 / (n - 1) Σ_i corr(z_0l, z_il)

    A latent that does not vary, in the first or in another member, has correlation 0 with it. It
    is not the absolute value: a latent whose sign is not that of its map is not agreed on.

    Args:
        aligned: Codes `[members, images, d]`, as `aligned_codes` gives them.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 3))
        >>> noise = np.random.default_rng(1).normal(size=(1000, 3))
        >>> member_agreement([z, z * 2 + 1, z + noise * [0, 1, 100]]).round(1).tolist()
        [1.0, 0.9, 0.5]
    """
    codes = np.asarray(aligned, np.float64)
    if codes.ndim != 3 or len(codes) < 2:
        raise SelectionError(
            f"agreement needs codes [members, images, d] of at least two members, but got "
            f"{list(codes.shape)}"
        )
    centred = codes - codes.mean(1, keepdims=True)
    spread = np.sqrt((centred**2).mean(1))
    together = (centred[:1] * centred[1:]).mean(1)
    scale = spread[:1] * spread[1:]
    constant = scale <= np.finfo(np.float32).eps ** 2
    return np.where(constant, 0.0, together / np.where(constant, 1.0, scale)).mean(0)
