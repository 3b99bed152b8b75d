"""DtO: how far the best linear map between two models is from a signed permutation."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from unweave.analysis.latents import Latents
from unweave.analysis.maps import dto_pairs
from unweave.models.drawn_images import NUM_DRAWN
from unweave.select.agreement import by_agreement
from unweave.select.latents import latents_of

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["dto"]


def dto(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = NUM_DRAWN,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by the median distance to orthogonality of linear maps; less is better.

        A_ij = argmin_A Σ_x ‖A z^i - z^j‖²,    score_j = median_i ‖A_ij - P(A_ij)‖_F / √d

    P(A) is the nearest signed permutation. A map of zeros has distance 1, whatever the number of
    latents.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: What trained models encode.
        compare: `"all"`, or `"same"` hyperparameters.
        rows: How many images trained models encode.
        seed: Of the draw of images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Notes:
        The paper maps codes as they are, passive latents included, and its two definitions
        (see `distance_to_orthogonality`) depend on d; a ranking must not. So codes are
        standardised, only informative latents are mapped, and the distance is divided by √d. The
        matrix of two models with different numbers of informative latents is filled up with
        zeros: each latent without partner adds 1 to the squared distance.

    References:
        Improving the Unsupervised Disentangled Representation Learning with VAE Ensemble, under
        review 2020.

    Example:
        >>> import numpy as np
        >>> z = np.random.default_rng(0).normal(size=(1000, 2))
        >>> mixed = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> dto(np.stack([mixed, z, -3 * z[:, ::-1], z]))["score"].round(2).tolist()
        [0.0, 0.0, 0.0, 0.63]
    """
    latents = latents_of(models, data, rows, seed)
    return by_agreement(
        latents,
        dto_pairs(latents),
        compare,
        lambda score, others: (
            f"maps from {others} are {score:.2f} away from signed permutations in the median"
        ),
        higher_is_better=False,
    )
