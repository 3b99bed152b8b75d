"""Rankings by agreement with other models: linear CKA, MCC of matched latents, and DtO."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unweave.analysis.latents import Latents
from unweave.analysis.maps import dto_pairs
from unweave.models.images import NUM_SAMPLED
from unweave.select.latents import latents_of
from unweave.select.ranking import partners, quantile_over_compared, rank, reasons_of
from unweave.text import counted

if TYPE_CHECKING:
    from unweave.data.dataset import Dataset
    from unweave.models.finding import Models

__all__ = ["cka", "cka_pairs", "correlations", "dto", "match", "mcc", "mcc_pairs"]


def cka(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = NUM_SAMPLED,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by their median linear CKA with other models, without labels.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: Data set for trained models to encode.
        compare: `"all"` (default), or `"same"` to compare models of the same hyperparameters.
        rows: Number of images for trained models to encode.
        seed: Random seed for sampling images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Notes:
        CKA is invariant to rotation: it shows that models encode the same information, not that
        they encode it in the same latents. Combine it with `udr` or `mcc`.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(3, 1000, 2))
        >>> z[1] = z[0] @ np.array([[0.6, 0.8], [-0.8, 0.6]])
        >>> cka(z[:2])["score"].round(6).tolist()
        [1.0, 1.0]
    """
    latents = latents_of(models, data, rows, seed)
    reason = "encodes the same as {others}: median CKA {score:.2f}"
    return _by_agreement(latents, cka_pairs(latents), compare, reason)


def cka_pairs(latents: Latents) -> np.ndarray:
    """Compute the linear CKA of every pair of models, `[M, M]`.

        CKA_ij = ‖Z_iᵀ Z_j‖² / (‖Z_iᵀ Z_i‖ ‖Z_jᵀ Z_j‖),    Frobenius norms, columns centred

    Args:
        latents: Codes of the models; uninformative latents are ignored.

    Returns:
        1 for codes that are equal up to rotation and a common scale; 0 if a model has no
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


def mcc(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = NUM_SAMPLED,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by their median MCC with other models, without labels.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: Data set for trained models to encode.
        compare: `"all"` (default), or `"same"` to compare models of the same hyperparameters.
        rows: Number of images for trained models to encode.
        seed: Random seed for sampling images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2))
        >>> mixed = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> mcc(np.stack([mixed, z, -z[:, ::-1] ** 3, z]))["run"].tolist()
        ['1', '2', '3', '0']
    """
    latents = latents_of(models, data, rows, seed)
    reason = "latents match those of {others}: median rank correlation {score:.2f}"
    return _by_agreement(latents, mcc_pairs(latents), compare, reason)


def mcc_pairs(latents: Latents) -> np.ndarray:
    """Compute the mean correlation of matched latents for every pair of models, `[M, M]`.

        MCC_ij = Σ_a |corr(rank z_a^i, rank z_π(a)^j)| / max(d_i, d_j),    π with the largest sum

    Args:
        latents: Codes of the models; only informative latents are matched.

    Notes:
        If both models have the same number of latents, this is `uw.metrics.mcc` with the latents
        of one model as the factors. Latents without a partner count as 0.

    References:
        Hyvärinen and Morioka, Unsupervised Feature Extraction by Time-Contrastive Learning,
        arXiv:1605.06336.
    """
    strength = np.abs(correlations(latents))
    counts = latents.informative.sum(1)
    pairs = np.zeros((len(latents), len(latents)))
    for i in range(len(latents)):
        for j in range(i + 1):
            between = strength[i, :, j]
            # Uninformative latents have correlation 0 and do not change the sum.
            total = between[match(between)].sum()
            pairs[i, j] = pairs[j, i] = total / max(counts[i], counts[j], 1)
    return pairs


def correlations(latents: Latents) -> np.ndarray:
    """Compute the rank correlation of all pairs of latents, `[M, d, M, d]`; 0 if uninformative."""
    num_models, n, d = latents.ranked.shape
    together = latents.ranked.transpose(1, 0, 2).reshape(n, num_models * d)
    return (together.T @ together / n).reshape(num_models, d, num_models, d)


def match(strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match rows and columns one to one so that the sum of their entries is largest.

    Example:
        >>> match(np.array([[0.9, 0.8], [0.7, 0.1]]))
        (array([0, 1]), array([1, 0]))
    """
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(strength, maximize=True)


def dto(
    models: "Latents | Models | Any",
    data: "Dataset | str | None" = None,
    *,
    compare: str = "all",
    rows: int = NUM_SAMPLED,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank models by the median distance of linear maps to signed permutations; lower is better.

        A_ij = argmin_A Σ_x ‖A z^i - z^j‖²,    score_j = median_i ‖A_ij - P(A_ij)‖_F / √d

    P(A) is the nearest signed permutation. A map of zeros has distance 1 for any number of
    latents.

    Args:
        models: `Latents`, an array of codes `[M, n, d]`, or trained models.
        data: Data set for trained models to encode.
        compare: `"all"` (default), or `"same"` to compare models of the same hyperparameters.
        rows: Number of images for trained models to encode.
        seed: Random seed for sampling images.

    Returns:
        A row per model, best first: `run`, `score`, `reason`, `model`, `informative`, `compared`.

    Notes:
        The paper maps raw codes, including passive latents, and its two definitions
        (see `distance_to_orthogonality`) depend on d, which a ranking must not. Therefore codes
        are standardised, only informative latents are mapped, and the distance is divided by √d.
        If two models have different numbers of informative latents, the matrix is padded with
        zeros: each latent without a partner adds 1 to the squared distance.

    References:
        Improving the Unsupervised Disentangled Representation Learning with VAE Ensemble, under
        review 2020.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 2))
        >>> mixed = z @ np.array([[0.8, 0.6], [-0.6, 0.8]])
        >>> dto(np.stack([mixed, z, -3 * z[:, ::-1], z]))["score"].round(2).tolist()
        [0.0, 0.0, 0.0, 0.63]
    """
    latents = latents_of(models, data, rows, seed)
    reason = "maps from {others} have a median distance of {score:.2f} to signed permutations"
    return _by_agreement(latents, dto_pairs(latents), compare, reason, higher_is_better=False)


def _by_agreement(
    latents: Latents,
    pairs: np.ndarray,
    compare: str,
    reason: str,
    higher_is_better: bool = True,
) -> pd.DataFrame:
    """Rank models by the median of their pairs `[M, M]`, score_j = median_i pairs_ij.

    `reason` is a format string for the `score` and the `others`, the models compared with.
    """
    compared = partners(latents, compare)
    score, num_compared = quantile_over_compared(pairs, compared), compared.sum(0)
    reasons = [
        reason.format(score=value, others=counted(int(others), "other model"))
        for value, others in zip(score, num_compared, strict=True)
    ]
    return rank(
        latents.runs,
        score,
        reasons_of(latents, compared, reasons),
        higher_is_better,
        informative=latents.informative.sum(1),
        compared=num_compared,
    )
