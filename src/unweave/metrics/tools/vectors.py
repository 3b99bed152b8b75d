"""Codes whose latents are vectors: one number per vector, so that any metric can score them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.io.arrays import on_host
from unweave.metrics.base import MetricError, check_codes
from unweave.text import shown

__all__ = ["grouped"]


def grouped(codes: Any, groups: int | Sequence[Sequence[int]] | None = None) -> np.ndarray:
    """Replace each group of latents by its first principal component.

        g_i = u_iᵀ (z_i - E z_i),    u_i the direction of the largest variance of the vector z_i

    Methods with vector-valued latents, such as disentangling diffusion models, are scored in this
    way: metrics expect one number per latent.

    Args:
        codes: Codes `[n, d]`, or vectors `[n, G, w]`.
        groups: The latents of each group, such as `[[0, 1], [2, 5]]`, or the number of groups if
            they are neighbours of equal size. Latents in no group are left out. Not needed for
            vectors.

    Returns:
        Codes float64 `[n, G]`, one column per group. The sign of a column is such that the largest
        weight in u is positive. Constant groups give zeros.

    References:
        Yang et al., DisDiff: Unsupervised Disentanglement of Diffusion Probabilistic Models,
        arXiv:2301.13721.

    Example:
        >>> import unweave as uw
        >>> factors = np.indices((4, 5)).reshape(2, -1).T
        >>> vectors = factors[:, :, None] * [1.0, -2.0, 0.5]  # three numbers for each factor
        >>> codes = grouped(vectors)
        >>> codes.shape
        (20, 2)
        >>> uw.metrics.dci(vectors.reshape(20, 6), factors)["completeness"] < 1
        True
        >>> uw.metrics.mig(codes, factors)["mig"]
        1.0
    """
    array = on_host(codes)
    if array.ndim == 3 and groups is None and 0 not in array.shape:
        groups, array = array.shape[1], array.reshape(len(array), -1)
    elif groups is None:
        wanted = "be given for codes [n, d]; only vectors [n, G, w] need none"
        raise MetricError(f"groups must {wanted}", subject="groups")
    checked = check_codes(array).astype(np.float64)
    columns = _columns(groups, checked.shape[1])
    return np.stack([_first_component(checked[:, chosen]) for chosen in columns], 1)


def _columns(groups: Any, d: int) -> list[list[int]]:
    """Return the latents of each group."""
    if isinstance(groups, int | np.integer):
        if groups < 1 or d % groups:
            raise MetricError.expected("groups", f"divide the {d} latents evenly", groups)
        return np.arange(d).reshape(groups, -1).tolist()
    columns = [list(group) for group in groups]
    flat = [latent for group in columns for latent in group]
    valid = all(isinstance(latent, int | np.integer) and 0 <= latent < d for latent in flat)
    if not columns or not all(columns) or not valid or len(set(flat)) < len(flat):
        wanted = f"list latents from 0 to {d - 1}, each at most once and none empty"
        raise MetricError(
            f"groups must {wanted}, got {shown(groups)}", subject="groups", value=groups
        )
    return columns


def _first_component(vectors: np.ndarray) -> np.ndarray:
    """Return the projection of centred vectors `[n, w]` on their main direction, `[n]`."""
    centred = vectors - vectors.mean(0)
    # The eigenvectors of a covariance are as long as the vector, however many rows there are.
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    largest = direction[np.abs(direction).argmax()]
    return np.asarray(centred @ direction * np.sign(largest))
