"""Training methods: one file each, with hyperparameters as fields and an objective."""

import inspect
from typing import Any

from unweave.errors import UnknownNameError, UnweaveError
from unweave.io.extensions import is_reference, plugin_objects, resolve
from unweave.methods.ada_gvae import AdaGVAE, AdaMLVAE
from unweave.methods.ae import AE
from unweave.methods.annealed_vae import AnnealedVAE
from unweave.methods.base import Losses, Method, Nets
from unweave.methods.batch import Batch, Posterior
from unweave.methods.beta_tc_vae import BetaTCVAE
from unweave.methods.beta_vae import BetaVAE
from unweave.methods.bio_ae import BioAE
from unweave.methods.cgan import CGAN
from unweave.methods.dava import DAVA
from unweave.methods.dip_vae import DIPVAEI, DIPVAEII
from unweave.methods.factor_vae import FactorVAE
from unweave.methods.from_factors import FromFactors
from unweave.methods.hfs import HFS
from unweave.methods.infogan import InfoGAN
from unweave.methods.isa_vae import ISATCVAE, ISAVAE
from unweave.methods.ivae import IVAE
from unweave.methods.jacobian import JacobianSupervision
from unweave.methods.jacobian_l1 import JacobianL1
from unweave.methods.mixins import (
    Auxiliary,
    CustomPrior,
    Diagnostics,
    Ensemble,
    KnownFactors,
    Pairs,
    Quantised,
    SecondStage,
)
from unweave.methods.ms_gan import MSGAN
from unweave.methods.ms_vae import MSVAE
from unweave.methods.pcl import PCL
from unweave.methods.qlae import QLAE
from unweave.methods.settings import PerModel, Strength
from unweave.methods.slow_vae import SlowVAE
from unweave.methods.tripod import Tripod
from unweave.methods.vae import VAE
from unweave.methods.vae_ensemble import EnsembleMember, VAEEnsemble

__all__ = [
    "AE",
    "CGAN",
    "DAVA",
    "DIPVAEI",
    "DIPVAEII",
    "EVERY",
    "GENERATORS",
    "HFS",
    "ISATCVAE",
    "ISAVAE",
    "IVAE",
    "METHODS",
    "MSGAN",
    "MSVAE",
    "PARTS",
    "PCL",
    "QLAE",
    "SECOND_STAGES",
    "VAE",
    "WEAKLY_SUPERVISED",
    "AdaGVAE",
    "AdaMLVAE",
    "AnnealedVAE",
    "Auxiliary",
    "Batch",
    "BetaTCVAE",
    "BetaVAE",
    "BioAE",
    "CustomPrior",
    "Diagnostics",
    "Ensemble",
    "EnsembleMember",
    "FactorVAE",
    "FromFactors",
    "InfoGAN",
    "JacobianL1",
    "JacobianSupervision",
    "KnownFactors",
    "Losses",
    "Method",
    "Nets",
    "Pairs",
    "PerModel",
    "Posterior",
    "Quantised",
    "SecondStage",
    "SlowVAE",
    "Strength",
    "Tripod",
    "VAEEnsemble",
]

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        VAE,
        BetaVAE,
        AnnealedVAE,
        FactorVAE,
        BetaTCVAE,
        DIPVAEI,
        DIPVAEII,
        AE,
        BioAE,
        HFS,
        JacobianL1,
        AdaGVAE,
        AdaMLVAE,
        VAEEnsemble,
        ISAVAE,
        ISATCVAE,
        SlowVAE,
        PCL,
        QLAE,
        Tripod,
        DAVA,
    )
}

SECOND_STAGES: dict[str, type[Method]] = {
    method.name: method for method in (MSVAE, JacobianSupervision, MSGAN, CGAN)
}
"""Methods that build on trained models of another method."""

GENERATORS: dict[str, type[Method]] = {method.name: method for method in (InfoGAN, FromFactors)}
"""Single-stage methods that generate images but do not reconstruct them."""

WEAKLY_SUPERVISED: dict[str, type[Method]] = {IVAE.name: IVAE}
"""Methods that encode images together with a known factor."""

EVERY: dict[str, type[Method]] = {
    **METHODS,
    **WEAKLY_SUPERVISED,
    **SECOND_STAGES,
    **GENERATORS,
}
"""All trainable methods, by name."""

PARTS: dict[str, type[Method]] = {EnsembleMember.name: EnsembleMember}
"""Methods that appear in saved models but cannot be trained on their own."""


def find_method(name: object) -> type[Method]:
    """Return the class of a method.

    Args:
        name: A name in `EVERY`, `package.module:Name`, or the `name` of a plugin's method. Values
            read from files may have any type.
    """
    if isinstance(name, str) and name in EVERY:
        return EVERY[name]
    if isinstance(name, str) and is_reference(name):
        found: type[Method] = resolve(name, "method", _is_custom_method)
        return found
    known = {**{method.name: method for method in plugin_objects(_is_custom_method)}, **EVERY}
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError("method", name, known)
    return known[name]


def known_method(name: str) -> type[Method] | None:
    """Return the class of a method in `EVERY`, `PARTS` or a plugin; None if it is unknown."""
    try:
        return PARTS[name] if name in PARTS else find_method(name)
    except UnweaveError:
        return None


def saved_name(kind: type[Method]) -> str:
    """Return a method's name in saved configs: `package.module:Name` for custom methods."""
    ours = {**EVERY, **PARTS}.get(kind.name)
    return kind.name if ours is kind else f"{kind.__module__}:{kind.__qualname__}"


def _is_custom_method(thing: Any) -> bool:
    return (
        isinstance(thing, type)
        and issubclass(thing, Method)
        and not inspect.isabstract(thing)
        and not thing.__module__.startswith("unweave.")
    )


def __dir__() -> list[str]:
    return sorted(__all__)
