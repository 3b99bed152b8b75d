"""VAE ensemble: several VAEs whose codes must agree up to linear maps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from unweave.errors import UnknownNameError, UnweaveError
from unweave.methods.base import MODEL, Losses, Method, Nets, NetworkGroups, Strength
from unweave.methods.batch import Batch, Posterior, for_members
from unweave.methods.beta_tc_vae import BetaTCVAE
from unweave.methods.beta_vae import BetaVAE
from unweave.methods.dip_vae import DIPVAEI, DIPVAEII
from unweave.methods.mixins import Diagnostics, Ensemble
from unweave.methods.settings import check_integer
from unweave.methods.vae import VAE, Elbo
from unweave.nets.layers import Maps
from unweave.nets.network import Network
from unweave.text import shown

__all__ = ["EnsembleMember", "VAEEnsemble"]

MAPS = "maps"
MAX_MEMBERS = 16
ALL = -1
OBJECTIVES: dict[str, tuple[type[VAE], str]] = {
    "beta_vae": (BetaVAE, "beta"),
    "beta_tc_vae": (BetaTCVAE, "beta"),
    "dip_vae_i": (DIPVAEI, "lambda_od"),
    "dip_vae_ii": (DIPVAEII, "lambda_od"),
}
"""Supported objectives of members, with the field that `strength` sets."""


@dataclass(frozen=True, kw_only=True)
class VAEEnsemble(Ensemble, Diagnostics, Method):
    """VAE ensemble: several VAEs with linear maps between the codes of every pair.

        L = Σ_ij E[-log p_j(x | z_ij)] + Σ_i KL(q_i(z|x) ‖ N(0, I)) + γ Σ_ij E ‖z_jj - z_ij‖²

    for n members, with z_ii sampled from q_i(z|x), z_ij = M_ij z_ii, and M_ii = I. All members
    get the same images but different initial weights and noise. The reported terms
    `reconstruction` and `kl` are means over members, comparable with those of a single VAE;
    `cross_reconstruction` and `alignment` are means over pairs i ≠ j.

    Args:
        gamma: Weight of the alignment, γ; the paper uses 1, 5, 10.
        members: Number of members n, from 1 (a single model) to 16; the paper uses 2, 3, 4, 5.
        objective: Objective of each member: `"beta_vae"` (with strength 1 the VAE, as in the
            published ensemble), `"beta_tc_vae"`, `"dip_vae_i"` or `"dip_vae_ii"`; or a mixture
            that cycles through the members, `"beta_vae=1 + beta_tc_vae=4"`.
        strength: Value of β for the first two objectives, of λ_od for the others, unless the
            mixture states one; their other settings have default values.
        cross_reconstruction: Whether decoders also decode the codes of other members (i ≠ j in
            the first sum).
        alignment: Whether to include the alignment term (the last sum of the loss); without it,
            maps learn only from cross-reconstruction.
        stop_grad_target: Whether to stop the gradient of z_jj in the alignment term, so that it
            trains only M_ij and z_ii.
        neighbours: Number of other members to which each code is mapped, the next ones in cyclic
            order; -1 for all, as published.
        gamma_steps: Number of steps over which γ grows from 0 to its value; 0 for a constant γ,
            as published.

    Notes:
        A code is decoded n times but incurs one KL divergence, so the effective β is 1 / n:
        compare with single models of that β. An unused latent converges to
        σ² = 1 / (1 + 2 γ (n - 1)), since both sides of the alignment term are trained; it can be
        recognised by the variance of its mean. The paper states neither the initialisation of the
        maps nor whether they have a bias: here they are Glorot-uniform, without bias.

    References:
        Improving the Unsupervised Disentangled Representation Learning with VAE Ensemble, under
        review 2020.
    """

    name = "vae_ensemble"
    label = "VAE ensemble"
    standard_noise = False

    gamma: Strength = 10.0
    members: int = 3
    objective: str = "beta_vae"
    strength: Strength = 1.0
    cross_reconstruction: bool = True
    alignment: bool = True
    stop_grad_target: bool = False
    neighbours: int = ALL
    gamma_steps: int = 0

    def check(self) -> None:
        check_integer(self, "members", 1, MAX_MEMBERS)
        check_integer(self, "neighbours", ALL, MAX_MEMBERS - 1)
        check_integer(self, "gamma_steps", 0, 2**32)
        _mixture(self.objective)

    @property
    def num_members(self) -> int:
        return self.members

    @property
    def mapped(self) -> int:
        """Number of other members to which each code is mapped."""
        others = self.members - 1
        return others if self.neighbours == ALL else min(self.neighbours, others)

    def member_method(self) -> "Method":
        return EnsembleMember(**{f.name: getattr(self, f.name) for f in fields(self)})

    def extra_networks(self, latents: int) -> NetworkGroups:
        if not self.mapped:
            return {}
        return {MODEL: {MAPS: Network((Maps(self.mapped, latents),))}}

    def losses(self, nets: Nets, batch: Batch) -> Losses:
        own = batch.of_members()
        posterior = nets.encode(own.images)
        z, kl = posterior.sample_and_kl(own.noise("posterior", posterior.mu))
        codes = self.codes(nets, z)
        decoded = codes if self.cross_reconstruction else codes[:, :1]
        reconstruction = reconstructions(nets, decoded, own.images)
        elbo = Elbo(posterior, z, reconstruction[:, 0], kl.mean(-1))
        cross = reconstruction[:, 1:]
        target = z.detach() if self.stop_grad_target else z
        distance = (target[:, None] - codes[:, 1:]).square().sum(-1).mean(-1)
        loss = elbo.reconstruction + cross.sum(-1) + self.regularizer(elbo, own)
        loss = self.of_models(loss).sum(-1)
        if self.alignment:
            loss = loss + self.weight(batch.step) * self.of_models(distance).sum((-2, -1))
        terms = {
            "reconstruction": elbo.reconstruction,
            "cross_reconstruction": cross,
            "kl": elbo.kl,
            "alignment": distance,
        }
        return Losses(
            {MODEL: loss},
            {n: self.of_models(t).flatten(1).mean(-1) for n, t in terms.items() if t.numel()},
        )

    def diagnostic_names(self, latents: int) -> tuple[str, ...]:  # noqa: ARG002
        learned = ("dto_frobenius", "dto_mean_l1") if self.mapped else ()
        fitted = ("fit_dto_frobenius", "fit_dto_mean_l1", "fit_dto") if self.members > 1 else ()
        return learned + fitted

    def diagnostics(
        self,
        means: np.ndarray,
        logvars: np.ndarray,
        parameters: Mapping[str, Tensor],
    ) -> Sequence[float]:
        """Compute mean distances to orthogonality (DtO) over pairs i ≠ j.

        `dto_…` is for the learned maps, by both published definitions; `fit_dto_…` for
        least-squares maps between the members' codes, which also exist without learned maps;
        `fit_dto` for standardised codes of informative latents, divided by √d (`select.dto`).
        """
        from unweave.analysis.activity import kl_in_use
        from unweave.analysis.latents import Latents
        from unweave.analysis.maps import NORMS, dto_pairs, least_squares_maps, map_distances

        latents = Latents(means, kl=kl_in_use(means, logvars, self.standard_noise))
        if self.members == 1 or not latents.usable.all():
            return [math.nan] * len(self.diagnostic_names(means.shape[-1]))
        kinds = [least_squares_maps(latents)]
        if self.mapped:
            kinds.insert(0, self.maps(means.shape[-1], parameters))
        found = [map_distances(maps)[list(NORMS)].mean() for maps in kinds]
        apart = ~np.eye(self.members, dtype=bool)
        return [*np.concatenate(found).tolist(), float(dto_pairs(latents)[apart].mean())]

    def maps(self, latents: int, parameters: Mapping[str, Tensor]) -> np.ndarray:
        """Return the maps M_ij; M_ii are identities, and maps that are not learned are NaN."""
        learned = np.empty((self.members, 0, latents, latents), np.float32)
        if self.mapped:
            learned = parameters[f"{MAPS}/0.weight"].cpu().numpy()
        return maps_between(learned)

    def codes(self, nets: Nets, z: Tensor) -> Tensor:
        """Return the codes that each decoder can decode, `[M · n, 1 + others, B, d]`.

        The member's own codes z come first, followed by those mapped to it from the member one
        before it in cyclic order, two before it, and so on.
        """
        if not (self.mapped and (self.cross_reconstruction or self.alignment)):
            return z[:, None]
        sent = self.of_models(nets.apply[MAPS](z).to(z.dtype))  # [M, n, others, B, d]
        received = [
            part.roll(distance, 1) for distance, part in enumerate(sent.unbind(2), start=1)
        ]
        return torch.stack([self.of_models(z), *received], 2).flatten(0, 1)

    def regularizer(self, elbo: Elbo, own: Batch) -> Tensor:
        """Return each member's own objective without the reconstruction, `[M · n]`."""
        parts = _mixture(self.objective)
        found: dict[int, Tensor] = {}
        for place, (name, strength) in enumerate(parts):
            members = range(self.members)[place :: len(parts)]
            if not members:
                continue
            kind, field = OBJECTIVES[name]
            chosen = self.strength if strength is None else strength
            if isinstance(chosen, Tensor):
                chosen = for_members(chosen, len(members))
            subset = self.select_members(elbo, slice(place, None, len(parts)))
            values = kind(**{field: chosen}).regularizer(subset, own)
            found |= zip(members, values.unflatten(0, (-1, len(members))).unbind(1), strict=True)
        return torch.stack([found[member] for member in range(self.members)], 1).flatten()

    def select_members(self, elbo: Elbo, members: slice) -> Elbo:
        """Restrict ELBO terms to some members."""
        mu, logvar, *others = (
            self.of_models(values)[:, members].flatten(0, 1)
            for values in (elbo.posterior.mu, elbo.posterior.logvar, *elbo[1:])
        )
        return Elbo(Posterior(mu, logvar), *others)

    def weight(self, step: Tensor) -> Tensor:
        """Return γ at a step, `[M]`."""
        return (
            self.gamma * (step / self.gamma_steps).clamp(max=1) if self.gamma_steps else self.gamma
        )

    def of_models(self, values: Tensor) -> Tensor:
        """Reshape `[M · n, …]` to `[M, n, …]`."""
        return values.unflatten(0, (-1, self.members))


