"""What the members of one VAE ensemble say together: codes in one order, and where they agree."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unweave.analysis.activity import KL, VARIANCE, kl_in_use
from unweave.analysis.latents import LEAST_CORRELATION, SelectionError
from unweave.analysis.maps import nearest_signed_permutation

if TYPE_CHECKING:
    from unweave.models.model import Model

__all__ = ["Aligned", "aligned_codes", "aligned_posteriors", "member_agreement"]

WAYS = ("permutations", "maps")


@dataclass(frozen=True, eq=False)
class Aligned:
    """Posteriors of all members for the same images, their latents as those of the first.

    Shapes: n members, d latents.

    Args:
        means: Posterior means, `[n, images, d]`.
        logvars: Posterior log-variances, `[n, images, d]`.
        ways: The signed permutation from each member's latents to those of the first, `[n, d, d]`.
    """

    means: np.ndarray
    logvars: np.ndarray
    ways: np.ndarray

    @property
    def latents(self) -> np.ndarray:
        """Which latent of each member is latent l of the first, `[n, d]`."""
        return np.abs(self.ways).argmax(2)

    @property
    def signs(self) -> np.ndarray:
        """Whether it points the same way, 1, or the other way, -1, `[n, d]`."""
        return self.ways.sum(2).astype(int)

    @property
    def mean(self) -> np.ndarray:
        """The code of the ensemble: the mean of its members' means, `[images, d]`."""
        return self.means.mean(0)

    @property
    def logvar(self) -> np.ndarray:
        """The logarithm of the mean of its members' variances, `[images, d]`."""
        return np.log(np.exp(self.logvars).mean(0))

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of the means over members, `[images, d]`."""
        return self.means.std(0)

    @cached_property
    def agreement(self) -> np.ndarray:
        """How far other members have each latent of the first, `[d]`; see `member_agreement`."""
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
        """Whether members `"agree"` on a latent, `"disagree"`, or nobody uses it, `"unused"`."""
        agreed = self.agreement >= LEAST_CORRELATION
        return [
            str(v) for v in np.where(self.used, np.where(agreed, "agree", "disagree"), "unused")
        ]

    def only(self, images: np.ndarray) -> "Aligned":
        """The same of some images, `[images]` true or false."""
        return Aligned(self.means[:, images], self.logvars[:, images], self.ways)

    def own(self, member: int, codes: np.ndarray) -> np.ndarray:
        """Codes `[…, d]` in the order of the first member, as a member has them."""
        return codes @ self.ways[member].astype(codes.dtype)


def aligned_posteriors(model: "Model", images: Any, *, seed: int = 0) -> Aligned:
    """What all members say of images, with the latents of each as those of the first.

    Latents are reordered and turned as the signed permutation nearest to the learned map says, so
    that a latent stays one latent of its member.

    Args:
        model: An ensemble of at least two members.
        images: What `Model.encode` takes: images, or a data set.
        seed: See `Model.encode`.
    """
    ways = signed_permutations(model)
    if len(ways) < 2:
        raise SelectionError(
            "this ensemble has one member, which has nobody to agree with; train one of two or "
            "more"
        )
    found = [model.encode(images, seed, member) for member in range(len(ways))]
    means, logvars = zip(*found, strict=True)
    return Aligned(
        np.stack([mean @ way.T for mean, way in zip(means, ways, strict=True)]),
        np.stack([logvar @ np.abs(way).T for logvar, way in zip(logvars, ways, strict=True)]),
        ways,
    )


def signed_permutations(model: "Model") -> np.ndarray:
    """P(M_i0) of each member, from its latents to those of the first, float32 `[n, d, d]`."""
    found = [nearest_signed_permutation(learned) for learned in _maps_to_first(model)]
    return np.stack(found).astype(np.float32)


def _maps_to_first(model: "Model") -> np.ndarray:
    to_first = model.maps[:, 0]
    lost = np.flatnonzero(np.isnan(to_first).any((1, 2)))
    if len(lost):
        raise SelectionError(
            f"member {lost[0]} has no map to member 0; train the ensemble with neighbours=-1"
        )
    return to_first


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
    ways = signed_permutations(model) if by == "permutations" else _maps_to_first(model)
    return np.stack(
        [model.encode(images, seed, member)[0] @ way.T for member, way in enumerate(ways)]
    )


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
