"""Codes of VAE ensembles: alignment of members and their agreement."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import KL, VARIANCE, kl_in_use
from unweave.analysis.latents import MIN_CORRELATION, SelectionError
from unweave.analysis.maps import nearest_signed_permutation
from unweave.io.arguments import renamed_attribute

if TYPE_CHECKING:
    from unweave.models.model import Model

__all__ = ["Aligned", "aligned_codes", "aligned_posteriors", "member_agreement"]

ALIGNMENTS = ("permutations", "maps")


@dataclass(frozen=True, eq=False)
class Aligned:
    """Posteriors of all members for the same images, aligned with the latents of the first.

    Shapes: n members, d latents.

    Args:
        means: Posterior means, `[n, images, d]`.
        logvars: Posterior log-variances, `[n, images, d]`.
        permutations: Signed permutations from each member's latents to those of the first,
            `[n, d, d]`.
    """

    means: np.ndarray
    logvars: np.ndarray
    permutations: np.ndarray
    ways = renamed_attribute("ways", "permutations")

    @property
    def latents(self) -> np.ndarray:
        """Index of the latent of each member that matches latent l of the first, `[n, d]`."""
        return np.abs(self.permutations).argmax(2)

    @property
    def signs(self) -> np.ndarray:
        """Sign of the matching latent of each member, 1 or -1, `[n, d]`."""
        return self.permutations.sum(2).astype(int)

    @property
    def mean(self) -> np.ndarray:
        """Code of the ensemble: the mean over members, `[images, d]`."""
        return self.means.mean(0)

    @property
    def logvar(self) -> np.ndarray:
        """Logarithm of the mean variance over members, `[images, d]`."""
        return np.log(np.exp(self.logvars).mean(0))

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation of the means over members, `[images, d]`."""
        return self.means.std(0)

    @cached_property
    def agreement(self) -> np.ndarray:
        """Agreement of members on each latent, `[d]`; see `member_agreement`."""
        return member_agreement(self.means)

    @cached_property
    def varies(self) -> np.ndarray:
        """Whether the mean of a latent has a variance above 0.01 in each member, `[n, d]`."""
        return VARIANCE.holds(self.means.var(1, dtype=np.float64))

    @cached_property
    def active(self) -> np.ndarray:
        """Whether a latent is active in each member, by the criterion `kl`, `[n, d]`."""
        means, logvars = self.means.astype(np.float64), self.logvars.astype(np.float64)
        return KL.holds(kl_in_use(means, logvars, standard_noise=False))

    @property
    def used(self) -> np.ndarray:
        """Whether a latent is active in any member, `[d]`."""
        return np.asarray(self.active.any(0))

    @property
    def verdicts(self) -> list[str]:
        """For each latent: `"agree"`, `"disagree"`, or `"unused"` if no member uses it."""
        agreed = self.agreement >= MIN_CORRELATION
        return [
            str(v) for v in np.where(self.used, np.where(agreed, "agree", "disagree"), "unused")
        ]

    def only(self, images: np.ndarray) -> "Aligned":
        """Restrict to some images, given a mask `[images]`."""
        return Aligned(self.means[:, images], self.logvars[:, images], self.permutations)

    def own(self, member: int, codes: np.ndarray) -> np.ndarray:
        """Convert aligned codes `[…, d]` to the latents of a member."""
        return codes @ self.permutations[member].astype(codes.dtype)


def aligned_posteriors(model: "Model", images: Any, *, seed: int = 0) -> Aligned:
    """Encode images with all members and align their latents with those of the first.

    Latents are permuted and their signs flipped by the signed permutation nearest to the learned
    map, so that each aligned latent is one latent of its member.

    Args:
        model: Ensemble of at least two members.
        images: Images or a data set, as for `Model.encode`.
        seed: Random seed of the images; see `Model.encode`.
    """
    permutations = signed_permutations(model)
    if len(permutations) < 2:
        raise SelectionError(
            "agreement needs an ensemble of at least 2 members, got 1; train with members=2 or "
            "more",
            subject="members",
            value=len(permutations),
        )
    found = [model.encode(images, seed, member) for member in range(len(permutations))]
    means, logvars = zip(*found, strict=True)
    return Aligned(
        np.stack([mean @ matrix.T for mean, matrix in zip(means, permutations, strict=True)]),
        np.stack(
            [
                logvar @ np.abs(matrix).T
                for logvar, matrix in zip(logvars, permutations, strict=True)
            ]
        ),
        permutations,
    )


def signed_permutations(model: "Model") -> np.ndarray:
    """Return P(M_i0), from each member's latents to those of the first, float32 `[n, d, d]`."""
    found = [nearest_signed_permutation(learned) for learned in _maps_to_first(model)]
    return np.stack(found).astype(np.float32)


def _maps_to_first(model: "Model") -> np.ndarray:
    to_first = model.maps[:, 0]
    unmapped = np.flatnonzero(np.isnan(to_first).any((1, 2)))
    if len(unmapped):
        raise SelectionError(
            f"member {unmapped[0]} has no map to member 0; train the ensemble with neighbours=-1",
            subject="maps",
        )
    return to_first


def aligned_codes(
    model: "Model", images: Any, *, by: str = "permutations", seed: int = 0
) -> np.ndarray:
    """Return the mean codes of all members, aligned with the latents of the first.

        permutations   P(M_i0) z_i,  the nearest signed permutation to the learned map
        maps           M_i0 z_i

    Their mean over members, `aligned_codes(model, images).mean(0)`, is the code of the ensemble.

    Args:
        model: An ensemble.
        images: Images or a data set, as for `Model.encode`.
        by: `"permutations"` (default), which only permutes latents and flips signs, or `"maps"`,
            which mixes latents by the learned maps.
        seed: Random seed of the images; see `Model.encode`.

    Returns:
        Codes, float32 `[members, images, d]`; those of the first member are unchanged.
    """
    if by not in ALIGNMENTS:
        raise SelectionError(f"by must be one of {', '.join(ALIGNMENTS)}, got {by!r}")
    maps = signed_permutations(model) if by == "permutations" else _maps_to_first(model)
    return np.stack(
        [model.encode(images, seed, member)[0] @ matrix.T for member, matrix in enumerate(maps)]
    )


def member_agreement(aligned: Any) -> np.ndarray:
    """Compute the mean correlation of each latent of the first member with the others, `[d]`.

        agreement_l = 1 / (n - 1) Σ_i corr(z_0l, z_il)

    Correlations with constant latents count as 0. Signs matter: a latent whose sign disagrees with
    its map does not count as agreement.

    Args:
        aligned: Codes `[members, images, d]` from `aligned_codes`.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(1000, 3))
        >>> noise = np.random.default_rng(1).normal(size=(1000, 3))
        >>> member_agreement([z, z * 2 + 1, z + noise * [0, 1, 100]]).round(1).tolist()
        [1.0, 0.9, 0.5]
    """
    codes = np.asarray(aligned, np.float64)
    if codes.ndim != 3 or len(codes) < 2:
        raise SelectionError(
            "aligned must be codes [members, images, d] of at least 2 members, got the shape "
            f"{list(codes.shape)}",
            subject="aligned",
            value=codes.shape,
        )
    centred = codes - codes.mean(1, keepdims=True)
    spread = np.sqrt((centred**2).mean(1))
    covariance = (centred[:1] * centred[1:]).mean(1)
    scale = spread[:1] * spread[1:]
    constant = scale <= np.finfo(np.float32).eps ** 2
    return np.where(constant, 0.0, covariance / np.where(constant, 1.0, scale)).mean(0)