@dataclass(frozen=True, kw_only=True)
class EnsembleMember(VAEEnsemble):
    """One member of a trained ensemble as a separate model, with the ensemble's settings.

    The models in `Model.members` have this method; it cannot be trained on its own.
    """

    name = "vae_ensemble_member"
    label = "VAE ensemble member"

    @property
    def num_members(self) -> int:
        return 1

    def member_method(self) -> Method:
        return self

    def extra_networks(self, latents: int) -> NetworkGroups:  # noqa: ARG002
        return {}

    def maps(self, latents: int, parameters: Mapping[str, Tensor]) -> np.ndarray:  # noqa: ARG002
        raise UnweaveError(f"{self.name} models have no maps; use the maps of the ensemble")

    def losses(self, nets: Nets, batch: Batch) -> Losses:  # noqa: ARG002
        raise UnweaveError(
            f"{self.name} cannot be trained on its own; train vae_ensemble",
            subject="method",
        )


def maps_between(learned: np.ndarray) -> np.ndarray:
    """Return all maps M_ij of one ensemble, `[n, n, d, d]`; M_ii are identities.

    Args:
        learned: Maps to the next members in cyclic order, `[n, others, d, d]`. Missing maps are
            NaN in the result.
    """
    n, others, d, _ = learned.shape
    maps = np.full((n, n, d, d), np.nan, np.float32)
    maps[range(n), range(n)] = np.eye(d)
    for i in range(n):
        for k in range(others):
            maps[i, (i + k + 1) % n] = learned[i, k]
    return maps


