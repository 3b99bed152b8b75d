"""Linear CKA: whether two models know the same, in whatever direction of their codes."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.models.drawn_images import NUM_DRAWN
from unweave.select.agreement import by_agreement
from unweave.select.latents import latents_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["cka", "cka_pairs"]


def cka(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = NUM_DRAWN,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by the median of their linear CKA with others; no labels are used.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: What trained models encode.
        compare: `"all"`, or `"same"` hyperparameters.
        rows: How many images trained models encode.
        seed: Of the draw of images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Notes:
        CKA does not see rotations: it says that models know the same, not that they keep it in
        the same latents. Read it beside `udr` or `mcc`.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(3, 1000, 2))
        >>> z[1] = z[0] @ np.array([[0.6, 0.8], [-0.8, 0.6]])
        >>> cka(z[:2])["score"].round(6).tolist()
        [1.0, 1.0]
    """
    latents = latents_of(models, data, rows, seed)
    return by_agreement(
        latents,
        cka_pairs(latents),
        compare,
        lambda score, others: f"knows what {others} know: median CKA {score:.2f}",
    )


def cka_pairs(latents: Latents) -> np.ndarray:
    """Linear CKA of every two models, `[M, M]`.

        CKA_ij = ‖Z_iᵀ Z_j‖² / (‖Z_iᵀ Z_i‖ ‖Z_jᵀ Z_j‖),    Frobenius norms, columns centred

    Args:
        latents: The models; uninformative latents do not count.

    Returns:
        1 for codes that are equal up to rotation and one common scale; 0 where a model has no
        informative latent.

    References:
        Kornblith et al., Similarity of Neural Network Representations Revisited,
        arXiv:1905.00414.
    """
    num_models, n, d = latents.centred.shape
    together = latents.centred.transpose(1, 0, 2).reshape(n, num_models * d)
    shared = np.stack(
        [
            ((codes.T @ together).reshape(d, num_models, d) ** 2).sum((0, 2))
            for codes in latents.centred
        ]
    )
    own = np.sqrt(shared.diagonal())
    norms = own[:, None] * own
    return shared / np.where(norms > 0, norms, 1.0)