def reconstructions(nets: Nets, codes: Tensor, images: Tensor) -> Tensor:
    """Compute -log p(x|z) of k sets of codes of the same images, one batch per decoder.

    Args:
        nets: Networks of the ensemble.
        codes: Codes `[M · n, k, B, d]`.
        images: Images `[M · n, B, H, W, C]`.

    Returns:
        Averages over images, `[M · n, k]`.
    """
    times, size = codes.shape[1:3]
    images = images[:, None].expand(-1, times, *images.shape[1:]).flatten(1, 2)
    losses = nets.likelihood(nets.decode(codes.flatten(1, 2)), images)
    return losses.unflatten(1, (times, size)).mean(-1)


def _mixture(objective: str) -> list[tuple[str, float | None]]:
    """Parse a mixture of objectives into names and optional strengths.

    Example:
        >>> _mixture("beta_vae + beta_tc_vae=4")
        [('beta_vae', None), ('beta_tc_vae', 4.0)]
    """
    parts: list[tuple[str, float | None]] = []
    for part in objective.split("+"):
        name, given, strength = (text.strip() for text in part.partition("="))
        if name not in OBJECTIVES:
            raise UnknownNameError("member objective", name, OBJECTIVES)
        try:
            value = float(strength) if given else None
        except ValueError:
            value = math.nan
        if value is not None and not 0 <= value < math.inf:
            raise UnweaveError(
                f"the strength of {name} must be at least 0 and finite, got {shown(strength)}",
                subject="objective",
                value=strength,
            )
        parts.append((name, value))
    return parts
